# SPDX-License-Identifier: Apache-2.0
"""Operands and float64 answers of the kernels on tensor cores: products, attention, the gated delta rule."""

import math

import problems
import torch
from problems import Problem, empty, normal, silu


def finite(shape, dtype, deviation=1.0):
    return (torch.randn(shape, dtype=torch.float32) * deviation).to(problems.DTYPE[dtype])


ACTIVATIONS = [lambda x: x, silu, torch.nn.functional.gelu,
               lambda x: torch.nn.functional.gelu(x, approximate="tanh")]


def gemm_nt(types, M, N, K, bias=False, residual=False, activation=0):
    dtype = types["T"]
    a, b = normal((M, K), dtype), normal((N, K), dtype)
    shift = normal(N, dtype) if bias else None
    rest = finite((M, N), dtype) if residual else None
    c = a.double() @ b.double().T
    c = ACTIVATIONS[activation](c + (shift.double() if bias else 0))
    c = c + (rest.double() if residual else 0)
    return Problem({"c": empty((M, N), dtype), "a": a, "b": b, "bias": shift, "residual": rest},
                   {"c": c}, activation=activation)


gemm_small_m = gemm_nt


def attend(q, k, v, scale, seen):
    """q [heads, rows, D], k and v [kv_heads, keys, D] in float64; seen(rows, keys) is a mask.

    (o, natural logarithm of the denominator); rows that see nothing give 0 and minus infinity."""
    group = q.shape[0] // k.shape[0]
    k, v = k.repeat_interleave(group, 0), v.repeat_interleave(group, 0)
    score = (q @ k.transpose(1, 2)) * scale
    score = score.masked_fill(~seen, -math.inf)
    lse = torch.logsumexp(score, 2) if score.shape[2] else torch.full(score.shape[:2], -math.inf).double()
    weight = torch.exp(score - lse[..., None])
    weight = torch.where(seen.any(1)[None, :, None], weight, torch.zeros_like(weight))
    return weight @ v, lse


def flash_attention(types, batch, q_len, kv_len, kv_heads, group, head_dim, causal=1, scale=0.0, lse=True):
    dtype = types["T"]
    heads = kv_heads * group
    q = finite((batch, q_len, heads, head_dim), dtype)
    k, v = (finite((batch, kv_len, kv_heads, head_dim), dtype) for _ in "kv")
    if problems.SPECIAL and q.numel():
        q[0, 0, 0, 1] = math.nan  # spoils its own row and nothing else
    seen = torch.ones(q_len, kv_len, dtype=torch.bool)
    if causal:
        seen = torch.arange(kv_len)[None] <= torch.arange(q_len)[:, None] + kv_len - q_len
    o = torch.zeros(batch, q_len, heads, head_dim, dtype=torch.float64)
    logs = torch.zeros(batch, heads, q_len, dtype=torch.float64)
    for n in range(batch):
        rows, logs[n] = attend(*(t[n].double().transpose(0, 1) for t in (q, k, v)),
                               scale or head_dim ** -0.5, seen)
        o[n] = rows.transpose(0, 1)
    if problems.SPECIAL and q.numel() and not seen[0].any():
        o[0, 0, 0], logs[0, 0, 0] = 0, -math.inf
    expected = {"o": o} | ({"lse": logs} if lse else {})
    return Problem({"o": empty(q.shape, dtype), "lse": empty(logs.shape, "f32") if lse else None,
                    "q": q, "k": k, "v": v}, expected, causal=causal, scale=scale)


