# SPDX-License-Identifier: Apache-2.0
"""The Python client over libcubinary and the recording driver: what reaches the driver, what is refused."""

import ctypes
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile
import threading
import unittest

TESTS = pathlib.Path(os.environ["CUBINARY_TESTS"])
os.environ["CUBINARY_LIBRARY"] = os.path.join(os.environ["CUBINARY_LIB"], "libcubinary.so.0")
os.environ["CUBINARY_LIBCUDA"] = str(TESTS / "libfake_libcuda.so")
sys.path.insert(0, os.path.join(os.environ["CUBINARY_ROOT"], "python"))

import cubinary  # noqa: E402
from cubinary import arrays, client  # noqa: E402


class Buffer:
    """What CuPy and Numba show of an array on the device."""

    def __init__(self, pointer, shape, typestr="<f4", strides=None, stream=None):
        self.__cuda_array_interface__ = {
            "data": (pointer, False), "shape": shape, "typestr": typestr, "strides": strides, "version": 3,
            "stream": stream,
        }  # fmt: skip


class Case(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dir = pathlib.Path(tempfile.mkdtemp(prefix="cubinary-python-"))
        cls.addClassCleanup(shutil.rmtree, cls.dir, ignore_errors=True)
        subprocess.run([TESTS / "make_test_layout", cls.dir / "layout", cls.dir / "release"],
                       check=True, capture_output=True)  # fmt: skip

    def setUp(self):
        self.log = self.dir / f"{self.id()}.log"
        os.environ["FAKE_CUDA_LOG"] = str(self.log)
        self.release = self.open()

    def open(self, **options):
        return cubinary.open(self.dir / "layout", keys=self.dir / "release.pub", cache="", **options)

    def launches(self):
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        return [line for line in lines if line.startswith("launch")]

    def scale(self, n=1024, **options):
        return self.release.kernel("scale", T="f32", n=n, **options)

    def refused(self, text, call, *arguments, **named):
        before = self.launches()
        with self.assertRaises(cubinary.ArgumentError) as caught:
            call(*arguments, **named)
        self.assertIn(text, str(caught.exception))
        self.assertEqual(self.launches(), before)


class Launch(Case):
    def test_arguments_reach_the_driver(self):
        self.scale()(Buffer(0x10000, (1024,)), Buffer(0x20000, (32, 32)), 3.0)
        (line,) = self.launches()
        self.assertTrue(line.endswith("params=%016x,%016x,%016x,%08x" % (
            0x10000, 0x20000, 1024, struct.unpack("<I", struct.pack("<f", 3))[0])), line)  # fmt: skip

    def test_names_and_defaults(self):
        kernel = self.scale()
        kernel(y=Buffer(0x10000, (1024,)), x=Buffer(0x20000, (1024,)))
        kernel(Buffer(0x10000, (1024,)), x=Buffer(0x20000, (1024,)), a=2.0)
        first, second = self.launches()
        self.assertEqual(first, second)  # 2 is the default

    def test_alignment_chooses_the_code(self):
        kernel = self.scale()
        kernel(Buffer(0x10000, (1024,)), Buffer(0x20000, (1024,)))
        self.assertIn("VEC=4", kernel.info.config)
        kernel(Buffer(0x10004, (1024,)), Buffer(0x20000, (1024,)))
        self.assertIn("VEC=1", kernel.info.config)
        self.assertEqual(len(self.launches()), 2)

    def test_the_stream(self):
        kernel = self.scale()
        y, x = Buffer(0x10000, (1024,)), Buffer(0x20000, (1024,))
        kernel(y, x, stream=0x7777)
        kernel(y, Buffer(0x20000, (1024,), stream=0x8888))
        first, second = self.launches()
        self.assertIn("7777", first)
        self.assertIn("8888", second)

    def test_every_kind_of_argument(self):
        kernel = self.release.kernel("split", T="f32", n=4096)
        self.assertEqual([a.kind for a in kernel.arguments], ["inout", "in", "bytes", "handle"])
        y, workspace = Buffer(0x10000, (4096,)), Buffer(0x40000, (kernel.info.workspace_size,), "|u1")
        self.refused("pass workspace=", kernel, y, None, b"0123456789abcdef", 5)
        self.refused("are needed", kernel, y, None, b"0123456789abcdef", 5, workspace=Buffer(0x40000, (16,), "|u1"))
        self.refused("takes 16 bytes", kernel, y, None, b"short", 5, workspace=workspace)
        self.refused("does not fit", kernel, y, None, b"0123456789abcdef", -1, workspace=workspace)
        kernel(y, None, b"0123456789abcdef", 5, workspace=workspace)
        self.assertEqual(len(self.launches()), 2)  # two steps
        self.assertIn(b"fedcba9876543210".hex(), self.launches()[0])

    def test_an_empty_problem_launches_nothing(self):
        self.scale(n=0)(Buffer(0, (0,)), Buffer(0, (0,)))
        self.assertEqual(self.launches(), [])

    def test_prepare_then_capture(self):
        kernel = self.scale()
        y, x = Buffer(0x10000, (1024,)), Buffer(0x20000, (1024,))
        os.environ["FAKE_CUDA_CAPTURING"] = "1"
        self.addCleanup(os.environ.pop, "FAKE_CUDA_CAPTURING")
        with self.assertRaises(cubinary.Error) as caught:
            kernel(y, x)
        self.assertIn("prepare", str(caught.exception))
        kernel.prepare(y, x)
        kernel(y, x)
        self.assertEqual(len(self.launches()), 1)

    def test_threads(self):
        kernel = self.scale()
        failures = []

        def work(offset):
            try:
                for i in range(50):
                    kernel(Buffer(0x10000 + 4 * (i % 4), (1024,)), Buffer(0x20000 + 4 * offset, (1024,)))
            except Exception as error:
                failures.append(error)

        threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failures, [])
        self.assertEqual(len(self.launches()), 400)

    def test_kernels_outlive_their_release(self):
        kernel = self.scale()
        self.release.close()
        kernel(Buffer(0x10000, (1024,)), Buffer(0x20000, (1024,)), 1.0)
        self.assertEqual(len(self.launches()), 1)
        with self.assertRaises(cubinary.Error):
            self.scale()


