# SPDX-License-Identifier: Apache-2.0
"""Releases and kernels: open, resolve, check arguments, launch."""

import ctypes
import os
import struct
import threading
from ctypes import byref, c_char_p, c_void_p
from dataclasses import dataclass

from . import arrays, library
from .errors import ArgumentError, Error

# What a kernel's code may rely on grows no further than this; more would only split one case in two.
_MAX_ALIGNMENT = 256
_REQUIRE = {"any": 0, "exact": 1, "nearest-shape": 2, "other-class": 3}
_ARGS = ctypes.POINTER(library.Arg)
_scratch = threading.local()
_FORMATS = {"f64": "<d", "f32": "<f", "f16": "<e", "i64": "<q", "i32": "<i", "i8": "<b", "u8": "<B", "bool": "<?"}


def open(source=None, *, keys=None, cache=None, token=None, timeout=None, offline=False,
         allow_unsigned=False, allow_expired=False, device_class=None, log=None):  # fmt: skip
    """Opens a release and verifies its signature.

    source: a folder (OCI layout), an http(s):// server or an oci:// registry, each with an optional
    ":TAG"; None: $CUBINARY_SOURCE. keys: public key files or PEM texts, one of which must have signed
    it; None: $CUBINARY_KEY. cache: a folder; "" for memory only; None: the default one. timeout: seconds
    for all network work of one call. device_class: resolve for it instead of asking the driver.
    log: called with each warning; None: stderr. Raises Error.
    """
    return Release(source, keys, cache, token, timeout, offline, allow_unsigned, allow_expired, device_class, log)


@dataclass(frozen=True)
class Info:
    """What was chosen for a kernel, and why."""

    name: str
    interface_digest: str
    release: str
    target: str
    device_class: str
    tuned_on: str
    config: str
    match: str
    how: str
    artifact: str
    time_us: float
    argument_count: int
    workspace_size: int


@dataclass(frozen=True)
class Argument:
    """An argument the caller passes. Sizes in bytes."""

    name: str
    kind: str
    dtype: str
    value_size: int
    buffer_bytes: int
    alignment: int
    nullable: bool
    has_default: bool

    @property
    def is_pointer(self):
        return self.kind in ("in", "out", "inout")


