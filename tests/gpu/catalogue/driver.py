# SPDX-License-Identifier: Apache-2.0
"""NVRTC and the CUDA driver by ctypes: compiles a catalogue's kernels and launches any config of them."""

import ctypes
import glob
import hashlib
import lzma
import os
import pathlib
import pickle
import sys

from manifest import SIZE

_SCALAR = {"i32": ctypes.c_int32, "i64": ctypes.c_int64, "f32": ctypes.c_float,
           "f64": ctypes.c_double, "i8": ctypes.c_int8, "u8": ctypes.c_uint8}


def toolkit():
    return pathlib.Path(os.environ.get("CUBINARY_TOOLKIT", "/usr/local/cuda"))


def _nvrtc():
    found = sorted(glob.glob(f"{toolkit()}/lib64/libnvrtc.so*")) or ["libnvrtc.so"]
    return ctypes.CDLL(found[0])


def compile_entries(sources, include, entries, target):
    """(cubin, {entry: symbol}) of one source with these instantiations."""
    lib = _nvrtc()
    program = ctypes.c_void_p()

    def check(status, what):
        if status != 0:
            size = ctypes.c_size_t()
            lib.nvrtcGetProgramLogSize(program, ctypes.byref(size))
            log = ctypes.create_string_buffer(size.value)
            lib.nvrtcGetProgramLog(program, log)
            raise RuntimeError(f"{what}: {status}\n{log.value.decode()}")

    text = "\n".join(pathlib.Path(s).read_text() for s in sources)
    check(lib.nvrtcCreateProgram(ctypes.byref(program), text.encode(), b"kernel.cu", 0, None, None),
          "nvrtcCreateProgram")
    for entry in entries:
        check(lib.nvrtcAddNameExpression(program, entry.encode()), entry)
    options = [f"--gpu-architecture={target}", "--std=c++17", f"-I{toolkit()}/include",
               f"-I{toolkit()}/include/cccl", *(f"-I{folder}" for folder in include)]
    array = (ctypes.c_char_p * len(options))(*(o.encode() for o in options))
    check(lib.nvrtcCompileProgram(program, len(options), array), sources[0])
    symbols = {}
    for entry in entries:
        name = ctypes.c_char_p()
        check(lib.nvrtcGetLoweredName(program, entry.encode(), ctypes.byref(name)), entry)
        symbols[entry] = name.value.decode()
    size = ctypes.c_size_t()
    check(lib.nvrtcGetCUBINSize(program, ctypes.byref(size)), "nvrtcGetCUBINSize")
    cubin = ctypes.create_string_buffer(size.value)
    check(lib.nvrtcGetCUBIN(program, cubin), "nvrtcGetCUBIN")
    lib.nvrtcDestroyProgram(ctypes.byref(program))
    return cubin.raw, symbols


_CLUSTER = 4  # CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION


class _Attribute(ctypes.Structure):
    _fields_ = [("id", ctypes.c_int), ("pad", ctypes.c_int), ("value", ctypes.c_uint * 3),
                ("rest", ctypes.c_byte * 52)]


class _Config(ctypes.Structure):
    _fields_ = [("grid", ctypes.c_uint * 3), ("block", ctypes.c_uint * 3), ("smem", ctypes.c_uint),
                ("stream", ctypes.c_void_p), ("attributes", ctypes.POINTER(_Attribute)),
                ("count", ctypes.c_uint)]


def build(job):
    """Compiles a library that is not in the cache yet."""
    path, sources, include, entries, target = job
    if not path.exists():
        built = compile_entries(sources, include, entries, target)
        part = path.with_suffix(f".{os.getpid()}")
        part.write_bytes(lzma.compress(pickle.dumps(built), preset=1))
        part.rename(path)


class Library:
    """A kernel's code for some types and compiled axes: one cubin with every config's entry, for a target as `sm_90`.

    Compiled once a content; `cache`, a folder, keeps it between runs."""

    def __init__(self, manifest, types, compiled, target, cache):
        self.manifest = manifest
        folder = manifest.folder
        data = manifest.data
        self.sources = [folder / s for s in data.get("sources", [data.get("source")])]
        include = data.get("include", [])
        self.include = [folder / i for i in ([include] if isinstance(include, str) else include)]
        self.target = target = manifest.target(target)
        self.entries = manifest.entries(types, compiled, target)
        digest = hashlib.sha256(repr([self.entries, target]).encode())
        for path in [*self.sources, *(h for i in self.include for h in sorted(i.iterdir()))]:
            digest.update(path.read_bytes())
        self.path = pathlib.Path(cache) / f"{manifest.name}-{digest.hexdigest()[:24]}"
        self.functions = {}

    def job(self):
        """What `build` needs: plain data, for another process."""
        return self.path, self.sources, self.include, self.entries, self.target

    def load(self):
        build(self.job())
        cubin, self.symbols = pickle.loads(lzma.decompress(self.path.read_bytes()))
        self.module = Driver.get().load(cubin)

    def function(self, entry):
        if entry not in self.functions:
            self.functions[entry] = Driver.get().function(self.module, self.symbols[entry])
        return self.functions[entry]


