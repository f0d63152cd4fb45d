# SPDX-License-Identifier: Apache-2.0
"""Times every valid config of a kernel on a few shapes: what a manifest's `prefer` is written from.

    python3 tests/gpu/catalogue/sweep.py [--kernel GLOB] [--seconds N] [--top N] [--json FILE]
"""

import argparse
import json
import os
import random
import time

import check
import torch
from driver import Launch
from manifest import Manifest
from operands import alignment
from problems import DTYPE
from timing import Clock

M = 1 << 20
SHAPES = {
    **{name: [dict(rows=r, cols=c) for r, c in (
        (M, 128), (131072, 1024), (32768, 4096), (16384, 8192), (4096, 32768), (32768, 4095), (26000, 5000),
        (1, 4096), (64, 4096), (1, 32768))]
       for name in ("rmsnorm", "l2norm", "layernorm", "softmax")},
    "rmsnorm_gated": [dict(rows=r, cols=c) for r, c in (
        (M, 128), (262144, 256), (32768, 4096), (32768, 4095), (32, 128), (1, 4096))],
    "cross_entropy": [dict(rows=r, cols=c) for r, c in (
        (8192, 32768), (4096, 151936), (4096, 50257), (1, 151936), (64, 151936))],
    "swiglu": [dict(rows=r, cols=c, stride=s) for r, c, s in (
        (16384, 12288, 24576), (16384, 11008, 11008), (16384, 4095, 8190), (1, 12288, 24576), (64, 12288, 24576))],
    "rope": [dict(tokens=t, heads=h, head_dim=d, rotary=r, stride=s, table=32768, interleaved=i)
             for t, h, d, r, s in ((32768, 32, 128, 128, 4096), (32768, 8, 128, 128, 1024),
                                   (32768, 16, 256, 64, 4096), (1, 32, 128, 128, 4096),
                                   (64, 32, 128, 128, 4096)) for i in (0, 1)],
    "quantize_f8": [dict(rows=r, cols=c, height=h, width=w) for r, c, h, w in (
        (32768, 4096, 1, 4096), (32768, 4096, 1, 128), (16384, 7168, 1, 128), (16384, 7168, 128, 128),
        (32768, 4095, 1, 4095), (1, 4096, 1, 128), (64, 7168, 1, 128))],
    "causal_conv1d": [dict(batch=b, seq=s, dim=d, width=4) for b, s, d in (
        (4, 8192, 4096), (1, 8192, 8192), (8, 4096, 2048), (1, 512, 8192), (1, 64, 8192))],
    "causal_conv1d_update": [dict(batch=b, dim=d, states=b, width=4) for b, d in (
        (1, 8192), (64, 8192), (256, 8192), (4096, 8192))],
}


def operands(manifest, types, shape, fixed):
    """Random data of every argument's length, contiguous and aligned."""
    found = {}
    scope = manifest.scope({}, fixed)
    for a in manifest.arguments:
        kind = next((k for k in ("in", "out", "inout") if k in a), None)
        if kind is None:
            continue
        dtype = DTYPE[types.get(a[kind], a[kind])]
        length = manifest.evaluate(a["len"], scope)
        if a.get("nullable") and a["name"] in ("residual", "lse", "initial", "final"):
            found[a["name"]] = None
        elif a["name"] in ("target", "positions", "slots"):
            limit = shape.get("cols") or shape.get("table") or shape.get("states")
            found[a["name"]] = torch.arange(length, device="cuda").remainder(limit).to(dtype)
        else:
            found[a["name"]] = torch.randn(length, device="cuda").to(dtype)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kernel", default="*")
    parser.add_argument("--types", nargs="*", default=["bf16", "f32"])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--top", type=int, default=3)
    parser.add_argument("--each", type=int, default=150, help="configs a shape, at most")
    parser.add_argument("--samples", type=int, default=5)
    parser.add_argument("--json")
    parser.add_argument("--cache", default="/tmp/cubinary-catalogue")
    options = parser.parse_args()
    os.makedirs(options.cache, exist_ok=True)
    info = check.device()
    libraries = check.libraries(options.kernel, f"sm_{info['target.cc']}", options.cache, os.cpu_count())
    deadline = time.monotonic() + options.seconds
    clock = Clock()
    clock.settle()
    rate = clock.copy_rate()
    print(f"copy: {rate:.0f} GB/s")
    results = []
    jobs = [(name, T, shape) for name in sorted({k[0] for k in libraries}) if name in SHAPES
            for shape in SHAPES[name] for T in options.types]
    for at, (name, T, shape) in enumerate(jobs):
        manifest = Manifest(check.KERNELS / name)
        types = {t: T if t == "T" else values[0] for t, values in manifest.types.items()}
        axes = {a: shape[a] for a in manifest.compiled}
        library = libraries[check.key(name, types, axes)]
        if not hasattr(library, "module"):
            library.load()
        shape = dict(shape)
        fixed = manifest.fixed(types, shape, {}, info)
        tensors = operands(manifest, types, shape, fixed)
        fixed = manifest.fixed(types, shape, {n: alignment(t) for n, t in tensors.items() if t is not None}, info)
        preferred = manifest.preferred(fixed)
        configs = [c for c in manifest.configs(fixed) if c != preferred]
        random.Random(3).shuffle(configs)
        every = len(configs)
        configs = [preferred, *configs[:options.each]]
        allowed = (deadline - time.monotonic()) / (len(jobs) - at)
        if allowed < 0:
            print("out of time")
            break
        begun, timed = time.monotonic(), []
        for start in range(0, len(configs), 16):
            some = configs[start:start + 16]
            launches = [Launch(library, types, shape, c, fixed, tensors) for c in some]
            timed += zip(clock.microseconds(launches, options.samples, 1), some)
            if time.monotonic() - begun > allowed:
                break
        needed = manifest.evaluate(manifest.data["measure"]["bytes"], manifest.scope({}, fixed))
        if name == "rmsnorm":
            needed //= 2
        first = timed[0][0]
        timed.sort(key=lambda t: t[0])
        brief = lambda c: " ".join(f"{k}={v}" for k, v in c.items())
        share = lambda t: f"{needed / t / 1e3 / rate * 100:4.0f}%"
        print(f"{name} {T} {brief(shape)}: {len(timed)} of {every + 1}; preferred {first:.1f} us {share(first)} {brief(preferred)}")
        for t, c in timed[:options.top]:
            print(f"      {t:8.1f} us {share(t)} {brief(c)}", flush=True)
        results.append(dict(kernel=name, T=T, shape=shape, bytes=needed, copy=rate,
                            timed=[[t, *c.values()] for t, c in timed], names=list(preferred)))
    if options.json:
        with open(options.json, "w") as out:
            json.dump(results, out)


if __name__ == "__main__":
    main()
