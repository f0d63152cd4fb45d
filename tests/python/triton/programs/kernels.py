# SPDX-License-Identifier: Apache-2.0
"""Kernels that the tests compile."""

import triton
import triton.language as tl

BIAS: tl.constexpr = tl.constexpr(3)


@triton.jit
def twice(x, y):
    return x * 2 + y


@triton.jit
def add(x, y, out, n, step, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    value = twice(tl.load(x + offs * step, mask=mask), tl.load(y + offs, mask=mask))
    tl.store(out + offs, value + BIAS, mask=mask)


@triton.jit
def scale(x, factor, n, KIND: tl.constexpr, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + offs, mask=offs < n) * factor
    tl.store(x + offs, value.to(KIND), mask=offs < n)


@triton.jit
def persistent(x, n, NUM_SMS: tl.constexpr, BLOCK: tl.constexpr):
    for block in range(tl.program_id(0), tl.cdiv(n, BLOCK), NUM_SMS):
        offs = block * BLOCK + tl.arange(0, BLOCK)
        tl.store(x + offs, tl.load(x + offs, mask=offs < n) + 1, mask=offs < n)


def configs(hook=None):
    return [
        triton.Config({"BLOCK": block}, num_warps=warps, pre_hook=hook)
        for block, warps in ((64, 1), (128, 2), (256, 4))
    ]


@triton.autotune(configs=configs(), key=["n"])
@triton.jit
def tuned(x, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + offs, tl.load(x + offs, mask=offs < n) + 1, mask=offs < n)


hooked_calls = []


@triton.autotune(configs=configs(lambda arguments: hooked_calls.append(arguments["n"])), key=["n"])
@triton.jit
def hooked(x, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + offs, tl.load(x + offs, mask=offs < n) + 2, mask=offs < n)


def drop_first(choices, arguments, **_):
    return choices[1:] if arguments["n"] else choices


@triton.autotune(
    configs=configs(),
    key=["n"],
    prune_configs_by={"early_config_prune": drop_first},
    reset_to_zero=["x"],
    restore_value=["x"],
)
@triton.jit
def pruned(x, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + offs, tl.load(x + offs, mask=offs < n) + 3, mask=offs < n)
