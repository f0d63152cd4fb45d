# SPDX-License-Identifier: Apache-2.0
"""Host modules for a target, compiled where no driver is: the launcher of every kernel (Triton 3.4 to 3.6) and
`cuda_utils`. They are compiled by Triton's own code and kept; nothing of them is loaded here."""

import contextlib
import os
import threading

from . import stub

_lock = threading.Lock()


@contextlib.contextmanager
def _unloaded():
    """Triton compiles host modules and does not import them: that would need a real libcuda."""
    from triton.runtime import build

    with _lock:
        load = build._load_module_from_path
        build._load_module_from_path = lambda *_: _Anything()
        try:
            yield
        finally:
            build._load_module_from_path = load


class _Anything:
    """A module of which every name exists."""

    def __getattr__(self, _name):
        return lambda *_, **__: None


def launcher(kernel):
    """Compile the launcher of a kernel, where this Triton has one a signature."""
    if not hasattr(_nvidia(), "make_launcher") or not os.environ.get("TRITON_LIBCUDA_PATH"):
        return
    if not hasattr(_nvidia(), "compile_module_from_src"):
        return
    with _unloaded():
        _nvidia().CudaLauncher(kernel.src, kernel.metadata)


def _nvidia():
    from triton.backends.nvidia import driver

    return driver


def outcomes(options):
    """Compile `cuda_utils`; an outcome only when it cannot be."""
    if not os.environ.get("TRITON_LIBCUDA_PATH"):
        yield {
            "status": "skipped",
            "name": "host modules",
            "key": "",
            "why": "no C compiler here. They depend on the Python and the Triton version only: capture any program "
            "where there is one",
        }
        return
    try:
        with _unloaded():
            _nvidia().CudaUtils()
    except Exception as error:
        yield {
            "status": "failed",
            "name": "cuda_utils",
            "key": "",
            "why": f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error).strip() else ''}"
            f" (compiler: {stub.compiler()})",
        }
