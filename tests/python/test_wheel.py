# SPDX-License-Identifier: Apache-2.0
"""The wheel: made from this build, it works from a folder alone and says which glibc it needs."""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
import zipfile

ROOT = pathlib.Path(os.environ["CUBINARY_ROOT"])
BUILD = pathlib.Path(os.environ["CUBINARY_LIB"]).parent


class Wheel(unittest.TestCase):
    def test_it_carries_the_library_and_names_its_floor(self):
        with tempfile.TemporaryDirectory(prefix="cubinary-wheel-") as folder:
            subprocess.run([ROOT / "scripts" / "wheel", BUILD, folder], check=True, stdout=subprocess.DEVNULL)
            (wheel,) = pathlib.Path(folder).glob("*.whl")
            floor = re.fullmatch(r"cubinary-[\d.]+-py3-none-manylinux_2_(\d+)_\w+\.whl", wheel.name)
            self.assertIsNotNone(floor, wheel.name)
            with zipfile.ZipFile(wheel) as packed:
                packed.extractall(pathlib.Path(folder) / "site")
            library = pathlib.Path(folder) / "site" / "cubinary" / "lib" / "libcubinary.so.0"
            needed = {int(minor) for minor in re.findall(rb"GLIBC_2\.(\d+)\b", library.read_bytes())}
            self.assertEqual(int(floor[1]), max(needed))
            environment = {"PYTHONPATH": str(pathlib.Path(folder) / "site"), "PATH": ""}
            done = subprocess.run([sys.executable, "-c", "import cubinary; print(cubinary.version())"],
                                  env=environment, cwd=folder, capture_output=True, text=True)  # fmt: skip
            self.assertEqual((done.returncode, done.stdout.strip()), (0, wheel.name.split("-")[1]), done.stderr)


if __name__ == "__main__":
    if subprocess.run(["/usr/bin/python3", "-c", "import setuptools, wheel"], capture_output=True).returncode:
        print("SKIPPED: the distribution's Python has no setuptools and wheel")
        sys.exit(125)
    unittest.main()
