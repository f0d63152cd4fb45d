# SPDX-License-Identifier: Apache-2.0
"""swiglu, rope and the causal convolutions."""

import torch
import torch.nn.functional as F
from row import Row, empty, normal, optional


def swiglu(T, rows, cols, packed):
    def operands():
        if packed:
            gate, up = normal(rows, 2 * cols, dtype=T).split(cols, 1)
        else:
            gate, up = normal(rows, cols, dtype=T), normal(rows, cols, dtype=T)
        return dict(y=empty(rows, cols, dtype=T), gate=gate, up=up)

    def load(o):
        import fla.modules.activations as fla
        return {"fla": lambda: fla.swiglu(o["gate"], o["up"])}
    return Row("swiglu", {"T": T}, dict(rows=rows, cols=cols, stride=cols * (2 if packed else 1)), operands,
               lambda o: F.silu(o["gate"]) * o["up"], lambda o: optional(lambda: load(o)))


def rope(T, tokens, heads, head_dim, rotary, interleaved):
    table = 32768
    stride = heads * head_dim

    def operands():
        angles = torch.rand(table, rotary // 2, device="cuda") * 6.3
        return dict(y=empty(tokens, stride, dtype=T), x=normal(tokens, stride, dtype=T),
                    cos=angles.cos(), sin=angles.sin(), positions=None)

    def eager(o):
        x = o["x"].view(tokens, heads, head_dim)
        cos, sin = o["cos"][:tokens, None], o["sin"][:tokens, None]
        turned, rest = x[..., :rotary].float(), x[..., rotary:]
        if interleaved:
            a, b = turned[..., 0::2], turned[..., 1::2]
            turned = torch.stack((a * cos - b * sin, a * sin + b * cos), -1).flatten(-2)
        else:
            a, b = turned.chunk(2, -1)
            turned = torch.cat((a * cos - b * sin, a * sin + b * cos), -1)
        return torch.cat((turned.to(x.dtype), rest), -1)

    def load(o):
        import fla.modules.rotary.ops as fla
        x = o["x"].view(1, tokens, heads, head_dim)
        return {"fla": lambda: fla.rotary_embedding(x, o["cos"], o["sin"], interleaved=bool(interleaved))}
    return Row("rope", {"T": T}, dict(tokens=tokens, heads=heads, head_dim=head_dim, rotary=rotary,
                                      stride=stride, table=table, interleaved=interleaved),
               operands, eager, lambda o: optional(lambda: load(o)))


def causal_conv1d(T, batch, seq, dim, width=4):
    def operands():
        return dict(y=empty(batch, seq, dim, dtype=T), x=normal(batch, seq, dim, dtype=T),
                    w=normal(dim, width, dtype=T, deviation=0.5), bias=normal(dim, dtype=T), final=None,
                    initial=None)

    def eager(o):
        x = F.pad(o["x"].transpose(1, 2), (width - 1, 0))
        return F.silu(F.conv1d(x, o["w"][:, None], o["bias"], groups=dim)).transpose(1, 2)

    def sums(o):
        x = F.pad(o["x"], (0, 0, width - 1, 0)).float()
        w = o["w"].float()
        y = sum(x[:, k:k + seq] * w[:, k] for k in range(width)) + o["bias"].float()
        return F.silu(y).to(o["x"].dtype)

    def load(o):
        import fla.modules.causal_conv1d.ops as fla
        return {"fla": lambda: fla.causal_conv1d(o["x"], o["w"], o["bias"], activation="silu")}
    compiled = torch.compile(sums, dynamic=False)
    return Row("causal_conv1d", {"T": T}, dict(batch=batch, seq=seq, dim=dim, width=width), operands, eager,
               lambda o: {"compile (sums)": lambda: compiled(o)} | optional(lambda: load(o)),
               compiled=False, scalars=dict(activate=1))


def causal_conv1d_update(T, batch, dim, width=4):
    def operands():
        return dict(y=empty(batch, dim, dtype=T), state=normal(batch, width - 1, dim, dtype=T),
                    x=normal(batch, dim, dtype=T), w=normal(dim, width, dtype=T, deviation=0.5),
                    bias=normal(dim, dtype=T), slots=None)

    def eager(o):
        window = torch.cat((o["state"], o["x"][:, None]), 1)
        o["state"].copy_(window[:, 1:])
        return F.silu((window.float() * o["w"].t().float()).sum(1) + o["bias"].float()).to(o["x"].dtype)

    def load(o):
        import fla.modules.causal_conv1d.ops as fla
        x, cache = o["x"][:, None].clone(), normal(batch, dim, width, dtype=T)
        return {"fla": lambda: fla.causal_conv1d_update(x, cache, weight=o["w"], bias=o["bias"],
                                                        activation="silu")}
    return Row("causal_conv1d_update", {"T": T}, dict(batch=batch, dim=dim, states=batch, width=width),
               operands, eager, lambda o: optional(lambda: load(o)), scalars=dict(activate=1))


ROWS = [swiglu(T, r, c, p) for T, r, c, p in (
    ("bf16", 16384, 12288, True), ("bf16", 16384, 11008, False), ("bf16", 16384, 4095, False),
    ("bf16", 64, 12288, True), ("bf16", 1, 12288, True), ("f32", 8192, 12288, True))]
ROWS += [rope(T, t, h, d, r, i) for T, t, h, d, r, i in (
    ("bf16", 32768, 32, 128, 128, 0), ("bf16", 32768, 32, 128, 128, 1), ("bf16", 32768, 8, 128, 128, 0),
    ("bf16", 32768, 16, 256, 64, 0), ("bf16", 64, 32, 128, 128, 0), ("bf16", 1, 32, 128, 128, 0),
    ("f32", 16384, 32, 128, 128, 0))]
ROWS += [causal_conv1d(T, b, s, d) for T, b, s, d in (
    ("bf16", 4, 8192, 4096), ("bf16", 1, 8192, 8192), ("bf16", 1, 512, 8192), ("f32", 2, 8192, 4096))]
ROWS += [causal_conv1d_update("bf16", b, 8192) for b in (1, 64, 1024)]
