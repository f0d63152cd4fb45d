# SPDX-License-Identifier: Apache-2.0
"""Why flash-linear-attention would run on the CPU. FLA asks Triton for the GPU when it is imported, takes any
error for "no GPU", and says no more than "roll back to CPU"; every choice of kernel follows from that. This
asks the same question and tells the answer.

    python -m cubinary.triton.fla [--json]

Exit 0: FLA would use the GPU; 1: it would not, and why.
"""

import importlib.util
import json
import os
import sys

# What the error says, and what to do: the first that matches.
_REASONS = (
    ("Failed to find C compiler", "Triton wants a C compiler for its host modules"),
    ("Python.h", "Triton's host modules need Python.h to compile"),
    (
        "libcuda.so cannot found",
        "libcuda.so.1 is not known to ldconfig: export TRITON_LIBCUDA_PATH=the folder that holds it",
    ),
    (
        "ldconfig",
        "there is no /sbin/ldconfig here: export TRITON_LIBCUDA_PATH=the folder that holds libcuda.so.1",
    ),
    (
        "active drivers",
        "torch sees no GPU: check the driver, the container's GPU option and CUDA_VISIBLE_DEVICES",
    ),
    ("Permission denied", "Triton's cache folder cannot be written: export TRITON_CACHE_DIR=a writable one"),
    (
        "Read-only file system",
        "Triton's cache folder cannot be written: export TRITON_CACHE_DIR=a writable one",
    ),
)
_HYDRATE = (
    ". A hydrated release makes that unnecessary: run `cubinary triton hydrate` before the program, and export what "
    "`cubinary triton env` prints"
)


def explain(error):
    """One sentence for an exception that FLA would have swallowed."""
    text = f"{type(error).__name__}: {error}"
    for pattern, reason in _REASONS:
        if pattern in text:
            return reason + (_HYDRATE if pattern in ("Failed to find C compiler", "Python.h") else "")
    if "returned non-zero exit status" in text:
        return "compiling a host module failed, most often because Python.h is missing" + _HYDRATE
    return (str(error) if type(error).__module__.startswith("cubinary") else text).strip().splitlines()[0]


def check():
    """{"device", "why", "notes"}: what FLA would run on, and what else decides its kernels."""
    found = {"device": "cpu", "why": "", "notes": []}
    if importlib.util.find_spec("triton") is None:
        return found | {"why": "Triton is not installed for this Python"}
    try:
        from triton.runtime import driver

        found["device"] = driver.active.get_current_target().backend
    except (Exception, SystemExit) as error:
        found["why"] = explain(error)
    if importlib.util.find_spec("fla") is None:
        found["notes"].append("flash-linear-attention is not installed for this Python")
    mode = os.environ.get("FLA_CACHE_MODE", "disabled")
    if mode != "disabled":
        found["notes"].append(
            f"FLA_CACHE_MODE={mode}: configs in FLA_CONFIG_DIR come before those of the release"
        )
    if not os.environ.get("TRITON_CACHE_MANAGER", "").startswith("cubinary.triton:"):
        found["notes"].append("TRITON_CACHE_MANAGER is not set: nothing is served from a release")
    return found


def main(arguments=None):
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments not in ([], ["--json"]):
        print(__doc__.strip(), file=sys.stderr)
        return 0 if arguments in (["-h"], ["--help"]) else 2
    found = check()
    if arguments:
        print(json.dumps(found, sort_keys=True))
    else:
        print(
            f"flash-linear-attention would run on: {found['device']}"
            + (f"\n  because {found['why']}" if found["why"] else "")
        )
        for note in found["notes"]:
            print(f"  note: {note}")
    return 0 if found["device"] != "cpu" else 1


if __name__ == "__main__":
    sys.exit(main())