def paged_attention_decode(types, batch, kv_heads, group, pages, max_pages, page_size, head_dim, scale=0.0):
    dtype = types["T"]
    heads = kv_heads * group
    q = finite((batch, heads, head_dim), dtype)
    k, v = (finite((pages, page_size, kv_heads, head_dim), dtype) for _ in "kv")
    if problems.SPECIAL and q.numel():
        q[0, 0, 1] = math.nan
    table = torch.randint(0, max(pages, 1), (batch, max_pages), dtype=torch.int32)
    lengths = torch.randint(0, max_pages * page_size + 1, (batch,), dtype=torch.int32)
    if batch > 1:
        lengths[0], lengths[1] = max_pages * page_size, 0
    o = torch.zeros(batch, heads, head_dim, dtype=torch.float64)
    for n in range(batch):
        length = int(lengths[n])
        keys, values = (t[table[n].long()].reshape(-1, kv_heads, head_dim)[:length].double().transpose(0, 1)
                        for t in (k, v))
        seen = torch.ones(1, length, dtype=torch.bool)
        o[n] = attend(q[n].double()[:, None], keys, values, scale or head_dim ** -0.5, seen)[0][:, 0]
    if problems.SPECIAL and q.numel() and int(lengths[0]) > 0:
        o[0, 0] = math.nan
    return Problem({"o": empty(q.shape, dtype), "q": q, "k": k, "v": v, "table": table,
                    "lengths": lengths}, {"o": o}, scale=scale)


def delta_rule(q, k, v, g, beta, state, scale, normalise):
    """Token by token in float64: (o, state)."""
    q, k, v, g, beta = (t.double() for t in (q, k, v, g, beta))
    if normalise:
        q, k = (t / torch.sqrt((t * t).sum(-1, keepdim=True) + 1e-6) for t in (q, k))
    group = v.shape[2] // max(k.shape[2], 1)
    q, k = (t.repeat_interleave(group, 2) for t in (q, k))
    o = torch.zeros(v.shape, dtype=torch.float64)
    for t in range(q.shape[1]):
        state = state * torch.exp(g[:, t])[..., None, None]
        u = beta[:, t, :, None] * (v[:, t] - torch.einsum("bhkv,bhk->bhv", state, k[:, t]))
        state = state + k[:, t, :, :, None] * u[:, :, None]
        o[:, t] = torch.einsum("bhkv,bhk->bhv", state, q[:, t]) * scale
    return o, state


def _delta_operands(types, normalise, batch, tokens, k_heads, group, key_dim, value_dim):
    dtype = types["T"]
    heads = k_heads * group
    q, k = (finite((batch, tokens, k_heads, key_dim), dtype) for _ in "qk")
    v = finite((batch, tokens, heads, value_dim), dtype)
    if not normalise:  # a state that does not grow without end needs short keys
        k = (k.float() / math.sqrt(key_dim)).to(k.dtype)
    g = -0.2 * torch.rand(batch, tokens, heads)
    beta = torch.rand(batch, tokens, heads).to(problems.DTYPE[dtype])
    return dict(q=q, k=k, v=v, g=g, beta=beta), torch.randn(batch, heads, key_dim, value_dim)


def gated_delta_rule_decode(types, scale=0.0, normalise=1, **shape):
    operands, state = _delta_operands(types, normalise, **shape)
    if problems.SPECIAL and state.numel():
        state[0, 0, 0, 0] = math.nan  # spoils its own column
    o, after = delta_rule(**operands, state=state.double(), scale=scale or shape["key_dim"] ** -0.5,
                          normalise=normalise)
    return Problem({"o": empty(o.shape, types["T"]), "state": state, **operands},
                   {"o": o, "state": after}, scale=scale, normalise=normalise)


def gated_delta_rule(types, scale=0.0, normalise=1, initial=True, **shape):
    operands, state = _delta_operands(types, normalise, **shape)
    if problems.SPECIAL and initial and state.numel():
        state[0, 0, 0, 0] = math.nan
    o, after = delta_rule(**operands, state=state.double() * (1 if initial else 0),
                          scale=scale or shape["key_dim"] ** -0.5, normalise=normalise)
    return Problem({"o": empty(o.shape, types["T"]), "final": empty(state.shape, "f32") if initial else None,
                    "initial": state if initial else None, **operands},
                   {"o": o} | ({"final": after} if initial else {}), scale=scale, normalise=normalise)