class Release:
    """An opened, verified release. May be used by several threads."""

    def __init__(self, source, keys, cache, token, timeout, offline, allow_unsigned, allow_expired, device_class, log):
        if isinstance(keys, (str, bytes, os.PathLike)):
            keys = [keys]
        options = library.make(library.Options)
        options.source = _text(source)
        if keys is not None:
            texts = [_text(key) for key in keys]
            options.keys = (c_char_p * len(texts))(*texts)
            options.key_count = len(texts)
        options.cache, options.token, options.device_class = _text(cache), _text(token), _text(device_class)
        options.timeout_seconds = timeout or 0
        options.offline, options.allow_unsigned, options.allow_expired = offline, allow_unsigned, allow_expired
        handle = c_void_p()
        # The library calls it as long as the release lives.
        self._log = library.LOG(lambda _, line: log(line.decode("utf-8", "replace"))) if log else library.LOG()
        options.log = self._log
        library.check(library.load().cubinary_open(byref(options), byref(handle)))
        self._opened = _Opened(handle, self._log)

    def kernel(self, name, *, require="any", interface="any", **parameters):
        """A kernel for element types (T="bf16") and problem sizes (rows=4096).

        require: how loose the choice may be: "any", "other-class", "nearest-shape" or "exact".
        interface: the digest of the argument list the caller was written for; another one is an Error.
        Resolves at once, so a missing kernel, type or axis is told here.
        """
        if require not in _REQUIRE:
            raise ArgumentError(f"require={require!r}: one of {', '.join(_REQUIRE)}")
        types, axes = {}, {}
        for key, value in parameters.items():
            if isinstance(value, str):
                types[key] = value
            elif hasattr(value, "__index__"):
                axes[key] = value.__index__()
            else:
                raise ArgumentError(f"{key}={value!r}: a dtype's name (text) or a size (int) is needed")
        return Kernel(self._live(), name, interface, require, types, axes)

    def prefetch(self, *kernels, wait=False):
        """Begins to fetch and verify in the background: kernels by name or glob, or all there is for this machine's GPUs.

        Call it first thing, so that it goes on while CUDA initialises. wait: until all of it is there and in the cache.
        """
        opened = self._live()
        opened.prefetch([_text(kernel) for kernel in kernels])
        if wait:
            opened.prefetch_wait()

    @property
    def stats(self):
        """What happened since it was opened, as a dict: cache_hits, fetched_bytes, load_milliseconds, …"""
        return self._live().stats()

    def _live(self):
        if self._opened is None:
            raise Error("usage", "the release is closed")
        return self._opened

    def close(self):
        """Ends its use here. Kernels made from it stay usable."""
        self._opened = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class _Opened:
    """One cubinary_context: owns the handle, shared by a release and its kernels."""

    def __init__(self, handle, log):
        self._handle = handle
        self._log = log  # the library may call it as long as the handle lives

    def resolve(self, name, interface, require, types, axes, alignments):
        query = library.make(library.Query)
        query.kernel, query.interface_digest, query.require = _text(name), _text(interface), _REQUIRE[require]
        query.types = (library.Type * len(types))(*[(_text(k), _text(v)) for k, v in types.items()])
        query.axes = (library.Value * len(axes))(*[(_text(k), v) for k, v in axes.items()])
        query.alignments = (library.Value * len(alignments))(*[(_text(k), v) for k, v in alignments.items()])
        query.type_count, query.axis_count, query.alignment_count = len(types), len(axes), len(alignments)
        handle = c_void_p()
        library.check(library.load().cubinary_resolve(self._handle, byref(query), byref(handle)))
        return _Resolved(handle)

    def prefetch(self, kernels):
        globs = (c_char_p * len(kernels))(*kernels)
        library.check(library.load().cubinary_prefetch(self._handle, globs, len(kernels)))

    def prefetch_wait(self):
        library.check(library.load().cubinary_prefetch_wait(self._handle))

    def stats(self):
        found = library.make(library.Stats)
        library.check(library.load().cubinary_get_stats(self._handle, byref(found)))
        return {field: getattr(found, field) for field, *_ in found._fields_ if field != "size"}

    def __del__(self):
        library.load().cubinary_close(self._handle)