class Driver:
    """libcuda, with the device's primary context current: torch's, where the program uses torch."""

    _one = None

    @classmethod
    def get(cls):
        cls._one = cls._one or cls()
        return cls._one

    def __init__(self):
        self.lib = ctypes.CDLL("libcuda.so.1")
        if "torch" in sys.modules:
            import torch
            torch.zeros(1, device="cuda")
            return
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self.check(self.lib.cuInit(0), "cuInit")
        self.check(self.lib.cuDeviceGet(ctypes.byref(device), 0), "cuDeviceGet")
        self.check(self.lib.cuDevicePrimaryCtxRetain(ctypes.byref(context), device), "cuDevicePrimaryCtxRetain")
        self.check(self.lib.cuCtxSetCurrent(context), "cuCtxSetCurrent")
        self.device = device

    def attribute(self, number):
        value = ctypes.c_int()
        self.check(self.lib.cuDeviceGetAttribute(ctypes.byref(value), number, self.device),
                   "cuDeviceGetAttribute")
        return value.value

    def allocate(self, size):
        """The address of so many bytes, of their own and no more."""
        address = ctypes.c_uint64()
        self.check(self.lib.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(size)), "cuMemAlloc")
        return address.value

    def free(self, address):
        self.check(self.lib.cuMemFree_v2(ctypes.c_uint64(address)), "cuMemFree")

    def upload(self, address, data):
        self.check(self.lib.cuMemcpyHtoD_v2(ctypes.c_uint64(address), data, ctypes.c_size_t(len(data))),
                   "cuMemcpyHtoD")

    def wait(self):
        self.check(self.lib.cuCtxSynchronize(), "cuCtxSynchronize")

    def check(self, status, what):
        if status != 0:
            name = ctypes.c_char_p()
            self.lib.cuGetErrorName(status, ctypes.byref(name))
            raise RuntimeError(f"{what}: {(name.value or b'?').decode()}")

    def load(self, cubin):
        module = ctypes.c_void_p()
        self.check(self.lib.cuModuleLoadData(ctypes.byref(module), cubin), "cuModuleLoadData")
        return module

    def function(self, module, symbol):
        function = ctypes.c_void_p()
        self.check(self.lib.cuModuleGetFunction(ctypes.byref(function), module, symbol.encode()),
                   symbol)
        return function

    def launch(self, function, grid, block, smem, cells, stream, cluster=None):
        if smem > 48 * 1024:
            self.check(self.lib.cuFuncSetAttribute(function, 8, smem), "cuFuncSetAttribute")
        grid = [*grid, 1, 1][:3]
        block = [*block, 1, 1][:3]
        if 0 in grid:
            return
        if cluster is not None:
            attribute = _Attribute(_CLUSTER, 0, (*cluster, 1, 1)[:3])
            config = _Config(tuple(grid), tuple(block), smem, stream, ctypes.pointer(attribute), 1)
            self.check(self.lib.cuLaunchKernelEx(ctypes.byref(config), function, cells, None),
                       "cuLaunchKernelEx")
            return
        self.check(self.lib.cuLaunchKernel(function, *grid, *block, smem,
                                           ctypes.c_void_p(stream), cells, None), "cuLaunchKernel")


def _torch_workspace(size):
    import torch
    return torch.zeros(size, dtype=torch.uint8, device="cuda")


def _torch_stream():
    import torch
    return torch.cuda.current_stream().cuda_stream


def _address(operand):
    if operand is None or isinstance(operand, int):
        return operand or 0
    return operand.data_ptr()


class Launch:
    """One config of a kernel, ready for these operands (torch tensors or addresses): `launch()` starts it on
    the stream that `stream` names, torch's current one by itself. `workspace(bytes)` gives zeroed memory."""

    def __init__(self, library, types, shape, config, fixed, operands, workspace=_torch_workspace,
                 stream=_torch_stream):
        self.stream = stream
        manifest = library.manifest
        scope = manifest.scope(config, fixed)
        self.hold = []
        values = {}
        for argument in manifest.arguments:
            name = argument["name"]
            if "workspace" in argument:
                dtype = types.get(argument["workspace"], argument["workspace"])
                size = manifest.evaluate(argument["len"], scope) * SIZE[dtype]
                space = workspace(max(size, 1))
                self.hold.append(space)
                values[name] = ctypes.c_uint64(_address(space))
            elif "scalar" in argument:
                if "is" in argument:
                    value = manifest.evaluate(argument["is"], scope)
                else:
                    value = operands.get(name, argument.get("default"))
                values[name] = _SCALAR[argument["scalar"]](value)
            else:
                values[name] = ctypes.c_uint64(_address(operands.get(name)))
        self.steps = []
        for step in manifest.steps:
            names = [a if isinstance(a, str) else a["name"]
                     for a in step.get("args", manifest.arguments)]
            cells = (ctypes.c_void_p * len(names))(
                *(ctypes.addressof(values[name]) for name in names))
            self.steps.append((
                library.function(manifest.entry(step["entry"], types, shape, config)),
                [manifest.evaluate(str(g), scope) for g in step["grid"]],
                [manifest.evaluate(str(b), scope) for b in step["block"]],
                manifest.evaluate(str(step.get("smem", 0)), scope), cells,
                [manifest.evaluate(str(c), scope) for c in step["cluster"]] if "cluster" in step else None))
        self.values = values

    def __call__(self):
        stream = self.stream()
        for function, grid, block, smem, cells, cluster in self.steps:
            Driver.get().launch(function, grid, block, smem, cells, stream, cluster)
