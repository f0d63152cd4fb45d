# SPDX-License-Identifier: Apache-2.0
"""The Tritons to test with, the stub driver they load, and programs run against them.

scripts/setup --tests puts one Triton into build/deps/triton/<version>. CUBINARY_TRITON_VERSIONS names others instead, as
`folder` or `folder:python`, comma-separated; a folder holds the unpacked wheel of the Python beside it. `matrix` runs
the suites on every version that is supported.
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import harness

HERE = pathlib.Path(__file__).resolve().parent
PYTHON = harness.SOURCE / "python"
PLUGIN = "cubinary.triton:CacheManager"
CAPTURE = "cubinary.triton:CaptureManager"


class Triton:
    def __init__(self, folder, python):
        self.folder, self.python = pathlib.Path(folder), python
        version = re.search(r"__version__ = '([^']+)'", (self.folder / "triton/__init__.py").read_text())
        self.version = version.group(1)
        abi = subprocess.run(
            [python, "-c", "import sys; print('cp%d%d' % sys.version_info[:2])"],
            text=True,
            capture_output=True,
            check=True,
        )
        self.name = f"{self.version.replace('.', '_')}_{abi.stdout.strip()}"


def installed():
    """Every Triton to test, at least one; otherwise the suite is skipped, aloud."""
    found = []
    for entry in filter(None, os.environ.get("CUBINARY_TRITON_VERSIONS", "").split(",")):
        folder, _, python = entry.partition(":")
        found.append(Triton(folder, python or sys.executable))
    if found:
        return found
    here = f"cp{sys.version_info.major}{sys.version_info.minor}-"
    for wheel in sorted((harness.SOURCE / "build/deps/triton").glob("*/triton-*.dist-info/WHEEL")):
        if f"Tag: {here}" in wheel.read_text():
            found.append(Triton(wheel.parents[1], sys.executable))
    if not found:
        harness.skip("no Triton here: scripts/setup --tests puts one into build/deps/triton")
    return found


def compiler():
    return os.environ.get("CC") or shutil.which("gcc") or shutil.which("clang")


def make_stub(folder):
    """libcuda.so.1 of this suite."""
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(
        [
            compiler(),
            "-shared",
            "-fPIC",
            "-O1",
            "-Wl,-soname,libcuda.so.1",
            "-o",
            folder / "libcuda.so.1",
            HERE / "stub_libcuda.c",
        ],
        check=True,
    )
    (folder / "libcuda.so").symlink_to("libcuda.so.1")
    return folder


class Runner:
    """Runs programs under one Triton with the stub driver."""

    def __init__(self, triton, stub):
        self.triton, self.stub = triton, stub

    def environment(self, site=True, **more):
        path = [PYTHON / "cubinary/triton/site"] if site else []
        path += [PYTHON, self.triton.folder, HERE / "fake", HERE / "programs"]
        return {
            "PATH": os.environ["PATH"],
            "HOME": "/nonexistent",
            "LD_LIBRARY_PATH": str(self.stub),
            "PYTHONPATH": ":".join(map(str, path)),
            "PYTHONDONTWRITEBYTECODE": "1",
            "TRITON_DEFAULT_FP_FUSION": "1",
        } | {name: str(value) for name, value in more.items()}

    def run(self, *arguments, site=True, timeout=240, cwd="/", **environment):
        return subprocess.run(
            [self.triton.python, *map(str, arguments)],
            text=True,
            capture_output=True,
            timeout=timeout,
            cwd=cwd,
            env=self.environment(site, **environment),
        )

    def launch(self, *what, **environment):
        """programs/launch.py, watched: (its report or None, stderr)."""
        done = self.run(HERE / "programs/launch.py", *what, **({"WATCH": "1"} | environment))
        report = next((json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")), None)
        return report if done.returncode == 0 else None, done.stderr
