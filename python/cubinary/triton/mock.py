# SPDX-License-Identifier: Apache-2.0
"""Stand-ins for a GPU: a driver that names a target and compiles for it, arguments that specialise as the
recorded ones did, and the device facts that programs read at import."""

import importlib
import types


class Driver:
    """What Triton asks of a driver while it compiles. `facts` as device.facts gives them."""

    def __init__(self, arch, facts=None, warp_size=32):
        from triton.backends.compiler import GPUTarget

        self._target = GPUTarget("cuda", arch, warp_size)
        self._facts = facts
        self.utils = types.SimpleNamespace(get_device_properties=self._properties)

    def get_current_target(self):
        return self._target

    def get_current_device(self):
        return 0

    def get_current_stream(self, _device=0):
        return 0

    def get_device_capability(self, _device=0):
        return divmod(self._target.arch, 10)

    def get_active_torch_device(self):
        import torch

        return torch.device("cuda", 0)

    def get_device_interface(self):
        import torch

        return torch.cuda

    def _properties(self, _device=0):
        known = {"max_shared_mem": shared_optin(self._target.arch), "warpSize": 32, "max_num_regs": 65536}
        if self._facts:
            known["multiprocessor_count"] = self._facts[2]
            known["mem_bus_width"] = self._facts[4]
        return _Known(known)


class _Known(dict):
    def __missing__(self, name):
        raise RuntimeError(
            f"the program asks for the GPU's {name}: name the GPU to build for with --device-class"
        )


class Running(Driver):
    """For running a whole program: launches do nothing, and the autotuner compiles every config and times none."""

    def __init__(self, arch, facts=None):
        super().__init__(arch, facts)
        self.utils.load_binary = lambda *_: (object(), object(), 0, 0, 1024)
        self.utils.unload_module = lambda *_: None

    def launcher_cls(self, src, metadata):
        from . import hostbuild

        hostbuild.launcher(types.SimpleNamespace(src=src, metadata=metadata))
        return lambda *_, **__: None

    def get_benchmarker(self):
        def once(call, quantiles=None, **_):
            call()
            return [1.0] * len(quantiles or (0.5,))

        return once

    def get_empty_cache_for_benchmark(self):
        return None


# --- arguments ---


class Pointer:
    """A tensor as far as Triton's binder looks: its dtype, and whether its address divides by 16."""

    def __init__(self, dtype, divisible):
        self.dtype = dtype
        self._address = 1 << 12 if divisible else (1 << 12) + 8
        self.shape, self.device = (1,), "cuda"

    def data_ptr(self):
        return self._address

    def ptr_range(self):
        return 0

    def stride(self, *_):
        return (1,)


_TORCH_NAMES = {
    "fp16": "float16",
    "bf16": "bfloat16",
    "fp32": "float32",
    "fp64": "float64",
    "i1": "bool",
    "u1": "bool",
    "i8": "int8",
    "i16": "int16",
    "i32": "int32",
    "i64": "int64",
    "u8": "uint8",
    "u16": "uint16",
    "u32": "uint32",
    "u64": "uint64",
    "fp8e4nv": "float8_e4m3fn",
    "fp8e5": "float8_e5m2",
    "fp8e4b8": "float8_e4m3fnuz",
    "fp8e5b16": "float8_e5m2fnuz",
}


def argument(described):
    """A stand-in for one described argument (record.py)."""
    if "constant" in described:
        return decode(described["constant"])
    if "tuple" in described:
        parts = [argument(part) for part in described["tuple"]]
        return _find(described["class"])(*parts) if "class" in described else tuple(parts)
    if "descriptor" in described:
        from triton.tools.tensor_descriptor import TensorDescriptor

        block = described["block"]
        strides = [1]
        for size in reversed(block[1:]):
            strides.insert(0, strides[0] * max(size, 16))
        return TensorDescriptor(
            Pointer(_dtype(described["descriptor"]), True), list(block), strides, list(block)
        )
    kind, divisible = described["type"], described["divisible"]
    if kind.startswith("*"):
        return Pointer(_dtype(kind.lstrip("*").removeprefix("k")), divisible)
    if kind == "nvTmaDesc":
        return types.SimpleNamespace(tma_desc_cpu_ptr=lambda: 0)
    if kind in ("i1", "u1"):
        return True
    if kind.startswith(("fp", "bf", "f")):
        return 0.5
    # Beyond 32 bits where the type says so, never 1, and a multiple of 16 or not.
    base = {"i64": 1 << 40, "u64": 1 << 63}.get(kind, 0)
    return base + (16 if divisible else 3)


def _dtype(name):
    # The binder reads the last component of a dtype's text, so torch is not needed for one.
    return _TORCH_NAMES.get(name, name)


def decode(value):
    """The constant behind record.encode's JSON."""
    if not isinstance(value, dict):
        return value
    if "float" in value:
        return float(value["float"])
    if "tuple" in value or "list" in value:
        items = [decode(item) for item in value.get("tuple", value.get("list"))]
        if "class" in value:
            return _find(value["class"])(*items)
        return tuple(items) if "tuple" in value else items
    if "constexpr" in value:
        from triton.language import constexpr

        return constexpr(decode(value["constexpr"]))
    if "dtype" in value:
        from triton.language import dtype

        return dtype(value["dtype"])
    if "torch" in value:
        return getattr(importlib.import_module("torch"), value["torch"])
    return unwrap(_find(value["jit"]))


def _find(name):
    module, _, path = name.partition(":")
    found = importlib.import_module(module)
    for part in path.split("."):
        found = getattr(found, part)
    return found


def unwrap(function):
    """The JITFunction under autotuners and heuristics."""
    while not hasattr(function, "cache_key") and hasattr(function, "fn"):
        function = function.fn
    return function


# --- device facts ---


def impersonate(arch, facts=None):
    """Make torch, where it is installed, answer what programs ask about a GPU at import: capability, count,
    names, multiprocessors. `facts`: (major, minor, SM count, L2 MiB, bus bits, memory GiB) of a device class.
    For a process that only compiles."""
    try:
        import torch
    except ImportError:
        return
    capability = divmod(arch, 10)
    sms, memory = (facts[2], facts[5] << 30) if facts else (0, 0)
    properties = types.SimpleNamespace(
        major=capability[0],
        minor=capability[1],
        name=f"cubinary sm_{arch}",
        multi_processor_count=sms,
        total_memory=memory,
        L2_cache_size=facts[3] << 20 if facts else 0,
        warp_size=32,
        shared_memory_per_block=48 << 10,
        shared_memory_per_block_optin=shared_optin(arch),
        max_threads_per_multi_processor=2048,
        regs_per_multiprocessor=65536,
    )
    cuda = torch.cuda
    cuda.is_available = lambda: True
    cuda.device_count = lambda: 1
    cuda.current_device = lambda: 0
    cuda.get_device_capability = lambda *_: capability
    cuda.get_device_name = lambda *_: properties.name
    cuda.get_device_properties = lambda *_: properties


def shared_optin(arch):
    """Largest dynamic shared memory of a block, by capability (CUDA C++ Programming Guide, table of
    compute capabilities), less the 1 KiB that the system keeps."""
    kib = {80: 163, 86: 99, 87: 163, 89: 99, 90: 227, 100: 227, 103: 227, 110: 227, 120: 99, 121: 99}
    return kib.get(arch, 48) << 10
