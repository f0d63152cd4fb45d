# SPDX-License-Identifier: Apache-2.0
"""The shapes each kernel is checked on: one row, primes, no multiple of any vector, empty, long, many rows."""

from matrix_cases import MATRIX_CASES

ROWS = [dict(rows=r, cols=c) for r, c in (
    (1, 1), (1, 4096), (3, 1000), (7, 8191), (257, 127), (33, 5), (64, 4096), (1031, 1024), (1061, 257), (4097, 96),
    (4096, 128), (5, 65536), (2, 200003), (13, 32768), (0, 128), (5, 0), (3, 17), (9, 250))]

_ROPE = dict(tokens=5, heads=3, head_dim=96, rotary=32, stride=300, table=7)
_CONV = dict(batch=3, seq=37, dim=72)

CASES = {
    "rmsnorm": ROWS + [dict(shape, residual=True) for shape in ROWS],
    "l2norm": ROWS,
    "layernorm": ROWS + [dict(rows=33, cols=1000, affine=False)],
    "rmsnorm_gated": ROWS,
    "softmax": ROWS,
    "cross_entropy": ROWS + [dict(rows=3, cols=50257), dict(rows=2, cols=151936)],
    "swiglu": [dict(rows=s["rows"], cols=s["cols"], stride=s["cols"] * k) for s in ROWS for k in (1, 2)]
              + [dict(rows=3, cols=33, stride=71)],
    "rope": [dict(shape, interleaved=i) for i in (0, 1) for shape in (
        _ROPE, dict(_ROPE, positions=False), dict(_ROPE, rotary=96), dict(_ROPE, rotary=14),
        dict(_ROPE, rotary=0), dict(_ROPE, rotary=15, head_dim=17, stride=51), dict(_ROPE, tokens=0),
        dict(tokens=1, heads=32, head_dim=128, rotary=128, stride=4096, table=100),
        dict(tokens=1001, heads=8, head_dim=128, rotary=128, stride=3072, table=4096),
        dict(tokens=517, heads=16, head_dim=256, rotary=64, stride=4096, table=999))],
    "quantize_f8": [dict(rows=s["rows"], cols=s["cols"], height=1, width=s["cols"]) for s in ROWS] + [
        dict(rows=r, cols=c, height=h, width=w) for r, c, h, w in (
            (4096, 1024, 1, 128), (33, 1000, 1, 128), (300, 1000, 128, 128), (256, 512, 128, 128),
            (7, 131, 3, 16), (5, 64, 1, 1), (3, 40, 0, 0))],
    "causal_conv1d": [dict(shape, width=width, **more) for width in (2, 3, 4) for shape in (
        _CONV, dict(_CONV, dim=33), dict(batch=1, seq=1, dim=64), dict(batch=2, seq=2, dim=129),
        dict(batch=2, seq=300, dim=64), dict(batch=1, seq=2053, dim=40), dict(batch=0, seq=3, dim=8),
        dict(batch=2, seq=0, dim=64)) for more in (dict(), dict(bias=False, state=False, activate=0))],
    "causal_conv1d_update": [dict(shape, width=width, **more) for width in (2, 3, 4) for shape in (
        dict(batch=3, dim=72, states=5), dict(batch=7, dim=33, states=3), dict(batch=1, dim=1, states=1),
        dict(batch=64, dim=2048, states=100), dict(batch=0, dim=64, states=4))
        for more in (dict(), dict(bias=False, activate=0, slots=False))],
    **MATRIX_CASES,
}