class Kernel:
    """A kernel for one set of types and sizes; call it with its arguments to launch it.

    Pointers are torch tensors or objects with __cuda_array_interface__, scalars are numbers, by-value
    structs are bytes, handles are ints. Arguments go by position or by name; one with a default may be
    left out, a nullable one may be None. Everything is checked before the launch. How well the pointers
    are aligned chooses the code: each case is resolved once and kept. May be used by several threads.
    """

    def __init__(self, opened, name, interface, require, types, axes):
        self._opened, self._name = opened, name
        self._query = (name, interface, require, types, axes)
        self._resolved = {}  # (device, alignments) -> _Resolved
        self._lock = threading.Lock()
        # The argument list first, whatever is chosen; then the choice itself, for pointers as allocators
        # give them. A call with others resolves again.
        self.arguments = opened.resolve(name, interface, "any", types, axes, {}).arguments()
        aligned = tuple(_MAX_ALIGNMENT if a.is_pointer else 0 for a in self.arguments)
        self._last = self._resolve(arrays.current_device(), aligned)

    def __call__(self, *values, stream=None, workspace=None, **named):
        """Launches on `stream` (a number, or an object with cuda_stream, as torch has, or ptr, as CuPy has); None:
        torch's current stream, or the one that the arrays name. Arrays of several streams need `stream`.

        workspace: a buffer of at least info.workspace_size bytes; None: torch allocates it.
        """
        resolved, slots, device, streams = self._bind(values, named)
        number = self._choose(stream, streams, device)
        size = resolved.workspace_size
        if size:
            workspace = self._workspace(workspace, size)
            slots.append(struct.pack("<Q", workspace.pointer))
        resolved.launch(slots, number)

    def prepare(self, *values, **named):
        """Everything a call with these arguments does, but the launch: after it the call may be captured
        in a CUDA graph."""
        resolved, _, _, _ = self._bind(values, named)
        library.check(library.load().cubinary_prepare(resolved.handle))

    @property
    def info(self):
        """What was chosen at the last call (before any: for pointers aligned as allocators do it)."""
        return self._last.info()

    def _bind(self, values, named):
        """(resolved, packed values, device, {stream: argument whose content is ready on it}) of a call."""
        given = self._by_position(values, named)
        slots, alignments, device, streams = [], [], None, {}
        for argument, value in zip(self.arguments, given):
            alignment = 0
            if argument.is_pointer:
                pointer = 0
                if value is not None:
                    array = arrays.describe(argument.name, value)
                    self._check(argument, array)
                    pointer = array.pointer
                    if array.stream is not None:
                        # 1 is the legacy default stream, as 0 is.
                        streams.setdefault(0 if array.stream == 1 else array.stream, argument.name)
                    if array.device is not None:
                        if device is not None and array.device != device:
                            raise ArgumentError(
                                f"{self._name}: {argument.name} is on cuda:{array.device}, an argument before it "
                                f"on cuda:{device}"
                            )
                        device = array.device
                elif not argument.nullable:
                    raise ArgumentError(f"{self._name}: {argument.name} must not be None")
                alignment = min(pointer & -pointer, _MAX_ALIGNMENT) if pointer else _MAX_ALIGNMENT
                slots.append(struct.pack("<Q", pointer))
            else:
                slots.append(self._pack(argument, value))
            alignments.append(alignment)
        current = arrays.current_device()
        if device is not None and device != current:
            raise ArgumentError(
                f"{self._name}: the arrays are on cuda:{device}, the current device is cuda:{current}: make "
                f"cuda:{device} the current one (in torch: `with torch.cuda.device({device})`)"
            )
        self._last = resolved = self._resolve(current, tuple(alignments))
        return resolved, slots, current, streams

    def _choose(self, stream, streams, device):
        """The stream to launch on, as a number."""
        if stream is not None:
            return getattr(stream, "cuda_stream", getattr(stream, "ptr", stream))
        if arrays.CURRENT in streams:
            name, current = streams.pop(arrays.CURRENT), arrays.current_stream(device)
            streams = {current: name, **streams}
        if len(streams) > 1:
            (first, one), (second, other), *_ = streams.items()
            raise ArgumentError(
                f"{self._name}: {one} is ready on stream {first:#x}, {other} on stream {second:#x}: let one wait for "
                "the other, and say where to launch (stream=)"
            )
        return next(iter(streams)) if streams else arrays.current_stream(device)

    def _by_position(self, values, named):
        if len(values) > len(self.arguments):
            raise ArgumentError(f"{self._name} takes {len(self.arguments)} arguments ({self._names()}), not {len(values)}")
        if not named and len(values) == len(self.arguments):
            return values
        given = dict(zip((argument.name for argument in self.arguments), values))
        for name, value in named.items():
            if name in given:
                raise ArgumentError(f"{self._name}: {name} is given twice")
            if all(name != argument.name for argument in self.arguments):
                raise ArgumentError(f"{self._name} has no argument {name}; it takes {self._names()}")
            given[name] = value
        missing = [a.name for a in self.arguments if a.name not in given and not a.has_default and not a.nullable]
        if missing:
            raise ArgumentError(f"{self._name}: {', '.join(missing)} missing; it takes {self._names()}")
        return [given.get(argument.name) for argument in self.arguments]

    def _names(self):
        return ", ".join(argument.name for argument in self.arguments)

    def _check(self, argument, array):
        where = f"{self._name}: {argument.name}"
        if argument.dtype not in array.dtypes:
            raise ArgumentError(f"{where} is {array.shown}, {argument.dtype} is needed")
        if array.bytes < argument.buffer_bytes:
            raise ArgumentError(f"{where} has {array.bytes} bytes, {argument.buffer_bytes} are needed for these sizes")
        if array.readonly and argument.kind != "in":
            raise ArgumentError(f"{where} is read-only, and the kernel writes it")
        if array.pointer % argument.alignment:
            raise ArgumentError(f"{where} is at {array.pointer:#x}, which is no multiple of {argument.alignment} bytes")

    def _pack(self, argument, value):
        where = f"{self._name}: {argument.name}"
        if value is None:
            if not argument.has_default:
                raise ArgumentError(f"{where} must not be None")
            return None
        if argument.kind == "bytes":
            data = bytes(value) if isinstance(value, (bytes, bytearray, memoryview, ctypes.Structure)) else b""
            if len(data) != argument.value_size:
                raise ArgumentError(f"{where} takes {argument.value_size} bytes (bytes or a ctypes.Structure)")
            return data
        try:
            if argument.kind == "handle":
                return struct.pack("<Q", value)
            if argument.dtype == "bf16":
                return _bfloat16(value)
            return struct.pack(_FORMATS[argument.dtype], value)
        except (struct.error, OverflowError, TypeError) as error:
            raise ArgumentError(f"{where} = {value!r} does not fit {argument.dtype or argument.kind} ({error})") from None
        except KeyError:
            raise ArgumentError(f"{where}: scalars of type {argument.dtype} cannot be passed from Python") from None

    def _workspace(self, given, size):
        module = arrays.torch()
        if given is None:
            if module is None:
                raise ArgumentError(f"{self._name} needs a workspace of {size} bytes: pass workspace=")
            # torch's allocator knows streams and captures, so memory of an earlier call is never shared.
            given = module.empty(size, dtype=module.uint8, device="cuda")
        array = arrays.describe("workspace", given)
        if array.bytes < size:
            raise ArgumentError(f"{self._name}: the workspace has {array.bytes} bytes, {size} are needed")
        return array

    def _resolve(self, device, alignments):
        found = self._resolved.get((device, alignments))
        if found is None:
            with self._lock:
                found = self._resolved.get((device, alignments))
                if found is None:
                    promised = {a.name: n for a, n in zip(self.arguments, alignments) if a.is_pointer}
                    found = self._opened.resolve(*self._query, promised)
                    self._resolved[device, alignments] = found
        return found


