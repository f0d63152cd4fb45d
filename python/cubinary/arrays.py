# SPDX-License-Identifier: Apache-2.0
"""What a caller may pass where a kernel takes a pointer: torch tensors, and anything with
`__cuda_array_interface__` (CuPy, Numba, JAX)."""

import ctypes
import functools
import os
import sys
from typing import NamedTuple, Optional

from .errors import ArgumentError

_TORCH_DTYPES = {
    "f64": "float64",
    "f32": "float32",
    "f16": "float16",
    "bf16": "bfloat16",
    "f8_e4m3": "float8_e4m3fn",
    "f8_e5m2": "float8_e5m2",
    "i64": "int64",
    "i32": "int32",
    "i8": "int8",
    "u8": "uint8",
    "bool": "bool",
}
# By what `typestr` says after the byte order. Types NumPy has no name for travel as raw bytes of the same size, or as
# unsigned integers.
_TYPESTRS = {
    "f8": ("f64",),
    "f4": ("f32",),
    "f2": ("f16",),
    "V2": ("bf16",),
    "u2": ("bf16",),
    "V1": ("f8_e4m3", "f8_e5m2"),
    "u1": ("f8_e4m3", "f8_e5m2", "u8"),
    "i8": ("i64",),
    "i4": ("i32",),
    "i1": ("i8",),
    "b1": ("bool",),
}
CURRENT = -1  # torch's current stream
_names = {}  # torch dtype -> canonical name, filled when torch is there


class Array(NamedTuple):
    """A contiguous buffer on a device."""

    pointer: int
    bytes: int
    dtypes: tuple  # the canonical names it may be taken for
    shown: str  # how its dtype is called where it comes from
    device: Optional[int]  # None: unknown
    stream: Optional[int]  # the stream its content is ready on, or CURRENT; None: any
    readonly: bool


def torch():
    """torch, if the program uses it. Never imports it."""
    return sys.modules.get("torch")


def _torch_names(module):
    if not _names:
        for name, attribute in _TORCH_DTYPES.items():
            if hasattr(module, attribute):
                _names[getattr(module, attribute)] = name
    return _names


def describe(name, value):
    """The buffer behind argument `name`; ArgumentError where it is none a kernel can take."""
    module = torch()
    if module is not None and isinstance(value, module.Tensor):
        if not value.is_cuda:
            raise ArgumentError(f"{name} is on {value.device}: move it to the GPU")
        if not value.is_contiguous():
            raise ArgumentError(
                f"{name} is not contiguous (shape {tuple(value.shape)}, strides {value.stride()}): "
                "pass .contiguous()"
            )
        dtype = _torch_names(module).get(value.dtype)
        return Array(value.data_ptr(), value.numel() * value.element_size(), (dtype,) if dtype else (),
                     str(value.dtype), value.device.index, CURRENT, False)  # fmt: skip
    interface = getattr(value, "__cuda_array_interface__", None)
    if interface is None:
        raise ArgumentError(
            f"{name} is a {type(value).__name__}: a torch tensor on the GPU or an object with "
            "__cuda_array_interface__ is needed"
        )
    typestr = interface["typestr"]
    if typestr[0] == ">":
        raise ArgumentError(f"{name} is big-endian ({typestr})")
    if interface.get("mask") is not None:
        raise ArgumentError(f"{name} has a mask: pass its data")
    item, shape, strides = int(typestr[2:]), interface["shape"], interface.get("strides")
    size = item
    for extent in shape:
        size *= extent
    count = item
    for extent, stride in zip(reversed(shape), reversed(strides or ())):
        if stride != count and extent > 1 and size:
            raise ArgumentError(f"{name} is not contiguous (shape {shape}, strides {strides}): pass a copy")
        count *= extent
    pointer, readonly = interface["data"]
    return Array(pointer or 0, size, _TYPESTRS.get(typestr[1:], ()), typestr, _device(value), interface.get("stream"), bool(readonly))


def _device(value):
    """The number of the GPU that a producer says its array is on, by DLPack's protocol; None: it says nothing."""
    ask = getattr(value, "__dlpack_device__", None)
    return ask()[1] if ask is not None else None


def current_stream(device):
    """torch's current stream of a device, as a number; 0, the default one, without torch."""
    module = _torch_on_gpu()
    return module.cuda.current_stream(device).cuda_stream if module is not None else 0


def current_device():
    """The GPU a launch of this thread goes to: torch's, else that of the current context, else 0, as libcubinary does."""
    module = _torch_on_gpu()
    if module is not None:
        return module.cuda.current_device()
    driver, number = _driver(), ctypes.c_int()
    return number.value if driver is not None and driver.cuCtxGetDevice(ctypes.byref(number)) == 0 else 0


def _torch_on_gpu():
    """torch, once it has used a GPU: before, and in a build of it that cannot, it has no stream to be current."""
    module = torch()
    return module if module is not None and module.cuda.is_initialized() else None


@functools.cache
def _driver():
    try:
        return ctypes.CDLL(os.environ.get("CUBINARY_LIBCUDA") or "libcuda.so.1")
    except OSError:
        return None
