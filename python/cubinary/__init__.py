# SPDX-License-Identifier: Apache-2.0
"""Load and launch ahead-of-time compiled, tuned GPU kernels.

    release = cubinary.open("https://kernels.example.com", keys=["release.pub"])
    rmsnorm = release.kernel("rmsnorm", T="bf16", rows=4096, cols=8192)
    rmsnorm(y, x, w)                # torch tensors, on the current stream

Needs libcubinary and the CUDA driver: no compiler, no CUDA toolkit, no headers.
"""

from .client import Info, Kernel, Release, open
from .errors import ArgumentError, Error
from .library import version

__all__ = ["ArgumentError", "Error", "Info", "Kernel", "Release", "open", "version"]