class Refusals(Case):
    def test_buffers(self):
        kernel = self.scale()
        x = Buffer(0x20000, (1024,))
        self.refused("f32 is needed", kernel, Buffer(0x10000, (1024,), "<f2"), x)
        self.refused("4096 are needed", kernel, Buffer(0x10000, (1023,)), x)
        self.refused("not contiguous", kernel, Buffer(0x10000, (32, 32), strides=(256, 4)), x)
        self.refused("big-endian", kernel, Buffer(0x10000, (1024,), ">f4"), x)
        self.refused("__cuda_array_interface__", kernel, [1.0], x)
        self.refused("must not be None", kernel, None, x)

    def test_calls(self):
        kernel = self.scale()
        y, x = Buffer(0x10000, (1024,)), Buffer(0x20000, (1024,))
        self.refused("x missing", kernel, y)
        self.refused("not 4", kernel, y, x, 1.0, 2.0)
        self.refused("no argument b", kernel, y, x, b=1)
        self.refused("given twice", kernel, y, x, y=y)
        self.refused("does not fit f32", kernel, y, x, "much")
        self.refused("does not fit f32", kernel, y, x, 1e300)

    def test_queries(self):
        for wanted, text in (
            ({"name": "scal", "T": "f32", "n": 1}, "scale"),
            ({"name": "scale", "T": "f33", "n": 1}, "f32"),
            ({"name": "scale", "T": "f32"}, "n"),
            ({"name": "scale", "T": "f32", "n": 1, "interface": "sha256:" + "0" * 64}, "interface"),
        ):
            with self.assertRaises(cubinary.Error) as caught:
                self.release.kernel(wanted.pop("name"), **wanted)
            self.assertIn(text, str(caught.exception))
        self.refused("one of any", self.scale, require="perhaps")
        self.refused("a dtype's name", self.scale, n=1.5)

    def test_require(self):
        self.assertEqual(self.scale(require="exact").info.match, "exact")
        self.assertEqual(self.scale(n=2048).info.match, "nearest-shape")
        with self.assertRaises(cubinary.Error) as caught:
            self.scale(n=2048, require="exact")
        self.assertEqual(caught.exception.status, "no_match")
        with self.assertRaises(cubinary.Error) as caught:
            self.release.kernel("split", T="f32", n=4096, require="exact")
        self.assertEqual(caught.exception.status, "no_match")

    def test_the_wrong_key(self):
        subprocess.run([TESTS / "make_test_layout", self.dir / "other", self.dir / "other-key"],
                       check=True, capture_output=True)  # fmt: skip
        with self.assertRaises(cubinary.Error) as caught:
            cubinary.open(self.dir / "layout", keys=[self.dir / "other-key.pub"], cache="")
        self.assertEqual(caught.exception.status, "signature")

    def test_no_library(self):
        code = "import cubinary\ntry: cubinary.version()\nexcept cubinary.Error as e: print(e.status, e)"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                              env={**os.environ, "CUBINARY_LIBRARY": "/nowhere/libcubinary.so",
                                   "PYTHONPATH": sys.path[0]})  # fmt: skip
        self.assertRegex(done.stdout, r"^environment .*/nowhere/libcubinary.so.*CUBINARY_LIBRARY")


