# SPDX-License-Identifier: Apache-2.0
"""Host modules (`cuda_utils`, launchers): answered from a release by the digest of their C source, and
compiled, where a program is captured, so that an older system can load them as well."""

import contextlib
import hashlib
import os
import re
import threading

from .environment import machine

_lock = threading.Lock()


def wrap_build(around):
    """Let `around(build, name, src_path, arguments)` stand before Triton's own compile of a host module;
    `build(src_path)` is that compile."""
    from triton.runtime import build as module

    with _lock:
        original = getattr(module._build, "cubinary_original", module._build)

        def _build(name, src, *arguments, **named):
            return around(lambda path: original(name, path, *arguments, **named), name, src, arguments)

        _build.cubinary_original = original
        module._build = _build


def digest_of(path):
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


# --- compiling for older systems ---

# Symbols that moved into libc.so.6 with glibc 2.34 under a new version; the old version is still there, and
# the only one that older systems have.
_MOVED = (
    "dlopen",
    "dlsym",
    "dlclose",
    "dlerror",
    "pthread_once",
    "pthread_key_create",
    "pthread_getspecific",
    "pthread_setspecific",
)
_OLDEST = {"x86_64": "GLIBC_2.2.5", "aarch64": "GLIBC_2.17"}


@contextlib.contextmanager
def portable_source(path):
    """A copy of a C source that asks for the oldest version of what moved in glibc 2.34. Compiler messages
    still name the original. Yields the original where nothing is known to gain."""
    oldest = _OLDEST.get(machine())
    if oldest is None or not path.endswith(".c"):
        yield path
        return
    import tempfile

    with open(path, encoding="utf-8") as file:
        text = file.read()
    lines = [f'__asm__(".symver {symbol},{symbol}@{oldest}");' for symbol in _MOVED if symbol in text]
    with tempfile.TemporaryDirectory() as folder:
        copy = os.path.join(folder, os.path.basename(path))
        with open(copy, "w", encoding="utf-8") as file:
            file.write("\n".join([*lines, f'#line 1 "{os.path.basename(path)}"', text]))
        yield copy


_VERSION = re.compile(rb"\0GLIBC_(\d+(?:\.\d+)+)(?=\0)")


def glibc_floor(so):
    """The newest glibc that a module's symbols need, "2.14", out of the version names it carries; "" when
    it needs none."""
    with open(so, "rb") as file:
        data = file.read()
    versions = {tuple(map(int, found.split(b"."))) for found in _VERSION.findall(data)}
    if b"\0GLIBC_ABI_DT_RELR\0" in data:
        versions.add((2, 36))
    return ".".join(map(str, max(versions))) if versions else ""
