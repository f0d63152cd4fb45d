# SPDX-License-Identifier: Apache-2.0
"""What a caller may pass where a kernel takes a pointer: torch tensors, and anything with
`__cuda_array_interface__` (CuPy, Numba, JAX)."""

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
# Types NumPy has no name for travel as raw bytes of the same size, or as unsigned integers.
_TYPESTRS = {
    "f64": ("f8",),
    "f32": ("f4",),
    "f16": ("f2",),
    "bf16": ("V2", "u2"),
    "f8_e4m3": ("V1", "u1"),
    "f8_e5m2": ("V1", "u1"),
    "i64": ("i8",),
    "i32": ("i4",),
    "i8": ("i1",),
    "u8": ("u1",),
    "bool": ("b1",),
}
_names = {}  # torch dtype -> canonical name, filled when torch is there


class Array(NamedTuple):
    """A contiguous buffer on a device."""

    pointer: int
    bytes: int
    dtypes: tuple  # the canonical names it may be taken for
    shown: str  # how its dtype is called where it comes from
    device: Optional[int]  # None: unknown
    stream: Optional[int]  # the stream its producer names


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
        return Array(value.data_ptr(), value.numel() * value.element_size(),
                     (dtype,) if dtype else (), str(value.dtype), value.device.index, None)  # fmt: skip
    interface = getattr(value, "__cuda_array_interface__", None)
    if interface is None:
        raise ArgumentError(
            f"{name} is a {type(value).__name__}: a torch tensor on the GPU or an object with "
            "__cuda_array_interface__ is needed"
        )
    typestr = interface["typestr"]
    if typestr[0] == ">":
        raise ArgumentError(f"{name} is big-endian ({typestr})")
    item = int(typestr[2:])
    count, strides = item, interface.get("strides")
    for extent, stride in zip(reversed(interface["shape"]), reversed(strides or ())):
        if stride != count and extent > 1:
            raise ArgumentError(f"{name} is not contiguous (strides {strides}): pass a copy")
        count *= extent
    size = item
    for extent in interface["shape"]:
        size *= extent
    kinds = tuple(name for name, texts in _TYPESTRS.items() if typestr[1:] in texts)
    return Array(interface["data"][0] or 0, size, kinds, typestr, None, interface.get("stream"))


def current_stream(device):
    """torch's current stream of a device, as a number; 0 without torch."""
    module = torch()
    return module.cuda.current_stream(device).cuda_stream if module is not None else 0


def current_device():
    """torch's current device; None without torch."""
    module = torch()
    return module.cuda.current_device() if module is not None else None