class Structs(unittest.TestCase):
    def test_they_are_the_headers(self):
        """Each struct is the beginning of what a C compiler makes of cubinary.h: later versions only append."""
        from cubinary import library

        structs = {
            "cubinary_options": library.Options, "cubinary_type": library.Type, "cubinary_value": library.Value,
            "cubinary_query": library.Query, "cubinary_arg": library.Arg, "cubinary_kernel_info": library.KernelInfo,
            "cubinary_argument_info": library.ArgumentInfo,
        }  # fmt: skip
        lines = []
        for name, struct_type in structs.items():
            lines.append(f'_Static_assert(sizeof({name}) >= {ctypes.sizeof(struct_type)}, "{name}");')
            for field, *_ in struct_type._fields_:
                offset = getattr(struct_type, field).offset
                lines.append(f'_Static_assert(offsetof({name}, {field}) == {offset}, "{name}.{field}");')
        source = "#include <cubinary.h>\n" + "\n".join(lines) + "\n"
        include = os.path.join(os.environ["CUBINARY_ROOT"], "client", "include")
        done = subprocess.run(["cc", "-std=c11", "-fsyntax-only", "-I", include, "-x", "c", "-"],
                              input=source, text=True, capture_output=True)  # fmt: skip
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_bfloat16(self):
        for value, bits in ((1.0, 0x3F80), (-2.5, 0xC020), (1.00390625, 0x3F80), (1.01171875, 0x3F82),
                            (float("inf"), 0x7F80), (3.4e38, 0x7F80)):  # fmt: skip
            self.assertEqual(struct.unpack("<H", client._bfloat16(value))[0], bits, value)
        (nan,) = struct.unpack("<H", client._bfloat16(float("nan")))
        self.assertEqual(nan & 0x7F80, 0x7F80)
        self.assertNotEqual(nan & 0x7F, 0)

    def test_dtypes_of_arrays(self):
        for typestr, names in (("<f4", ("f32",)), ("<i8", ("i64",)), ("|b1", ("bool",)), ("<V2", ("bf16",)),
                               ("|u1", ("f8_e4m3", "f8_e5m2", "u8"))):  # fmt: skip
            self.assertEqual(arrays.describe("x", Buffer(1, (2,), typestr)).dtypes, names)


if __name__ == "__main__":
    unittest.main()
