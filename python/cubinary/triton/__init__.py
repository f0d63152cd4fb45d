# SPDX-License-Identifier: Apache-2.0
"""Triton and flash-linear-attention where there is no compiler.

    TRITON_CACHE_MANAGER=cubinary.triton:CacheManager     serve kernels, host modules and tuned configs from a release
    TRITON_CACHE_MANAGER=cubinary.triton:CaptureManager   keep all that a program compiles and tunes, for a release

The program is not changed. `cubinary triton env` prints what to export. `import cubinary.triton` costs
nothing until one of the names below is used; none of them needs a GPU to be imported.
"""

from .errors import Missing, Tampered, UnsupportedTriton

__all__ = ["CacheManager", "CaptureManager", "Missing", "Tampered", "UnsupportedTriton", "install"]


def __getattr__(name):
    # The managers derive from Triton's own class, so they can only exist once Triton does.
    if name == "CacheManager":
        from .manager import CacheManager

        return CacheManager
    if name == "CaptureManager":
        from .capture import CaptureManager

        return CaptureManager
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def install():
    """Make Triton use the class that TRITON_CACHE_MANAGER names, and mend what must be mended before its
    first launch (`file`, `ldconfig` and `ptxas --version` are not run; the autotuner does not race).
    Called for every program by site/sitecustomize.py; harmless when the variable names another class."""
    import os

    wanted = os.environ.get("TRITON_CACHE_MANAGER", "")
    module, _, name = wanted.partition(":")
    if module == __name__ and name in ("CacheManager", "CaptureManager"):
        __getattr__(name)
        from . import prekey

        prekey.begin()
