# SPDX-License-Identifier: Apache-2.0
"""The wheel: made from this build, every Python here imports it from a folder alone, and it says what it is."""

import email
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile

ROOT = pathlib.Path(os.environ["CUBINARY_ROOT"])
BUILD = pathlib.Path(os.environ["CUBINARY_LIB"]).parent


def interpreters():
    """The Pythons of this machine that the package is for, each version once: {"3.12": path}."""
    found = {}
    for minor in range(10, 14):
        named = [shutil.which(f"python3.{minor}"), *pathlib.Path.home().glob(f".pyenv/versions/3.{minor}.*/bin/python3")]
        for path in filter(None, named):
            told = subprocess.run([path, "-c", "import sys; print(*sys.version_info[:2], sep='.')"],
                                  capture_output=True, text=True)  # fmt: skip
            if told.stdout.strip() == f"3.{minor}":
                found[f"3.{minor}"] = str(path)
                break
    return found


class Wheel(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="cubinary-wheel-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        subprocess.run([ROOT / "scripts" / "wheel", BUILD, cls.folder], check=True, stdout=subprocess.DEVNULL)
        (cls.wheel,) = cls.folder.glob("*.whl")
        cls.site = cls.folder / "site"
        with zipfile.ZipFile(cls.wheel) as packed:
            packed.extractall(cls.site)
        cls.version = cls.wheel.name.split("-")[1]

    def test_it_names_the_oldest_glibc_its_library_needs(self):
        floor = re.fullmatch(r"cubinary-[\d.]+-py3-none-manylinux_2_(\d+)_\w+\.whl", self.wheel.name)
        self.assertIsNotNone(floor, self.wheel.name)
        library = self.site / "cubinary" / "lib" / "libcubinary.so.0"
        needed = {int(minor) for minor in re.findall(rb"GLIBC_2\.(\d+)\b", library.read_bytes())}
        self.assertEqual(int(floor[1]), max(needed))

    def test_every_python_imports_it(self):
        found = interpreters()
        print("Pythons here:", *found)
        self.assertTrue(found, "no Python 3.10 to 3.13")
        program = "import cubinary, cubinary.triton; print(cubinary.version())"
        for version, python in found.items():
            with self.subTest(version):
                done = subprocess.run([python, "-S", "-B", "-W", "error", "-c", program], cwd=self.folder, text=True,
                                      env={"PYTHONPATH": str(self.site), "PATH": ""}, capture_output=True)  # fmt: skip
                self.assertEqual((done.returncode, done.stdout.strip(), done.stderr), (0, self.version, ""))

    def test_what_it_says_of_itself(self):
        (info,) = self.site.glob("*.dist-info")
        metadata = email.message_from_bytes((info / "METADATA").read_bytes())
        self.assertEqual((metadata["Name"], metadata["Version"]), ("cubinary", self.version))
        self.assertEqual(metadata["Requires-Python"], ">=3.10")
        self.assertEqual(metadata["License"], "Apache-2.0")
        self.assertIsNone(metadata["Requires-Dist"])
        self.assertEqual(metadata["Description-Content-Type"], "text/markdown")
        self.assertEqual(metadata.get_payload().strip(), (ROOT / "python" / "README.md").read_text().strip())
        self.assertEqual((info / "LICENSE").read_bytes(), (ROOT / "LICENSE").read_bytes())
        compiled = [path.name for path in self.site.rglob("*") if ".so" in path.name or path.suffix in (".pyc", ".h")]
        self.assertEqual(compiled, ["libcubinary.so.0"])


if __name__ == "__main__":
    if subprocess.run(["/usr/bin/python3", "-c", "import setuptools, wheel"], capture_output=True).returncode:
        print("SKIPPED: the distribution's Python has no setuptools and wheel")
        sys.exit(125)
    unittest.main()
