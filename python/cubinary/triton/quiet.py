# SPDX-License-Identifier: Apache-2.0
"""Triton starts `file`, `ldconfig` and `ptxas --version` even when everything is cached. Here they are
answered without starting anything."""

import functools
import os
import shutil

from . import index
from .environment import platform_keys, strict


def install():
    """Idempotent; before the first `driver.active` nothing at all is started, later only what Triton had
    started already."""
    from triton.runtime import build

    build.platform_key = _platform_key
    _answer_ptxas()
    _find_libcuda()


@functools.lru_cache
def _platform_key():
    """As Triton would compute it, so that caches made without us are hit."""
    with_file, without = platform_keys()
    return with_file if shutil.which("file") else without


def _answer_ptxas():
    from triton.backends.nvidia import compiler

    ask = compiler.get_ptxas_version
    if hasattr(ask, "cubinary_original"):
        return
    from triton import knobs

    def get_ptxas_version(*arch):
        text = None
        if knobs.nvidia.mock_ptx_version is None:
            text = _recorded(*arch)
        return ask(*arch) if text is None else text

    get_ptxas_version.cubinary_original = ask
    compiler.get_ptxas_version = get_ptxas_version


@functools.lru_cache
def _recorded(arch=None):
    # Before 3.6 Triton has one ptxas for every arch, and does not say which arch it asks for.
    if arch is not None:
        return index.current().ptxas_text(arch)
    arches = {
        entry["target"].removeprefix("sm_")
        for entry in index.current().kernels.values()
        if entry.get("target")
    }
    texts = {index.current().ptxas_text(each) for each in arches}
    return texts.pop() if len(texts) == 1 else None


def _find_libcuda():
    """Triton asks ldconfig for libcuda's folder, to link with, even when nothing will be linked; minimal images
    have no ldconfig."""
    from triton import knobs
    from triton.backends.nvidia import driver

    ask = driver.libcuda_dirs
    if hasattr(ask, "cubinary_original"):
        return

    def libcuda_dirs():
        folder = None if knobs.nvidia.libcuda_path else libcuda_folder()
        if folder:
            return [folder]
        return [] if strict() and not knobs.nvidia.libcuda_path else ask()

    libcuda_dirs.cubinary_original = ask
    driver.libcuda_dirs = libcuda_dirs


def libcuda_folder():
    """The folder of libcuda.so.1: of the one this process has loaded, else of one in a usual place."""
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
            for line in maps:
                path = line.split(None, 5)[-1].strip()
                if os.path.basename(path).startswith("libcuda.so."):
                    return os.path.dirname(path)
    except OSError:
        pass
    usual = [
        f"/usr/lib/{os.uname().machine}-linux-gnu",
        "/usr/lib64",
        "/usr/local/nvidia/lib64",
        "/usr/local/cuda/compat",
        "/usr/lib/wsl/lib",
        "/usr/lib",
    ]
    search = os.environ.get("LD_LIBRARY_PATH", "").split(":") + usual
    return next(
        (place for place in search if place and os.path.exists(os.path.join(place, "libcuda.so.1"))), None
    )
