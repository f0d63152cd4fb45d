# SPDX-License-Identifier: Apache-2.0
"""The tuner in a root file system that holds nothing but the program and the libraries it names."""

import os
import pathlib
import re
import shutil
import subprocess

import harness


class LeanTuner(harness.Case):
    def test_it_gets_as_far_as_the_driver(self):
        root = pathlib.Path(self.tmp) / "root"
        for name in ("proc", "dev", "store", "tmp"):
            (root / name).mkdir(parents=True)
        program = harness.binary()
        shutil.copy(program, root / "cubinary")
        listed = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
        for library in re.findall(r"(/\S+) \(0x", listed):
            to = root / library.lstrip("/")
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(library, to)
        store = pathlib.Path(self.tmp) / "store"
        store.mkdir()
        self.run_program(harness.test_program("make_store"), store / "s.db")

        def tune(*options):
            return self.run_program(
                "bwrap", "--ro-bind", root, "/", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp",
                "--bind", store, "/store", "--unshare-all", "--uid", "12345", "--gid", "12345",
                "--clearenv", "/cubinary", "tune", "--store", "/store/s.db", *options, status=3)  # fmt: skip

        for missing in ("bin/sh", "usr/bin/gcc", "usr/bin/python3", "usr/local/cuda"):
            self.assertFalse((root / missing).exists(), missing)
        said = tune().stderr
        self.assertIn("no CUDA driver: libcuda.so.1: cannot open shared object file", said)
        self.assertIn("install the NVIDIA driver", said)
        self.assertEqual(said.count("\n"), 1, said)
        # Nothing is left behind: the next tuner may have the store.
        self.assertIn("no CUDA driver", tune("--json").stderr)


if __name__ == "__main__":
    harness.need_tools("bwrap", "ldd")
    if os.path.exists("/usr/lib/x86_64-linux-gnu/libcuda.so.1"):
        harness.skip("this machine has a driver, so nothing would be missing")
    harness.main()
