# SPDX-License-Identifier: Apache-2.0
"""The examples of docs/client.md, taken out of it and run."""

import os
import re
import shutil
import subprocess
import tempfile
import unittest

PROJECT = os.environ["CUBINARY_ROOT"]
BIN, LIB, TESTS = (os.environ["CUBINARY_" + name] for name in ("BIN", "LIB", "TESTS"))


def example(name):
    with open(os.path.join(PROJECT, "docs", "client.md"), encoding="utf-8") as file:
        found = re.search(r"<!-- test: %s -->\n```\w+\n(.*?)```" % name, file.read(), re.S)
    return found.group(1)


class Examples(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="cubinary-docs-")
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)
        make = os.path.join(TESTS, "make_test_layout")
        subprocess.run([make, "layout", "release"], cwd=self.dir, check=True, capture_output=True)
        self.log = os.path.join(self.dir, "log")
        self.env = {
            **os.environ,
            "PATH": BIN + ":" + os.environ["PATH"],
            "LD_LIBRARY_PATH": LIB,
            "SOURCE": "layout",
            "CACHE": "cache",
            "CUBINARY_CACHE": "cache",
            "CUBINARY_SOURCE": "layout",
            "CUBINARY_KEY": "release.pub",
            "CUBINARY_LIBCUDA": os.path.join(TESTS, "libfake_libcuda.so"),
            "FAKE_CUDA_LOG": self.log,
        }

    def run_here(self, *command):
        done = subprocess.run(
            command, cwd=self.dir, env=self.env, capture_output=True, text=True, timeout=120
        )
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def launches(self):
        with open(self.log, encoding="utf-8") as file:
            return [line for line in file if line.startswith("launch")]

    def compile_and_run(self, name, compiler, standard, main):
        with open(os.path.join(self.dir, "example." + name), "w", encoding="utf-8") as file:
            file.write(example(name) + main)
        self.run_here(
            compiler, standard, "-Wall", "-Wextra", "-Werror", "example." + name, "-o", "example",
            "-I", os.path.join(PROJECT, "client", "include"), "-L", LIB, "-lcubinary",
        )  # fmt: skip
        self.run_here("./example")

    def test_lock(self):
        subprocess.run(["sh", "-ec", example("lock")], cwd=self.dir, env=self.env, check=True, capture_output=True)
        with open(os.path.join(self.dir, "kernels.lock"), encoding="utf-8") as file:
            text = file.read()
        self.assertEqual(text.count('"artifact":"sha256:'), 10)
        subprocess.run(["sh", "-ec", example("lock")], cwd=self.dir, env=self.env, check=True, capture_output=True)

    def test_fetch(self):
        out = self.run_here("sh", "-e", "-c", example("fetch"))
        self.assertIn("4 of 4 packs received", out)
        self.assertIn("0 of 4 packs received", out)

    def test_c(self):
        main = "int main(void) { return scale(0x10004, 0x20004, 1000); }\n"
        self.compile_and_run("c", os.environ.get("CC", "cc"), "-std=c11", main)
        self.assertEqual(len(self.launches()), 1)
        self.assertIn(
            "params=0000000000010004,0000000000020004,00000000000003e8,40000000", self.launches()[0]
        )

    def test_cpp(self):
        main = "int main() { scale(0x10000, 0x20000, 1024); }\n"
        self.compile_and_run("cpp", os.environ.get("CXX", "c++"), "-std=c++14", main)
        self.assertEqual(len(self.launches()), 1)
        self.assertIn("launch scale_f32_4__p8_8_8_4 grid=4,1,1", self.launches()[0])

    def test_the_readme_s_cpp_is_the_header_s(self):
        with open(os.path.join(PROJECT, "README.md"), encoding="utf-8") as file:
            code = re.search(r"```cpp\n(.*?)```", file.read(), re.S).group(1)
        include, body = code.split("\n", 1)
        parameters = "const char* interface, CUstream_st* stream, std::uint64_t y, std::uint64_t x, std::uint64_t w"
        source = f"{include}\nvoid example({parameters}) {{\n{body}}}\n"
        done = subprocess.run(
            [os.environ.get("CXX", "c++"), "-std=c++14", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-x", "c++",
             "-I", os.path.join(PROJECT, "client", "include"), "-"],
            input=source, capture_output=True, text=True, timeout=120,
        )  # fmt: skip
        self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    unittest.main()
