# SPDX-License-Identifier: Apache-2.0
"""Row-wise kernels: norms, softmax, cross entropy, quantisation."""

import torch
import torch.nn.functional as F
from row import Row, empty, normal, optional

M = 1 << 20
BIG = {"bf16": [(M, 128), (131072, 1024), (32768, 4096), (16384, 8192), (4096, 32768), (32768, 4095)],
       "f32": [(524288, 128), (16384, 4096), (2048, 32768)]}
SMALL = [(1, 4096), (64, 4096)]


def shapes():
    for T, sizes in BIG.items():
        for rows, cols in sizes + (SMALL if T == "bf16" else []):
            yield T, rows, cols


def fla_norm(name, *arguments, **named):
    def load():
        import fla.modules.norm.layernorm as fla
        call = getattr(fla, name)
        return {"fla": lambda: call(*arguments, **named)}
    return optional(load)


def rmsnorm(T, rows, cols):
    def operands():
        return dict(y=empty(rows, cols, dtype=T), x=normal(rows, cols, dtype=T),
                    w=normal(cols, dtype=T, deviation=0.2, mean=1), residual=None)
    return Row("rmsnorm", {"T": T}, dict(rows=rows, cols=cols), operands,
               lambda o: F.rms_norm(o["x"], (cols,), o["w"], 1e-6),
               lambda o: fla_norm("rms_norm", o["x"], o["w"], None, eps=1e-6),
               bytes=(2 * rows * cols + cols) * (4 if T == "f32" else 2))


def added_rmsnorm(T, rows, cols):
    def operands():
        return dict(y=empty(rows, cols, dtype=T), x=normal(rows, cols, dtype=T),
                    w=normal(cols, dtype=T, deviation=0.2, mean=1), residual=normal(rows, cols, dtype=T))

    def eager(o):
        h = o["x"] + o["residual"]
        return F.rms_norm(h, (cols,), o["w"], 1e-6), h
    return Row("rmsnorm", {"T": T}, dict(rows=rows, cols=cols), operands, eager,
               lambda o: fla_norm("rms_norm", o["x"], o["w"], None, residual=o["residual"], eps=1e-6,
                                  prenorm=True), note="+residual")


def l2norm(T, rows, cols):
    def operands():
        return dict(y=empty(rows, cols, dtype=T), x=normal(rows, cols, dtype=T))

    def load(o):
        import fla.modules.norm.l2norm as fla
        return {"fla": lambda: fla.l2norm(o["x"])}
    return Row("l2norm", {"T": T}, dict(rows=rows, cols=cols), operands,
               lambda o: F.normalize(o["x"], dim=-1), lambda o: optional(lambda: load(o)))


def layernorm(T, rows, cols):
    def operands():
        return dict(y=empty(rows, cols, dtype=T), x=normal(rows, cols, dtype=T),
                    w=normal(cols, dtype=T, deviation=0.2, mean=1), b=normal(cols, dtype=T))
    return Row("layernorm", {"T": T}, dict(rows=rows, cols=cols), operands,
               lambda o: F.layer_norm(o["x"], (cols,), o["w"], o["b"], 1e-5),
               lambda o: fla_norm("layer_norm", o["x"], o["w"], o["b"], eps=1e-5))


def rmsnorm_gated(T, rows, cols):
    def operands():
        return dict(y=empty(rows, cols, dtype=T), x=normal(rows, cols, dtype=T),
                    g=normal(rows, cols, dtype=T), w=normal(cols, dtype=T, deviation=0.2, mean=1))

    def load(o):
        import fla.modules.norm.fused_norm_gate as fla
        return {"fla": lambda: fla.rms_norm_gated(o["x"], o["g"], o["w"], None, eps=1e-6)}
    return Row("rmsnorm_gated", {"T": T}, dict(rows=rows, cols=cols), operands,
               lambda o: F.rms_norm(o["x"], (cols,), o["w"], 1e-6) * F.silu(o["g"]),
               lambda o: optional(lambda: load(o)))


def softmax(T, rows, cols):
    def operands():
        return dict(y=empty(rows, cols, dtype=T), x=normal(rows, cols, dtype=T, deviation=3))
    return Row("softmax", {"T": T}, dict(rows=rows, cols=cols), operands,
               lambda o: torch.softmax(o["x"], -1))


def cross_entropy(T, rows, cols):
    def operands():
        return dict(loss=empty(rows, dtype="f32"), lse=None, x=normal(rows, cols, dtype=T, deviation=3),
                    target=torch.randint(0, cols, (rows,), device="cuda"))

    def load(o):
        import fla.modules.fused_cross_entropy.ops as fla
        return {"fla": lambda: fla.cross_entropy_loss(o["x"], o["target"])}
    return Row("cross_entropy", {"T": T}, dict(rows=rows, cols=cols), operands,
               lambda o: F.cross_entropy(o["x"], o["target"], reduction="none"),
               lambda o: optional(lambda: load(o)))


def quantize_f8(T, rows, cols, height, width):
    def operands():
        across = cols // width
        return dict(y=empty(rows, cols, dtype="f8_e4m3"), x=normal(rows, cols, dtype=T),
                    scale=torch.empty(-(-rows // height), across, device="cuda"))

    def eager(o):
        x = o["x"].view(rows // height, height, cols // width, width)
        scale = x.abs().amax((1, 3), keepdim=True).float() / 448
        return (x.float() / scale).to(torch.float8_e4m3fn).view(rows, cols), scale
    return Row("quantize_f8", {"T": T, "F": "f8_e4m3"},
               dict(rows=rows, cols=cols, height=height, width=width), operands, eager)


ROWS = [make(*shape) for make in (rmsnorm, l2norm, layernorm, softmax) for shape in shapes()]
ROWS += [added_rmsnorm("bf16", r, c) for r, c in ((131072, 1024), (32768, 4096), (64, 4096))]
ROWS += [rmsnorm_gated(T, r, c) for T, r, c in (
    ("bf16", M, 128), ("bf16", 262144, 256), ("bf16", 32768, 4096), ("bf16", 32, 128), ("f32", 262144, 128))]
ROWS += [cross_entropy(T, r, c) for T, r, c in (
    ("bf16", 8192, 32768), ("bf16", 4096, 151936), ("bf16", 4096, 50257), ("bf16", 64, 151936),
    ("f32", 2048, 151936))]
ROWS += [quantize_f8("bf16", r, c, h, w) for r, c, h, w in (
    (32768, 4096, 1, 4096), (32768, 4096, 1, 128), (16384, 7168, 1, 128), (16384, 7168, 128, 128),
    (32768, 4095, 1, 4095), (64, 7168, 1, 128))]
