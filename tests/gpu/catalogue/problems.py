# SPDX-License-Identifier: Apache-2.0
"""What each kernel is checked on: its operands for a shape, and the float64 answer computed on the CPU."""

import math

import torch

DTYPE = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16,
         "f8_e4m3": torch.float8_e4m3fn, "f8_e5m2": torch.float8_e5m2, "i64": torch.int64,
         "i32": torch.int32}


class Problem:
    """Operands by name (CPU; None for null), what outputs must be (float64), and scalars.

    An output's operand is an uninitialised tensor; `inout` ones hold what they hold before."""

    def __init__(self, operands, expected, **scalars):
        self.operands = operands
        self.expected = expected
        self.scalars = scalars


SPECIAL = False  # put NaN and infinities into what `normal` makes


def normal(shape, dtype, deviation=1.0, mean=0.0):
    values = torch.randn(shape, dtype=torch.float32) * deviation + mean
    if SPECIAL and values.dim() > 1 and values.numel() > 0:
        rows = values.reshape(values.shape[0], -1)
        places = [math.nan, math.inf, -math.inf]
        for row, value in zip(rows, places):
            row[row.numel() // 2] = value
        if len(rows) > 3:
            rows[3] = -math.inf
        if len(rows) > 4:
            rows[4] = 0
    return values.to(DTYPE[dtype])


def silu(x):
    return x / (1 + torch.exp(-x))


def empty(shape, dtype):
    return torch.empty(shape, dtype=DTYPE[dtype])


def rmsnorm(types, rows, cols, residual=False):
    dtype = types["T"]
    x, w = normal((rows, cols), dtype), normal(cols, dtype, 0.2, 1)
    r = normal((rows, cols), dtype) if residual else None
    # The sum is rounded before it is normed: what comes next must see the residual that is stored.
    h = (x.float() + r.float()).to(x.dtype).double() if residual else x.double()
    y = h / torch.sqrt((h * h).mean(1, keepdim=True) + 1e-6) * w.double()
    expected = {"y": y} | ({"residual": h} if residual else {})
    return Problem({"y": empty((rows, cols), dtype), "x": x, "w": w, "residual": r}, expected)


def l2norm(types, rows, cols):
    x = normal((rows, cols), types["T"])
    d = x.double()
    y = d / torch.sqrt((d * d).sum(1, keepdim=True) + 1e-12)
    return Problem({"y": empty((rows, cols), types["T"]), "x": x}, {"y": y})


def layernorm(types, rows, cols, affine=True):
    dtype = types["T"]
    x = normal((rows, cols), dtype, 1, 3)
    w, b = (normal(cols, dtype, 0.2, 1), normal(cols, dtype)) if affine else (None, None)
    d = x.double()
    d = d - d.mean(1, keepdim=True)
    y = d / torch.sqrt((d * d).mean(1, keepdim=True) + 1e-5)
    y = y * w.double() + b.double() if affine else y
    return Problem({"y": empty((rows, cols), dtype), "x": x, "w": w, "b": b}, {"y": y})


def rmsnorm_gated(types, rows, cols):
    dtype = types["T"]
    x, g, w = normal((rows, cols), dtype), normal((rows, cols), dtype, 2), normal(cols, dtype, 0.2, 1)
    d = x.double()
    y = d / torch.sqrt((d * d).mean(1, keepdim=True) + 1e-6) * w.double() * silu(g.double())
    return Problem({"y": empty((rows, cols), dtype), "x": x, "g": g, "w": w}, {"y": y})


def softmax(types, rows, cols):
    x = normal((rows, cols), types["T"], 3)
    return Problem({"y": empty((rows, cols), types["T"]), "x": x},
                   {"y": torch.softmax(x.double(), 1) if cols else x.double()})


def cross_entropy(types, rows, cols):
    x = normal((rows, cols), types["T"], 3)
    target = torch.randint(0, max(cols, 1), (rows,))
    loss = torch.zeros(rows, dtype=torch.float64)
    lse = torch.logsumexp(x.double(), 1) if cols else torch.full((rows,), -math.inf).double()
    if cols:  # as log_softmax has it: infinity less infinity
        lse = torch.where((x.double() == math.inf).any(1), math.nan, lse)
    if rows > 2:
        target[1] = -100
        target[2] = cols
    for r in range(rows):
        t = int(target[r])
        loss[r] = 0 if t == -100 else lse[r] - x[r, t].double() if t < cols else math.nan
    return Problem({"loss": empty(rows, "f32"), "lse": empty(rows, "f32"), "x": x, "target": target},
                   {"loss": loss, "lse": lse})


def swiglu(types, rows, cols, stride):
    dtype = types["T"]
    if stride == 2 * cols:  # gate and up alternate in one matrix
        both = normal((rows, stride), dtype, 2)
        gate, up = both[:, :cols], both[:, cols:]
    else:
        both = normal((2, rows, stride), dtype, 2)
        gate, up = both[0, :, :cols], both[1, :, :cols]
    y = silu(gate.double()) * up.double()
    return Problem({"y": empty((rows, cols), dtype), "gate": gate, "up": up}, {"y": y})


def rope(types, tokens, heads, head_dim, rotary, stride, table, interleaved, positions=True):
    dtype = types["T"]
    x = normal((tokens, stride), dtype)
    angles = torch.rand(table, rotary // 2) * 6.3
    cos, sin = torch.cos(angles), torch.sin(angles)
    at = torch.randint(0, max(table, 1), (tokens,)) if positions else None
    pairs = min(rotary, head_dim) // 2
    y = x.double().clone()
    h = y[:, :heads * head_dim].reshape(tokens, heads, head_dim)
    index = at if positions else torch.arange(tokens)
    c, s = (t[index].double()[:, None, :pairs] for t in (cos, sin))
    low = slice(0, 2 * pairs, 2) if interleaved else slice(0, pairs)
    high = slice(1, 2 * pairs, 2) if interleaved else slice(pairs, 2 * pairs)
    a, b = h[..., low].clone(), h[..., high].clone()
    h[..., low], h[..., high] = a * c - b * s, a * s + b * c
    out = x[:, :heads * head_dim].double().clone()
    out[:] = h.reshape(tokens, heads * head_dim)
    return Problem({"y": empty((tokens, stride), dtype)[:, :heads * head_dim],
                    "x": x[:, :heads * head_dim], "cos": cos, "sin": sin, "positions": at},
                   {"y": out})


def quantize_f8(types, rows, cols, height, width):
    x = normal((rows, cols), types["T"])
    limit = {"f8_e4m3": 448.0, "f8_e5m2": 57344.0}[types["F"]]
    height, width = max(height, 1), max(width, 1)
    down, across = -(-rows // height), -(-cols // width)
    scale = torch.zeros(down, across, dtype=torch.float32)
    for i in range(down):
        band = x[i * height:(i + 1) * height].float().abs().amax(0)
        padded = torch.nn.functional.pad(band, (0, across * width - cols))
        scale[i] = padded.reshape(across, width).amax(1)
    scale = torch.clamp(scale / limit, min=2.0 ** -126)
    full = scale.repeat_interleave(height, 0)[:rows].repeat_interleave(width, 1)[:, :cols]
    y = (x.double() / full.double()).float().to(DTYPE[types["F"]]).double()
    return Problem({"y": empty((rows, cols), types["F"]), "scale": empty((down, across), "f32"), "x": x},
                   {"y": y, "scale": scale.double()})


def _convolve(window, w, bias, activate):
    """window [batch, steps + width - 1, dim] to [batch, steps, dim], in float64."""
    width = w.shape[1]
    steps = window.shape[1] - width + 1
    y = torch.zeros(window.shape[0], steps, window.shape[2], dtype=torch.float64)
    for k in range(width):
        y += window[:, k:k + steps].double() * w[:, k].double()
    y += bias.double() if bias is not None else 0
    return silu(y) if activate else y


def causal_conv1d(types, batch, seq, dim, width, bias=True, state=True, activate=1):
    dtype = types["T"]
    x, w = normal((batch, seq, dim), dtype), normal((dim, width), dtype, 0.5)
    b = normal(dim, dtype) if bias else None
    initial = normal((batch, width - 1, dim), dtype) if state else None
    past = initial if state else torch.zeros(batch, width - 1, dim, dtype=DTYPE[dtype])
    window = torch.cat([past, x], 1)
    expected = {"y": _convolve(window, w, b, activate)}
    final = None
    if state:
        final = empty((batch, width - 1, dim), dtype)
        expected["final"] = window[:, seq:].double()
    return Problem({"y": empty((batch, seq, dim), dtype), "final": final, "x": x, "w": w, "bias": b,
                    "initial": initial}, expected, activate=activate)


def causal_conv1d_update(types, batch, dim, states, width, bias=True, activate=1, slots=True):
    dtype = types["T"]
    x, w = normal((batch, dim), dtype), normal((dim, width), dtype, 0.5)
    b = normal(dim, dtype) if bias else None
    state = normal((states, width - 1, dim), dtype)
    index = torch.arange(batch)
    if slots:
        index = torch.randperm(max(states, batch))[:batch]  # those past the last state are refused
    y = torch.zeros(batch, dim, dtype=torch.float64)
    after = state.double()
    for n in range(batch):
        if index[n] < states:
            window = torch.cat([state[index[n]], x[n:n + 1]])[None]
            y[n] = _convolve(window, w, b, activate)[0, 0]
            after[index[n]] = window[0, 1:].double()
    return Problem({"y": empty((batch, dim), dtype), "state": state, "x": x, "w": w, "bias": b,
                    "slots": index.to(torch.int32) if slots else None},
                   {"y": y, "state": after}, activate=activate)


from matrix_problems import (flash_attention, gated_delta_rule, gated_delta_rule_decode,  # noqa: E402, F401
                             gemm_nt, gemm_small_m, paged_attention_decode)
