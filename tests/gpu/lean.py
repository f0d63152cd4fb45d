# SPDX-License-Identifier: Apache-2.0
"""What a Python program does in the lean root of lean.sh: opens a release, and launches rmsnorm on buffers of the plain
driver; compared with float64. Exit status: 0 right, 1 wrong, 125 no GPU, when all before the launch was well."""

import array
import ctypes
import math
import os
import random
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cubinary  # noqa: E402

ROWS, COLS, EPS = 64, 1024, 1e-5
H200 = "sm90-s132-l50M-b6144-m144G"


def check(status):
    if status:
        sys.exit(f"FAIL a driver call gave {status}")


class Buffer:
    """Device memory that says so."""

    def __init__(self, driver, values):
        data = array.array("f", values)
        pointer = ctypes.c_uint64()
        check(driver.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(4 * len(data))))
        check(driver.cuMemcpyHtoD_v2(pointer, ctypes.c_char_p(data.tobytes()), ctypes.c_size_t(4 * len(data))))
        self.driver, self.pointer, self.count = driver, pointer, len(data)
        self.__cuda_array_interface__ = {"data": (pointer.value, False), "shape": (len(data),), "typestr": "<f4",
                                         "version": 3}

    def read(self):
        raw = ctypes.create_string_buffer(4 * self.count)
        check(self.driver.cuCtxSynchronize())
        check(self.driver.cuMemcpyDtoH_v2(raw, self.pointer, ctypes.c_size_t(4 * self.count)))
        return array.array("f", raw.raw)


def main():
    try:
        driver = ctypes.CDLL("libcuda.so.1")
        there = driver.cuInit(0) == 0
    except OSError:
        there = False
    release = cubinary.open(cache="/cache", device_class=None if there else H200)
    rmsnorm = release.kernel("rmsnorm", T="f32", rows=ROWS, cols=COLS)
    print(rmsnorm.info.target, rmsnorm.info.match, rmsnorm.info.config)
    if not there:
        print("SKIP the launch: no usable libcuda.so.1")
        return 125

    context = ctypes.c_void_p()
    check(driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
    check(driver.cuCtxSetCurrent(context))
    numbers = random.Random(1)
    x = [numbers.gauss(0, 1) for _ in range(ROWS * COLS)]
    w = [numbers.uniform(0.5, 1.5) for _ in range(COLS)]
    y = Buffer(driver, [math.nan] * (ROWS * COLS))
    rmsnorm(y, Buffer(driver, x), Buffer(driver, w), eps=EPS)
    worst, got = 0.0, y.read()
    for row in range(ROWS):
        part = x[row * COLS : (row + 1) * COLS]
        scale = 1 / math.sqrt(sum(v * v for v in part) / COLS + EPS)
        for col in range(COLS):
            wanted = part[col] * scale * w[col]
            worst = max(worst, abs(got[row * COLS + col] - wanted) / (1e-6 + 1e-5 * abs(wanted)))
    print(f"rmsnorm f32 {ROWS} x {COLS}: largest error {worst:.3f} of the tolerance")
    return 0 if worst <= 1 else 1


if __name__ == "__main__":
    sys.exit(main())
