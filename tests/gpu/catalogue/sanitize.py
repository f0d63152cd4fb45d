# SPDX-License-Identifier: Apache-2.0
"""Launches the catalogue's kernels on small problems, for compute-sanitizer to watch:

    compute-sanitizer --tool memcheck --error-exitcode 9 python3 tests/gpu/catalogue/sanitize.py [--kernel GLOB]

Every operand is an allocation of its own, as long as the manifest says and no longer, and starts where its
alignment allows the least; results are not looked at (check.py does that). Without PyTorch, whose own
modules take the sanitizer minutes to patch. Exit status: 0 all launched, 1 not, 125 no GPU."""

import argparse
import os
import random
import struct
import sys
import time

from check import libraries
from driver import Driver, Launch
from manifest import SIZE

LARGEST = 4 << 20  # bytes of all operands: what Python fills in a moment


def encode(dtype, value):
    if dtype in ("f32", "f64", "f16"):
        return struct.pack({"f32": "<f", "f64": "<d", "f16": "<e"}[dtype], value)
    if dtype == "bf16":
        return struct.pack("<f", value)[2:]
    if dtype.startswith("f8"):
        return bytes([random.randrange(0x40)])
    return struct.pack({"i8": "<b", "u8": "<B", "i32": "<i", "i64": "<q", "bool": "<B"}[dtype], int(value))


def filled(manifest, argument, dtype, count, scope):
    """The bytes that the argument's `fill` asks for; a period of 4099 numbers, repeated."""
    kind, _, rest = argument.get("fill", "zero").partition("(")
    numbers = [part.strip() for part in rest.rstrip(")").split(",")] if rest else []
    few = min(count, 4099)
    if kind == "index":
        limit = manifest.evaluate(rest[:-1], scope)
        values = [random.randrange(max(limit, 1)) for _ in range(few)]
    elif kind == "range":
        return b"".join(encode(dtype, i) for i in range(count))
    elif kind in ("normal", "uniform"):
        a, b = map(float, numbers)
        draw = random.gauss if kind == "normal" else random.uniform
        values = [draw(a, b) for _ in range(few)]
    else:
        values = [float(numbers[0]) if kind == "const" else 0.0] * few
    return (b"".join(encode(dtype, v) for v in values) * -(-count // max(few, 1)))[:count * SIZE[dtype]]


class Memory:
    """The allocations of one launch."""

    def __init__(self):
        self.addresses = []

    def take(self, size):
        self.addresses.append(Driver.get().allocate(size))
        return self.addresses[-1]

    def zeroed(self, size):
        address = self.take(size)
        Driver.get().upload(address, bytes(size))
        return address

    def free(self):
        for address in self.addresses:
            Driver.get().free(address)


def operands(manifest, types, scope, memory, offset):
    """Addresses by name, each `offset` elements into its own allocation; null ones where `offset` is odd."""
    placed = {}
    for argument in manifest.arguments:
        kind = next((k for k in ("in", "out", "inout") if k in argument), None)
        if kind is None:
            continue
        dtype = types.get(argument[kind], argument[kind])
        count = manifest.evaluate(str(argument["len"]), scope)
        if argument.get("nullable") and offset % 2 == 1:
            placed[argument["name"]] = 0
            continue
        data = filled(manifest, argument, dtype, count, scope)
        shift = offset * SIZE[dtype]
        address = memory.take(max(shift + len(data), 1))
        if data:
            Driver.get().upload(address + shift, data)
        placed[argument["name"]] = address + shift
    return placed


def device():
    driver = Driver.get()
    return {"device.sm_count": driver.attribute(16), "target.smem_optin": driver.attribute(97),
            "target.max_threads": driver.attribute(1), "target.max_threads_per_sm": driver.attribute(39),
            "target.regs": driver.attribute(82), "target.cc": driver.attribute(75) * 10 + driver.attribute(76)}


def chosen(manifest, fixed, most):
    """The preferred config, then one launch of each code, `most` in all."""
    preferred = manifest.preferred(fixed)
    seen = {tuple(preferred[n] for n in manifest.code): preferred}
    for config in manifest.configs(fixed):
        seen.setdefault(tuple(config[n] for n in manifest.code), config)
        if len(seen) >= most:
            break
    return list(seen.values())


def small(manifest, compiled):
    """The manifest's small problems with these compiled axes; the first one changed, where it has none."""
    cases = manifest.data["check"]["also"]
    fit = [case for case in cases if all(case[axis] == value for axis, value in compiled.items())]
    return fit or [{**cases[0], **compiled}]


def run(library, types, compiled, info, most):
    """Launches made and launches skipped for their size."""
    manifest = library.manifest
    made = skipped = 0
    for shape in small(manifest, compiled):
        for offset in (0, 1):
            alignments = {a["name"]: 256 if offset == 0 else SIZE[types.get(dtype, dtype)]
                          for a in manifest.arguments
                          for dtype in [a.get("in") or a.get("out") or a.get("inout")] if dtype}
            fixed = manifest.fixed(types, shape, alignments, info)
            for config in chosen(manifest, fixed, most):
                scope = manifest.scope(config, fixed)
                size = sum(manifest.evaluate(str(a["len"]), scope) for a in manifest.arguments if "len" in a)
                if size > LARGEST:
                    skipped += 1
                    continue
                memory = Memory()
                placed = operands(manifest, types, scope, memory, offset)
                launch = Launch(library, types, shape, config, fixed, placed, memory.zeroed, lambda: 0)
                launch()
                Driver.get().wait()
                memory.free()
                made += 1
    return made, skipped


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--kernel", default="*", metavar="GLOB")
    parser.add_argument("--type", metavar="T", help="only this T, such as bf16")
    parser.add_argument("--configs", type=int, default=4, metavar="N", help="at most so many a shape")
    parser.add_argument("--cache", default="/tmp/cubinary-catalogue", metavar="DIR")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    options = parser.parse_args()
    os.makedirs(options.cache, exist_ok=True)
    random.seed(7)
    try:
        info = device()
    except (OSError, RuntimeError) as error:
        print(f"skipped: this needs a CUDA GPU ({error})")
        return 125
    started = time.monotonic()
    found = libraries(options.kernel, f"sm_{info['target.cc']}", options.cache, options.jobs)
    total = 0
    for (name, types, compiled), library in found.items():
        types, compiled = dict(types), dict(compiled)
        if options.type and types.get("T") != options.type:
            continue
        library.load()
        made, skipped = run(library, types, compiled, info, options.configs)
        total += made
        print(f"{name} {types} {compiled}: {made} launches" +
              (f", {skipped} too large to fill here" if skipped else ""), flush=True)
    print(f"sanitize: {total} launches of {len(found)} libraries in {time.monotonic() - started:.1f} s")
    return 0 if total else 1


if __name__ == "__main__":
    sys.exit(main())
