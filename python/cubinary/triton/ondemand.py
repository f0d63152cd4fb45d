# SPDX-License-Identifier: Apache-2.0
"""Lay a release down when a program first needs it: CUBINARY_TRITON_SOURCE and CUBINARY_TRITON_KEY, through
libcubinary, which checks the signature and every digest. Several processes may do it at once."""

import os

_MESSAGE_BYTES = 4096


def fill(folder, index_name):
    """Hydrate `folder` unless it has an index already, or no source was named. Raises cubinary.Error, with
    what libcubinary says."""
    source = os.environ.get("CUBINARY_TRITON_SOURCE", "")
    if not source or os.path.exists(os.path.join(folder, index_name)):
        return
    import ctypes

    from .. import library
    from ..errors import Error

    keys = os.environ.get("CUBINARY_TRITON_KEY", "")
    if not keys:
        raise Error(
            "usage",
            "CUBINARY_TRITON_SOURCE names a release, but CUBINARY_TRITON_KEY names no public key to check it "
            "with: export CUBINARY_TRITON_KEY=release.pub.",
        )
    loaded = library.load()
    try:
        hydrate = loaded.cubinary_triton_hydrate
    except AttributeError:
        raise Error(
            "environment",
            f"this libcubinary ({library.version()}) cannot hydrate: run `cubinary-fetch hydrate {source} "
            f"--key {keys} --cache {folder}` before the program.",
        ) from None
    text, size = ctypes.c_char_p, ctypes.c_size_t
    hydrate.restype, hydrate.argtypes = ctypes.c_int, [text, text, text, text, text, size]
    message = ctypes.create_string_buffer(_MESSAGE_BYTES)
    status = hydrate(source.encode(), keys.encode(), os.fsencode(folder), None, message, _MESSAGE_BYTES)
    if status:
        said = message.value.decode(errors="replace").rstrip(".")
        raise Error(library.load().cubinary_status_name(status).decode(), f"{source}: {said}.")
