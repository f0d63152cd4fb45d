# SPDX-License-Identifier: Apache-2.0
"""Lay a release down when a program first needs it: CUBINARY_TRITON_SOURCE and CUBINARY_TRITON_KEY, through
libcubinary, which checks the signature and every digest. Several processes may do it at once."""

import ctypes
import os


def fill(folder, index_name):
    """Hydrate `folder` unless it has an index already, or no source was named. Raises cubinary.Error, with what
    libcubinary says."""
    source = os.environ.get("CUBINARY_TRITON_SOURCE", "")
    if not source or os.path.exists(os.path.join(folder, index_name)):
        return
    from .. import library
    from ..errors import Error

    keys = [key for key in os.environ.get("CUBINARY_TRITON_KEY", "").split(":") if key]
    if not keys:
        raise Error(
            "usage",
            "CUBINARY_TRITON_SOURCE names a release, but CUBINARY_TRITON_KEY names no public key to check "
            "it with: export CUBINARY_TRITON_KEY=release.pub",
        )
    loaded = library.load()
    try:
        hydrate = loaded.cubinary_triton_hydrate
    except AttributeError:
        raise Error(
            "environment",
            f"this libcubinary ({library.version()}) cannot hydrate: run `cubinary-fetch hydrate {source} "
            f"--key {keys[0]} --cache {folder}` before the program",
        ) from None
    hydrate.restype, hydrate.argtypes = ctypes.c_int, [ctypes.POINTER(library.Options), ctypes.c_char_p]
    options = library.make(library.Options)
    options.source = source.encode()
    array = (ctypes.c_char_p * len(keys))(*[key.encode() for key in keys])
    options.keys, options.key_count = array, len(keys)
    library.check(hydrate(ctypes.byref(options), folder.encode()))
