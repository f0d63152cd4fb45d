# SPDX-License-Identifier: Apache-2.0
"""The device class of a GPU, `sm90-s132-l50M-b6144-m144G`: the silicon, not the product name. Rounded as
core/model/device_class.cpp does."""

import functools
import math
import re

# CUdevice_attribute: multiprocessors, L2 bytes, memory bus bits, capability major and minor.
_MULTIPROCESSORS, _L2_BYTES, _BUS_BITS, _MAJOR, _MINOR = 16, 38, 37, 75, 76
_STEP = 8 << 30


def class_from_attributes(major, minor, multiprocessors, l2_bytes, bus_bits, memory_bytes):
    mebi = 1 << 20
    return (
        f"sm{major}{minor}-s{multiprocessors}-l{(l2_bytes + mebi // 2) // mebi}M-b{bus_bits}"
        f"-m{(memory_bytes + _STEP // 2) // _STEP * 8}G"
    )


@functools.lru_cache
def device_class(ordinal=0):
    """The class of one of this process's GPUs; "" when there is no driver or no such device."""
    import ctypes  # here, as everything that a hit can do without

    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return ""
    if cuda.cuInit(0) != 0:
        return ""
    device = ctypes.c_int()
    if cuda.cuDeviceGet(ctypes.byref(device), ctypes.c_int(ordinal)) != 0:
        return ""

    def attribute(which):
        value = ctypes.c_int()
        return value.value if cuda.cuDeviceGetAttribute(ctypes.byref(value), which, device) == 0 else 0

    memory = ctypes.c_size_t()
    if cuda.cuDeviceTotalMem_v2(ctypes.byref(memory), device) != 0:
        return ""
    return class_from_attributes(
        attribute(_MAJOR),
        attribute(_MINOR),
        attribute(_MULTIPROCESSORS),
        attribute(_L2_BYTES),
        attribute(_BUS_BITS),
        memory.value,
    )


_CLASS = re.compile(r"sm(\d+)(\d)-s(\d+)-l(\d+)M-b(\d+)-m(\d+)G")


def facts(text):
    """(major, minor, SM count, L2 MiB, bus bits, memory GiB) of a class; None when it is none."""
    match = _CLASS.fullmatch(text)
    return tuple(map(int, match.groups())) if match else None


def distance(first, second):
    """How unlike two classes are, as core/model/device_class.hpp: sum of |log2| of the parts, plus 4 for
    another minor and 64 for another major capability."""
    a, b = facts(first), facts(second)
    if a is None or b is None:
        return math.inf
    apart = 64.0 * (a[0] != b[0]) + 4.0 * (a[0] == b[0] and a[1] != b[1])
    return apart + sum(abs(math.log2(max(x, 1) / max(y, 1))) for x, y in zip(a[2:], b[2:]))


def nearest(wanted, classes):
    """The class to take results from: the wanted one, else the nearest of the same capability; None."""
    if wanted in classes:
        return wanted
    want = facts(wanted)
    same = [c for c in classes if want and facts(c) and facts(c)[:2] == want[:2]]
    return min(same, key=lambda c: (distance(wanted, c), c), default=None)
