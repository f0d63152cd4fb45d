# SPDX-License-Identifier: Apache-2.0
"""The library as others use it: installed, found by CMake and by pkg-config, linked both ways."""

import os
import shutil
import subprocess

import harness

SAYS = "scale sm_90 exact VEC=4 WARPS=2\n"
BUILD = harness.folder("CUBINARY_LIB").parent


class Consumer(harness.Case):
    def setUp(self):
        super().setUp()
        self.prefix = self.tmp / "prefix"
        self.run_program("cmake", "--install", BUILD, "--component", "client", "--prefix", self.prefix)
        self.run_program(harness.test_program("make_test_layout"), self.tmp / "layout", self.tmp / "key")
        # The program is the lean suite's; the project is a folder of its own.
        self.project = self.tmp / "project"
        shutil.copytree(harness.SOURCE / "tests/client/consumer", self.project)
        shutil.copy(harness.SOURCE / "tests/lean/lean_program.c", self.project / "program.c")

    def check(self, program):
        env = {"CUBINARY_LIBCUDA": str(harness.test_program("libfake_libcuda.so")),
               "FAKE_CUDA_LOG": str(self.tmp / "log"), "LD_LIBRARY_PATH": str(self.library())}
        done = self.run_program(program, self.tmp / "layout", self.tmp / "key.pub", self.tmp / "cache",
                                env=env)
        self.assertEqual(done.stdout, SAYS)

    def library(self):
        return next(self.prefix.rglob("libcubinary.so.0")).parent

    def test_cmake(self):
        build = self.tmp / "build"
        self.run_program("cmake", "-S", self.project, "-B", build, "-DCMAKE_BUILD_TYPE=Debug",
                         "-DCMAKE_PREFIX_PATH=" + str(self.prefix))
        self.run_program("cmake", "--build", build)
        self.check(build / "shared_c")
        self.check(build / "shared_cpp")
        archive = list(self.prefix.rglob("libcubinary.a"))
        if archive:
            self.check(build / "static_c")
            needed = subprocess.run(["readelf", "-d", build / "static_c"], check=True,
                                    capture_output=True, text=True).stdout
            for library in ("libcubinary", "libssl", "libcrypto", "libzstd"):
                self.assertNotIn(library, needed)
            # Nothing of what is inside can meet a namesake in the program.
            symbols = subprocess.run(["nm", "-g", "--defined-only", archive[0]], check=True,
                                     capture_output=True, text=True).stdout
            names = {line.split()[-1] for line in symbols.splitlines() if " T " in line}
            self.assertTrue(names)
            self.assertEqual({n for n in names if not n.startswith("cubinary_")}, set())

    def test_pkg_config(self):
        harness.need_tools("pkg-config")
        folder = next(self.prefix.rglob("cubinary.pc")).parent
        flags = subprocess.run(["pkg-config", "--cflags", "--libs", "cubinary"], check=True,
                               capture_output=True, text=True,
                               env={**os.environ, "PKG_CONFIG_PATH": str(folder)}).stdout.split()
        program = self.tmp / "program"
        self.run_program("cc", self.project / "program.c", *flags, "-o", program)
        self.check(program)


if __name__ == "__main__":
    harness.need_tools("cmake", "cc", "c++", "readelf", "nm")
    harness.main()
