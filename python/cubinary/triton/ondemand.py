# SPDX-License-Identifier: Apache-2.0
"""Lay a release down when a program first needs it: CUBINARY_TRITON_SOURCE and CUBINARY_TRITON_KEY, through
libcubinary, which checks the signature and every digest."""

import os

from .errors import Tampered


def fill(folder):
    """Hydrate `folder` unless it has an index already, or no source was named."""
    source = os.environ.get("CUBINARY_TRITON_SOURCE", "")
    from .index import NAME
    if not source or os.path.exists(os.path.join(folder, NAME)):
        return
    keys = os.environ.get("CUBINARY_TRITON_KEY", "")
    if not keys:
        raise Tampered("CUBINARY_TRITON_SOURCE names a source, but CUBINARY_TRITON_KEY names no public key to "
                       "check it with. Export CUBINARY_TRITON_KEY=release.pub.")
    _hydrate(source, keys, folder)