class _Resolved:
    """One cubinary_kernel: owns the handle."""

    def __init__(self, handle):
        self.handle = handle
        self.workspace_size = library.load().cubinary_workspace_size(handle)

    def info(self):
        found = library.make(library.KernelInfo)
        library.check(library.load().cubinary_kernel_get_info(self.handle, byref(found)))
        values = {field: getattr(found, field) for field, *_ in found._fields_ if field != "size"}
        return Info(**{k: v.decode() if isinstance(v, bytes) else v for k, v in values.items()})

    def arguments(self):
        result = []
        for index in range(self.info().argument_count):
            found = library.make(library.ArgumentInfo)
            library.check(library.load().cubinary_kernel_get_argument(self.handle, index, byref(found)))
            result.append(Argument(found.name.decode(), found.kind.decode(), found.dtype.decode(), found.value_size,
                                   found.buffer_bytes, found.alignment, bool(found.nullable),
                                   bool(found.has_default)))  # fmt: skip
        return tuple(result)

    def launch(self, slots, stream):
        # Values and the table of where they lie, in one piece of memory that the thread keeps: the library has read
        # them when it returns.
        at = 16 * len(slots)
        needed = at + sum(len(data) + 8 for data in slots if data is not None)
        memory = getattr(_scratch, "memory", None)
        if memory is None or len(memory) < needed:
            memory = _scratch.memory = ctypes.create_string_buffer(max(needed, 1024))
        base, table = ctypes.addressof(memory), []
        for data in slots:
            if data is None:
                table += (0, 0)
            else:
                memory[at : at + len(data)] = data
                table += (base + at, len(data))
                at += (len(data) + 7) & ~7
        struct.pack_into(f"={len(table)}Q", memory, 0, *table)
        args = ctypes.cast(memory, _ARGS)
        library.check(library.load().cubinary_launch(self.handle, args, len(slots), stream or None))

    def __del__(self):
        if self.handle:
            library.load().cubinary_kernel_free(self.handle)


def _text(value):
    return None if value is None else os.fsencode(value)


def _bfloat16(value):
    """Rounded to nearest, ties to even, as the hardware does."""
    (bits,) = struct.unpack("<I", struct.pack("<f", value))
    if bits & 0x7FFFFFFF > 0x7F800000:
        return struct.pack("<H", (bits >> 16) | 0x40)  # NaN stays one
    return struct.pack("<H", (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16 & 0xFFFF)
