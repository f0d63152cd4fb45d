# SPDX-License-Identifier: Apache-2.0
"""Problems of more than 2^31 elements, on the GPU of this machine.

A small problem, which check.py compares with float64, is repeated until it passes 2^31 elements; what comes
out must be the small answer repeated, bit for bit. Also as many rows of one element, for the grid.

    python3 tests/gpu/catalogue/large.py [--cache DIR]      exit status as check.py's; needs 40 GiB"""

import argparse
import os
import sys

import check

# kernel, small shape, the axis that is repeated, operands that do not grow with it
CASES = [
    ("rmsnorm", dict(rows=4099, cols=128), "rows", {"w"}),
    ("rmsnorm", dict(rows=1048583, cols=1), "rows", {"w"}),
    ("l2norm", dict(rows=63, cols=32768), "rows", set()),
    ("l2norm", dict(rows=7, cols=8191), "rows", set()),
    ("layernorm", dict(rows=517, cols=4096), "rows", {"w", "b"}),
    ("rmsnorm_gated", dict(rows=4099, cols=128), "rows", {"w"}),
    ("softmax", dict(rows=1031, cols=1000), "rows", set()),
    ("cross_entropy", dict(rows=63, cols=50257), "rows", set()),
    ("swiglu", dict(rows=257, cols=4096, stride=8192), "rows", set()),
    ("swiglu", dict(rows=257, cols=1001, stride=1001), "rows", set()),
    ("quantize_f8", dict(rows=257, cols=1024, height=1, width=128), "rows", set()),
    ("rope", dict(tokens=517, heads=8, head_dim=128, rotary=128, stride=1024, table=999, interleaved=0),
     "tokens", {"cos", "sin"}),
    ("causal_conv1d", dict(batch=3, seq=1000, dim=512, width=4), "batch", {"w", "bias"}),
    ("causal_conv1d_update", dict(batch=257, dim=2048, states=257, width=4), "batch", {"w", "bias"}),
]


def run(name, small, axis, fixed_size, cache, info):
    import problems
    import torch
    from driver import Launch, Library
    from manifest import Manifest

    manifest = Manifest(check.KERNELS / name)
    types = {t: "bf16" if t == "T" else values[0] for t, values in manifest.types.items()}
    library = Library(manifest, types, {a: small[a] for a in manifest.compiled},
                      f"sm_{info['target.cc']}", cache)
    library.load()
    torch.manual_seed(3)
    extra = {"slots": False} if name == "causal_conv1d_update" else {}
    problem = getattr(problems, name)(types, **small, **extra)
    x = problem.operands["x" if name != "swiglu" else "gate"]
    times = 2 ** 31 // x.numel() + 1
    big = {**small, axis: small[axis] * times}
    if "states" in small:
        big["states"] = small["states"] * times
    outputs = [a["name"] for a in manifest.arguments if "out" in a or "inout" in a]

    def place(tensor, count):
        if tensor is None:
            return None
        # Whole rows, gaps included, so that repeats follow each other at the same stride.
        flat = torch.empty((tensor.shape[0] * count, *tensor.shape[1:]), dtype=tensor.dtype, device="cuda")
        if tensor.stride(0) != flat.stride(0):
            whole = torch.empty((tensor.shape[0] * count, tensor.stride(0)), dtype=tensor.dtype, device="cuda")
            flat = whole[:, :tensor.shape[1]]
        source = tensor.cuda()
        for i in range(count):
            flat[i * tensor.shape[0]:(i + 1) * tensor.shape[0]] = source
        return flat

    config = manifest.preferred(manifest.fixed(types, big, {}, info))
    results = []
    for shape, count in ((small, 1), (big, times)):
        operands = {n: place(t, 1 if n in fixed_size else count) for n, t in problem.operands.items()}
        fixed = manifest.fixed(types, shape, {}, info)
        Launch(library, types, shape, config, fixed, {**operands, **problem.scalars})()
        torch.cuda.synchronize()
        results.append({n: operands[n] for n in outputs if operands[n] is not None})
        del operands
    wrong = 0
    for n, little in results[0].items():
        bits = {1: torch.uint8, 2: torch.int16, 4: torch.int32}[little.element_size()]
        for i in range(times):
            part = results[1][n][i * little.shape[0]:(i + 1) * little.shape[0]]
            wrong += 0 if torch.equal(part.contiguous().view(bits), little.contiguous().view(bits)) else 1
    print(f"{name:22} {big} {x.numel() * times / 2 ** 31:.3f} x 2^31 elements: "
          f"{'right' if wrong == 0 else f'{wrong} of {times} parts WRONG'}", flush=True)
    torch.cuda.empty_cache()
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cache", default="/tmp/cubinary-catalogue")
    options = parser.parse_args()
    os.makedirs(options.cache, exist_ok=True)
    try:
        import torch
        available = torch.cuda.is_available()
    except ImportError:
        available = False
    if not available or torch.cuda.get_device_properties(0).total_memory < 45 << 30:
        print("skipped: this needs PyTorch and a GPU of 48 GiB or more")
        return 125
    info = check.device()
    return 1 if sum(run(*case, options.cache, info) for case in CASES) else 0


if __name__ == "__main__":
    sys.exit(main())
