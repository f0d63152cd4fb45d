# SPDX-License-Identifier: Apache-2.0
"""The compilers that suites may use: this machine's, and a second one beside it."""

import os
import pathlib
import shutil

import harness


def missing():
    """Why nothing can be compiled here, or None."""
    root = pathlib.Path(os.environ.get("CUBINARY_TOOLKIT") or os.environ.get("CUDA_HOME") or "/usr/local/cuda")
    found = [p for pattern in ("lib64/libnvrtc.so*", "lib/libnvrtc.so*", "nvidia/*/lib/libnvrtc.so*")
             for p in root.glob(pattern)]  # fmt: skip
    return None if found else f"no NVRTC in {root}"


def nvcc_missing():
    """Why nvcc cannot compile here, or None."""
    if shutil.which("nvcc") is None and not pathlib.Path("/usr/local/cuda/bin/nvcc").exists():
        return "no nvcc"
    return None if shutil.which("gcc") else "nvcc needs gcc"


def fatbinary_missing():
    """Why no fat binary can be made here, or None."""
    there = shutil.which("fatbinary") or pathlib.Path("/usr/local/cuda/bin/fatbinary").exists()
    return None if there else "no fatbinary in this toolkit"


def second():
    """A toolkit of another version, or None: CUBINARY_SECOND_TOOLKIT, else what scripts/setup --tests fetched."""
    named = os.environ.get("CUBINARY_SECOND_TOOLKIT")
    root = pathlib.Path(named) if named else harness.SOURCE / "build" / "deps" / "cuda-12.8"
    return root if list(root.glob("**/libnvrtc.so*")) else None
