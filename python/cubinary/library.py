# SPDX-License-Identifier: Apache-2.0
"""libcubinary's C interface (cubinary.h) in ctypes: structs, functions, errors."""

import ctypes
import functools
import os
import pathlib
from ctypes import POINTER, Structure, c_char_p, c_double, c_int, c_int64, c_size_t, c_uint64, c_void_p

from .errors import Error

LOG = ctypes.CFUNCTYPE(None, c_void_p, c_char_p)


class Options(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("source", c_char_p),
        ("keys", POINTER(c_char_p)),
        ("key_count", c_size_t),
        ("cache", c_char_p),
        ("token", c_char_p),
        ("timeout_seconds", c_double),
        ("offline", c_int),
        ("allow_unsigned", c_int),
        ("allow_expired", c_int),
        ("log", LOG),
        ("log_user", c_void_p),
        ("device_class", c_char_p),
    ]


class Type(Structure):
    _fields_ = [("name", c_char_p), ("dtype", c_char_p)]


class Value(Structure):
    _fields_ = [("name", c_char_p), ("value", c_int64)]


class Query(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("kernel", c_char_p),
        ("interface_digest", c_char_p),
        ("types", POINTER(Type)),
        ("type_count", c_size_t),
        ("axes", POINTER(Value)),
        ("axis_count", c_size_t),
        ("alignments", POINTER(Value)),
        ("alignment_count", c_size_t),
        ("require", c_int),
    ]


class Arg(Structure):
    _fields_ = [("data", c_void_p), ("size", c_size_t)]


class KernelInfo(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("name", c_char_p),
        ("interface_digest", c_char_p),
        ("release", c_char_p),
        ("target", c_char_p),
        ("device_class", c_char_p),
        ("tuned_on", c_char_p),
        ("config", c_char_p),
        ("match", c_char_p),
        ("how", c_char_p),
        ("artifact", c_char_p),
        ("time_us", c_double),
        ("argument_count", c_size_t),
        ("workspace_size", c_size_t),
    ]


class ArgumentInfo(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("name", c_char_p),
        ("kind", c_char_p),
        ("dtype", c_char_p),
        ("value_size", c_size_t),
        ("buffer_bytes", c_uint64),
        ("alignment", c_int64),
        ("nullable", c_int),
        ("has_default", c_int),
    ]


class Stats(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("cache_hits", c_uint64),
        ("cache_misses", c_uint64),
        ("cache_bytes", c_uint64),
        ("packs_fetched", c_uint64),
        ("fetched_bytes", c_uint64),
        ("loads", c_uint64),
        ("loaded_bytes", c_uint64),
        ("damaged", c_uint64),
        ("fetch_milliseconds", c_double),
        ("load_milliseconds", c_double),
        ("compile_seconds_avoided", c_double),
    ]


_FUNCTIONS = {
    "cubinary_open": (c_int, [POINTER(Options), POINTER(c_void_p)]),
    "cubinary_close": (None, [c_void_p]),
    "cubinary_prefetch": (c_int, [c_void_p, POINTER(c_char_p), c_size_t]),
    "cubinary_prefetch_wait": (c_int, [c_void_p]),
    "cubinary_get_stats": (c_int, [c_void_p, POINTER(Stats)]),
    "cubinary_resolve": (c_int, [c_void_p, POINTER(Query), POINTER(c_void_p)]),
    "cubinary_kernel_free": (None, [c_void_p]),
    "cubinary_prepare": (c_int, [c_void_p]),
    "cubinary_workspace_size": (c_size_t, [c_void_p]),
    "cubinary_launch": (c_int, [c_void_p, POINTER(Arg), c_size_t, c_void_p]),
    "cubinary_kernel_get_info": (c_int, [c_void_p, POINTER(KernelInfo)]),
    "cubinary_kernel_get_argument": (c_int, [c_void_p, c_size_t, POINTER(ArgumentInfo)]),
    "cubinary_error_message": (c_char_p, [c_void_p]),
    "cubinary_status_name": (c_char_p, [c_int]),
    "cubinary_version": (c_char_p, []),
}


@functools.cache
def load():
    """The library: the file CUBINARY_LIBRARY names, the one packaged here, or the system's."""
    named = os.environ.get("CUBINARY_LIBRARY")
    packaged = pathlib.Path(__file__).parent / "lib" / "libcubinary.so.0"
    path = named or (str(packaged) if packaged.exists() else "libcubinary.so.0")
    try:
        library = ctypes.CDLL(path)
    except OSError as error:
        raise Error(
            "environment",
            f"libcubinary cannot be loaded ({error}): install the wheel, which carries it, "
            "or name the file in CUBINARY_LIBRARY",
        ) from None
    for name, (result, arguments) in _FUNCTIONS.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


def make(struct):
    """An empty struct with its size filled in."""
    return struct(size=ctypes.sizeof(struct))


def check(status):
    """Raises what a call's status says went wrong."""
    if status:
        library = load()
        raise Error(
            library.cubinary_status_name(status).decode(),
            library.cubinary_error_message(None).decode("utf-8", "replace"),
        )


def version():
    """libcubinary's version, "0.1.0"."""
    return load().cubinary_version().decode()
