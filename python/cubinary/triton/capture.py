# SPDX-License-Identifier: Apache-2.0
"""TRITON_CACHE_MANAGER=cubinary.triton:CaptureManager: keep all that a program compiles and tunes in the folder
CUBINARY_TRITON_CAPTURE, for a release.

    entries/<key>/                    Triton's own files, then cubinary.json
    host/<digest of source.c>/        source.c, the module, then meta.json
    autotune/<device class>/<key>/    results by the GPU that measured them
    records/<host>-<pid>.jsonl        specialisations seen, for building on machines without a GPU

Threads and processes share one folder: every file appears by rename, and the file that says "complete" last.
"""

import hashlib
import os

from . import asking, autotune, device, host, record
from .environment import EXT_SUFFIX, triton_version
from .files import whole_group, write, write_json

triton_version()

from triton.runtime.cache import FileCacheManager  # noqa: E402

measuring = True  # False where launches do nothing, and timings mean nothing
observers = []  # called with (key, variables of Triton's compile) for every kernel asked for


def folder():
    """The capture folder; it must be named, since a default would be forgotten and grow."""
    path = os.environ.get("CUBINARY_TRITON_CAPTURE")
    if not path:
        raise RuntimeError(
            "cubinary.triton:CaptureManager needs CUBINARY_TRITON_CAPTURE=DIR. "
            "`cubinary triton capture --store FILE -- PROGRAM` sets it."
        )
    return os.path.abspath(path)


class CaptureManager(FileCacheManager):
    """The program's only cache while it is captured: it starts with what the folder holds, so a run that was
    killed goes on where it was."""

    def __init__(self, key, override=False, dump=False):
        self._plain = override or dump
        if self._plain:
            super().__init__(key, override, dump)
            return
        self.key = key
        self.cache_dir = os.path.join(folder(), "entries", key)
        self.lock_path = os.path.join(self.cache_dir, "lock")

    def get_file(self, filename):
        if self._plain:
            return super().get_file(filename)
        if filename.endswith(".autotune.json"):
            autotune.asked(self.key, filename)
            return _existing(_autotune_path(self.key, filename))
        if filename.endswith(EXT_SUFFIX):
            kind, variables = asking.who()
            return _existing(_host_place(asking.host_source(variables), filename)) if kind == "host" else None
        return super().get_file(filename)

    def get_group(self, filename):
        if self._plain:
            return super().get_group(filename)
        group = whole_group(self.cache_dir, filename)
        if group is not None:
            # A run killed between the group and cubinary.json left an entry that would be passed over.
            self._complete()
        return group

    def put(self, data, filename, binary=True):
        if self._plain:
            return super().put(data, filename, binary)
        if filename.endswith(".autotune.json"):
            return write(_autotune_path(self.key, filename), data) if measuring else filename
        if filename.endswith(EXT_SUFFIX):
            kind, variables = asking.who()
            if kind == "host":
                return keep_host(
                    variables["name"],
                    asking.host_source(variables),
                    data,
                    asking.host_keys(self.key, variables),
                )
        return write(os.path.join(self.cache_dir, filename), data if isinstance(data, bytes) else str(data))

    def put_group(self, filename, group):
        path = super().put_group(filename, group)
        if not self._plain:
            self._complete()
        return path

    def _complete(self):
        """Say what the entry is: until then it does not count."""
        kind, variables = asking.who(3)
        if kind != "kernel":
            return
        for observe in observers:
            observe(self.key, variables)
        path = os.path.join(self.cache_dir, "cubinary.json")
        if not os.path.exists(path):
            write_json(
                path,
                {
                    "capture": 1,
                    "kind": "kernel",
                    "name": asking.kernel_name(variables),
                    **asking.identity(),
                    "target": asking.target_text(variables),
                    "key_parts": asking.kernel_parts(variables),
                },
            )


def _existing(path):
    return path if os.path.exists(path) else None


def _host_place(source, file):
    return os.path.join(folder(), "host", hashlib.sha256(source).hexdigest(), file)


def keep_host(name, source, module, keys):
    """Lay a host module down by the digest of its source; its path."""
    file = f"{name}{EXT_SUFFIX}"
    write(_host_place(source, "source.c"), source)
    path = write(_host_place(source, file), module)
    write_json(
        _host_place(source, "meta.json"),
        {
            "capture": 1,
            "kind": "host",
            "name": name,
            "file": file,
            **asking.identity(),
            "keys": keys,
            "glibc_floor": host.glibc_floor(path),
        },
    )
    return path


def _autotune_path(key, filename):
    return os.path.join(folder(), "autotune", _class_here(), key, filename)


def _class_here():
    ordinal = 0
    try:
        from triton.runtime import driver

        ordinal = int(driver.active.get_current_device())
    except Exception:
        pass
    return device.device_class(ordinal) or "unknown"


def _keep_tuned(tuner, key, timings, cache_key):
    """Every result measured, also of tuners that keep none on disk and of configs with hooks."""
    if cache_key is None or not measuring:
        return
    directory, filename = cache_key
    write(_autotune_path(directory, filename), autotune.document(key, timings))
    write_json(
        os.path.join(os.path.dirname(_autotune_path(directory, filename)), "cubinary.json"),
        {
            "capture": 1,
            "kind": "autotune",
            "name": getattr(tuner.base_fn, "__name__", ""),
            **asking.identity(),
        },
    )


def _build_portable(build, _name, src_path, _arguments):
    with host.portable_source(src_path) as source:
        return build(source)


host.wrap_build(_build_portable)
autotune.install(_keep_tuned)
if os.environ.get("CUBINARY_TRITON_RECORD", "1") != "0":
    observers.append(record.note)
