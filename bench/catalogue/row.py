# SPDX-License-Identifier: Apache-2.0
"""One line of the table: a kernel at a shape, and how others do the same."""

import functools
import sys
from dataclasses import dataclass, field
from typing import Callable

import torch

DTYPE = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16,
         "f8_e4m3": torch.float8_e4m3fn, "f8_e5m2": torch.float8_e5m2}


@dataclass
class Row:
    """`operands()` gives ours by name, on the GPU. `eager(operands)` computes the same with PyTorch; it is also
    compiled. `others(operands)` gives further rivals by name, each a call without arguments.

    `bytes` or `flops` of the manifest's [measure] are the roofline, whichever takes longer."""

    kernel: str
    types: dict
    shape: dict
    operands: Callable
    eager: Callable = None
    others: Callable = lambda operands: {}
    compiled: bool = True
    bytes: int = 0  # instead of the manifest's
    flops: int = 0
    note: str = ""
    scalars: dict = field(default_factory=dict)

    def compile(self):
        """`eager`, compiled once for this row's sizes."""
        if not hasattr(self, "_compile"):
            self._compile = torch.compile(self.eager, dynamic=False)
        return self._compile

    def name(self):
        sizes = " ".join(f"{k}={v}" for k, v in self.shape.items())
        return f"{sizes} {self.note}".strip()


def normal(*shape, dtype="bf16", deviation=1.0, mean=0.0):
    return (torch.randn(shape, device="cuda") * deviation + mean).to(DTYPE[dtype])


def empty(*shape, dtype="bf16"):
    return torch.empty(shape, device="cuda", dtype=DTYPE[dtype])


def optional(load):
    """`load()`'s rivals, or none, said aloud, where that library is not installed."""
    try:
        return load()
    except ImportError as error:
        left_out(str(error))
        return {}


@functools.cache
def left_out(why):
    print(f"a rival is left out: {why}", file=sys.stderr)
