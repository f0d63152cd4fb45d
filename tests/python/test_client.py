# SPDX-License-Identifier: Apache-2.0
"""The Python client over libcubinary and the recording driver: what reaches the driver, what is refused."""

import ctypes
import math
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile
import threading
import types
import unittest

TESTS = pathlib.Path(os.environ["CUBINARY_TESTS"])
os.environ["CUBINARY_LIBRARY"] = os.path.join(os.environ["CUBINARY_LIB"], "libcubinary.so.0")
os.environ["CUBINARY_LIBCUDA"] = str(TESTS / "libfake_libcuda.so")
sys.path.insert(0, os.path.join(os.environ["CUBINARY_ROOT"], "python"))

import cubinary  # noqa: E402
from cubinary import arrays, client  # noqa: E402


class Buffer:
    """What CuPy and Numba show of an array on the device."""

    def __init__(self, pointer, shape, typestr="<f4", strides=None, stream=None, readonly=False, **more):
        self.__cuda_array_interface__ = {
            "data": (pointer, readonly), "shape": shape, "typestr": typestr, "strides": strides, "version": 3,
            "stream": stream, **more,
        }  # fmt: skip


class Torch(types.ModuleType):
    """As much of torch as the client asks for, on GPUs 0 and 1."""

    class Dtype(str):
        pass

    class Tensor:
        def __init__(self, pointer, shape, dtype="float32", device="cuda:0", contiguous=True):
            self.shape, self.device, self.is_cuda = shape, types.SimpleNamespace(index=0), device.startswith("cuda")
            self.device = type("device", (), {"index": int(device[-1]) if self.is_cuda else None,
                                              "__str__": lambda _: device})()  # fmt: skip
            self.dtype, self._pointer, self._contiguous = Torch.made.__dict__[dtype], pointer, contiguous

        def data_ptr(self):
            return self._pointer

        def numel(self):
            return math.prod(self.shape)

        def element_size(self):
            return {"float32": 4, "float16": 2, "bfloat16": 2, "uint8": 1, "complex64": 8}[self.dtype]

        def is_contiguous(self):
            return self._contiguous

        def stride(self):
            return tuple(2 * n for n in self.shape)

    def __init__(self, initialised=True):
        super().__init__("torch")
        Torch.made, self.device, self.stream, self.allocated = self, 0, 0x5000, []
        for name in ("float32", "float16", "bfloat16", "uint8", "complex64"):
            setattr(self, name, Torch.Dtype(name))
        self.cuda = types.SimpleNamespace(
            is_initialized=lambda: initialised, current_device=lambda: self.device,
            current_stream=lambda device: types.SimpleNamespace(cuda_stream=self.stream + device))  # fmt: skip

    def empty(self, size, dtype, device):
        self.allocated.append((size, str(dtype), device))
        return Torch.Tensor(0x40000, (size,), dtype)


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
        self.scale(n=0)(Buffer(0, (0,)), Buffer(0, (0, 7), strides=(1, 9)))
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

    def test_prefetch_and_stats(self):
        cache = self.dir / "prefetched"
        with cubinary.open(self.dir / "layout", keys=self.dir / "release.pub", cache=cache) as release:
            release.prefetch("sca*", wait=True)
            release.kernel("scale", T="f32", n=1024)(Buffer(0x10000, (1024,)), Buffer(0x20000, (1024,)))
            stats = release.stats
        self.assertEqual((stats["packs_fetched"], stats["loads"], stats["damaged"]), (1, 1, 0))
        self.assertGreater(stats["fetched_bytes"], 0)
        with self.assertRaises(cubinary.Error) as caught:
            release.prefetch()
        self.assertIn("closed", str(caught.exception))

    def test_kernels_outlive_their_release(self):
        kernel = self.scale()
        self.release.close()
        kernel(Buffer(0x10000, (1024,)), Buffer(0x20000, (1024,)), 1.0)
        self.assertEqual(len(self.launches()), 1)
        with self.assertRaises(cubinary.Error):
            self.scale()


