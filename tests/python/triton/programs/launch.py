# SPDX-License-Identifier: Apache-2.0
"""A program that launches kernels and knows nothing of Cubinary. Prints what it did as one JSON object."""

import ctypes
import json
import os
import sys
import threading

started, written = [], []


def watch(event, arguments):
    if event in ("subprocess.Popen", "os.exec", "os.posix_spawn", "os.system"):
        started.append(str(arguments[0]))
    elif event == "open" and arguments[1] is not None and set(str(arguments[1])) & set("wax+"):
        written.append(str(arguments[0]))
    elif event in ("os.mkdir", "os.rename", "os.remove"):
        written.append(str(arguments[0]))


if os.environ.get("WATCH"):
    sys.addaudithook(watch)

import torch  # noqa: E402
import kernels  # noqa: E402
import triton.language as tl  # noqa: E402

x, y, odd = torch.Tensor(), torch.Tensor(torch.float16), torch.Tensor(torch.float32, (1 << 20) + 8)
benched = []


def bench(call, quantiles=None, **_):
    """Times that favour the second config, without a clock."""
    call()
    benched.append(1)
    return [{1: 3.0, 2: 1.0}.get(len(benched) % 3, 2.0)] * 3


for tuner in (kernels.tuned, kernels.hooked, kernels.pruned):
    if isinstance(tuner, object) and hasattr(tuner, "_do_bench"):
        tuner._do_bench = bench
    tuner.do_bench = bench


def run(what):
    if what == "add":
        kernels.add[(4,)](x, odd, x, 1024, 1, BLOCK=128)
        kernels.add[(4,)](y, y, y, 1001, 1 << 40, BLOCK=256, num_warps=8)
    elif what == "scale":
        kernels.scale[(4,)](x, 1.5, 16, KIND=tl.float32, BLOCK=64)
    elif what == "persistent":
        kernels.persistent[(1,)](x, 4096, NUM_SMS=132, BLOCK=64)
    elif what == "threads":
        errors = []

        def call(size):
            try:
                for _ in range(3):
                    kernels.tuned[(4,)](x, size)
                    kernels.pruned[(4,)](x, size)
            except BaseException as error:
                errors.append(f"{type(error).__name__}: {error}")

        for round_ in range(5):
            threads = [
                threading.Thread(target=call, args=(1024 + 16 * (round_ + index % 2),)) for index in range(8)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        return {"errors": errors}
    else:
        tuner = getattr(kernels, what)
        tuner[(4,)](x, 4096)
        return {"best": str(tuner.best_config)}
    return {}


report = {}
for name in sys.argv[1:]:
    report |= {name: run(name)}
driver = ctypes.CDLL("libcuda.so.1")
print(
    json.dumps(
        report
        | {
            "launches": driver.stub_launches(),
            "started": started,
            "written": written,
            "benched": len(benched),
            "hook_calls": len(kernels.hooked_calls),
        }
    )
)
