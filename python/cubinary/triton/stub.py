# SPDX-License-Identifier: Apache-2.0
"""A libcuda.so.1 to link host modules against on a machine without a driver: an empty library of that name.
It is never shipped and never called."""

import contextlib
import os
import shutil
import subprocess
import tempfile

from . import quiet


def compiler():
    return os.environ.get("CC") or shutil.which("gcc") or shutil.which("clang")


@contextlib.contextmanager
def libcuda():
    """While inside, TRITON_LIBCUDA_PATH names a folder that can be linked with; None when there is neither a
    driver nor a C compiler, and no host module can be built."""
    if os.environ.get("TRITON_LIBCUDA_PATH"):
        yield os.environ["TRITON_LIBCUDA_PATH"]
        return
    found, cc = quiet.libcuda_folder(), compiler()
    if not found and not cc:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="cubinary-stub-") as folder:
        if not found:
            library = os.path.join(folder, "libcuda.so.1")
            subprocess.run(
                [
                    cc,
                    "-shared",
                    "-nostdlib",
                    "-x",
                    "c",
                    os.devnull,
                    "-Wl,-soname,libcuda.so.1",
                    "-o",
                    library,
                ],
                check=True,
            )
            os.symlink("libcuda.so.1", os.path.join(folder, "libcuda.so"))
        os.environ["TRITON_LIBCUDA_PATH"] = found or folder
        try:
            yield os.environ["TRITON_LIBCUDA_PATH"]
        finally:
            del os.environ["TRITON_LIBCUDA_PATH"]
