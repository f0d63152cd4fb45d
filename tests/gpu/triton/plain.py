# SPDX-License-Identifier: Apache-2.0
"""A Triton program that knows nothing of Cubinary: an autotuned matrix product and an addition, checked against torch.
Prints one JSON object. `threads`: 20 rounds of 8 threads making the first call of one tuned kernel."""

import json
import sys
import threading
import time

import torch
import triton
import triton.language as tl


@triton.jit
def scaled(value, factor):
    return value * factor


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    tl.store(out + offs, scaled(tl.load(x + offs, mask=mask), 2.0) + tl.load(y + offs, mask=mask), mask=mask)


@triton.autotune(
    configs=[
        triton.Config({"BM": m, "BN": n, "BK": 32}, num_warps=w, num_stages=s)
        for m, n, w, s in ((64, 64, 4, 2), (128, 64, 4, 3), (128, 128, 8, 3), (64, 128, 4, 4))
    ],
    key=["m", "n", "k"],
)
@triton.jit
def matmul(a, b, c, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    cols = tl.program_id(1) * BN + tl.arange(0, BN)
    inner = tl.arange(0, BK)
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for start in range(0, k, BK):
        left = tl.load(a + rows[:, None] * k + (start + inner)[None, :])
        right = tl.load(b + (start + inner)[:, None] * n + cols[None, :])
        total = tl.dot(left, right, total)
    tl.store(c + rows[:, None] * n + cols[None, :], total.to(tl.float16))


@triton.autotune(
    configs=[triton.Config({"BLOCK": b}, num_warps=w) for b, w in ((256, 2), (512, 4), (1024, 8))], key=["n"]
)
@triton.jit
def increment(x, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + offs, tl.load(x + offs, mask=offs < n) + 1, mask=offs < n)


def product(a, b):
    c = torch.empty(a.shape[0], b.shape[1], device="cuda", dtype=torch.float16)
    m, k = a.shape
    n = b.shape[1]
    matmul[lambda meta: (triton.cdiv(m, meta["BM"]), triton.cdiv(n, meta["BN"]))](a, b, c, m, n, k)
    return c


def once():
    torch.manual_seed(0)
    a, b = (torch.randn(512, 512, device="cuda", dtype=torch.float16) for _ in range(2))
    torch.cuda.synchronize()
    start = time.perf_counter()
    c = product(a, b)
    torch.cuda.synchronize()
    first = time.perf_counter() - start
    x, y = torch.randn(100_003, device="cuda"), torch.randn(100_003, device="cuda")
    out, shifted = torch.empty_like(x), torch.empty(100_003, device="cuda")
    add[(triton.cdiv(x.numel(), 1024),)](x, y, out, x.numel(), BLOCK=1024)
    add[(triton.cdiv(x.numel() - 1, 1024),)](
        x[1:], y, shifted, x.numel() - 1, BLOCK=1024
    )  # another alignment
    error = (c.float() - a.float() @ b.float()).abs().max().item()
    right = (
        error < 0.5 and torch.allclose(out, 2 * x + y) and torch.allclose(shifted[:-1], 2 * x[1:] + y[:-1])
    )
    return {
        "first_launch_s": round(first, 3),
        "right": bool(right),
        "max_error": round(error, 4),
        "config": str(matmul.best_config),
    }


def race(rounds):
    died = []
    x = torch.zeros(1 << 16, device="cuda")
    torch.cuda.synchronize()
    for round_ in range(rounds):
        increment.cache.clear()
        start = threading.Barrier(8)

        def call():
            try:
                torch.cuda.set_device(0)
                start.wait()
                increment[lambda meta: (triton.cdiv(1 << 16, meta["BLOCK"]),)](x, (1 << 16) - 16 * round_)
            except Exception as error:
                died.append(f"{type(error).__name__}: {error}")

        threads = [threading.Thread(target=call) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    torch.cuda.synchronize()
    return {"calls": 8 * rounds, "died": len(died), "as": died[0] if died else ""}


if __name__ == "__main__":
    print(json.dumps(race(int(sys.argv[2])) if sys.argv[1:2] == ["threads"] else once()))
