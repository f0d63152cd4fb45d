# SPDX-License-Identifier: Apache-2.0
"""Load and launch ahead-of-time compiled, tuned GPU kernels.

    release = cubinary.open("https://kernels.example.com", keys=["release.pub"])
    rmsnorm = release.kernel("rmsnorm", T="bf16", rows=4096, cols=8192)
    rmsnorm(y, x, w)                # torch tensors, on the current stream

Needs libcubinary and the CUDA driver: no compiler, no CUDA toolkit, no headers.
"""

from .errors import ArgumentError, Error

__all__ = ["ArgumentError", "Error", "Info", "Kernel", "Release", "open", "version"]


def __getattr__(name):
    # The client when it is first used: the Triton plug-in, which lives in this package, starts with every program.
    if name in ("Info", "Kernel", "Release", "open"):
        from . import client as module
    elif name == "version":
        from . import library as module
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(module, name)


def __dir__():
    return sorted(set(globals()) | set(__all__))