class WithTorch(Case):
    def setUp(self):
        super().setUp()
        self.torch = sys.modules["torch"] = Torch()
        self.addCleanup(sys.modules.pop, "torch")
        self.addCleanup(arrays._names.clear)
        arrays._names.clear()
        self.y, self.x = Torch.Tensor(0x10000, (1024,)), Torch.Tensor(0x20000, (8, 128))

    def test_tensors_go_to_the_current_stream(self):
        kernel = self.scale()
        kernel(self.y, self.x, 3.0)
        self.torch.stream = 0x6000
        kernel(self.y, self.x, 3.0)
        kernel(self.y, self.x, 3.0, stream=types.SimpleNamespace(cuda_stream=0x7000))
        kernel(self.y, self.x, 3.0, stream=types.SimpleNamespace(ptr=0x8000))
        for line, stream in zip(self.launches(), ("0x5000", "0x6000", "0x7000", "0x8000"), strict=True):
            self.assertIn(f"stream={stream} ", line)
            self.assertIn("params=0000000000010000,0000000000020000,", line)

    def test_its_workspace(self):
        kernel = self.release.kernel("split", T="f32", n=4096)
        kernel(Torch.Tensor(0x10000, (4096,)), None, b"0123456789abcdef", 5)
        self.assertEqual(self.torch.allocated, [(kernel.info.workspace_size, "uint8", "cuda")])

    def test_refused(self):
        kernel, tensor = self.scale(), Torch.Tensor
        self.refused("y is on cpu: move it to the GPU", kernel, tensor(0x10000, (1024,), device="cpu"), self.x)
        self.refused("y is not contiguous (shape (1024,), strides (2048,)): pass .contiguous()", kernel,
                     tensor(0x10000, (1024,), contiguous=False), self.x)  # fmt: skip
        self.refused("y is bfloat16, f32 is needed", kernel, tensor(0x10000, (1024,), "bfloat16"), self.x)
        self.refused("y is complex64, f32 is needed", kernel, tensor(0x10000, (1024,), "complex64"), self.x)
        self.refused("y has 4092 bytes, 4096 are needed", kernel, tensor(0x10000, (1023,)), self.x)
        self.refused("x is on cuda:1, an argument before it on cuda:0", kernel, self.y,
                     tensor(0x20000, (1024,), device="cuda:1"))  # fmt: skip
        self.torch.device = 1
        self.refused("on cuda:0, the current device is cuda:1", kernel, self.y, self.x)

    def test_arrays_of_others_beside_tensors(self):
        kernel = self.scale()
        self.torch.stream = 0
        kernel(self.y, Buffer(0x20000, (1024,), stream=1))  # both are the default stream
        self.torch.stream = 0x5000
        self.refused("y is ready on stream 0x5000, x on stream 0x9", kernel, self.y, Buffer(0x20000, (1024,), stream=9))
        kernel(self.y, Buffer(0x20000, (1024,), stream=9), stream=9)
        self.assertEqual(len(self.launches()), 2)

    def test_a_torch_that_has_no_gpu_is_left_alone(self):
        sys.modules["torch"] = torch = Torch(initialised=False)
        torch.cuda.current_device = torch.cuda.current_stream = None  # the real one raises
        self.scale()(Buffer(0x10000, (1024,)), Buffer(0x20000, (1024,)))
        self.assertIn("stream=(nil)", self.launches()[0])


class Refusals(Case):
    def test_buffers(self):
        kernel = self.scale()
        x = Buffer(0x20000, (1024,))
        self.refused("f32 is needed", kernel, Buffer(0x10000, (1024,), "<f2"), x)
        self.refused("4096 are needed", kernel, Buffer(0x10000, (1023,)), x)
        self.refused("not contiguous", kernel, Buffer(0x10000, (32, 32), strides=(256, 4)), x)
        self.refused("at 0x10002, which is no multiple of 4 bytes", kernel, Buffer(0x10002, (1024,)), x)
        self.refused("y is read-only, and the kernel writes it", kernel, Buffer(0x10000, (1024,), readonly=True), x)
        kernel(Buffer(0x10000, (1024,)), Buffer(0x20000, (1024,), readonly=True))
        self.refused("y has a mask", kernel, Buffer(0x10000, (1024,), mask=x), x)
        self.refused("ready on stream 0x7, x on stream 0x8", kernel, Buffer(0x10000, (1024,), stream=7),
                     Buffer(0x20000, (1024,), stream=8))  # fmt: skip
        elsewhere = Buffer(0x10000, (1024,))
        elsewhere.__dlpack_device__ = lambda: (2, 1)
        self.refused("on cuda:1, the current device is cuda:0", kernel, elsewhere, x)
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
            self.assertLessEqual(str(caught.exception).count("kernel scale"), 1)
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
            "cubinary_argument_info": library.ArgumentInfo, "cubinary_stats": library.Stats,
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
