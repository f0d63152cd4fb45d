# SPDX-License-Identifier: Apache-2.0
"""TRITON_CACHE_MANAGER=cubinary.triton:CacheManager: serve from a hydrated folder, then from Triton's own
cache and compiler, or, in strict mode, from nowhere else."""

import hashlib
import logging
import os
import sys
import tempfile
import threading

from ..errors import Error
from . import asking, autotune, host, index, misses, quiet
from .environment import EXT_SUFFIX, strict, triton_version
from .errors import Missing, MissingExit, Tampered
from .files import whole_group

log = logging.getLogger("cubinary.triton")
triton_version()  # refuse what cannot be served before anything else is touched

from triton.runtime.cache import FileCacheManager  # noqa: E402


class CacheManager(FileCacheManager):
    """One per key and use, as Triton makes them. Nothing is created or written unless Triton has to
    compile."""

    def __init__(self, key, override=False, dump=False):
        self.key = key
        self._own = FileCacheManager(key, override, dump) if override or dump else None
        self._served = self._own is None

    # --- reading ---
    def has_file(self, filename):
        return self.get_file(filename) is not None

    def get_file(self, filename):
        if not self._served:
            return self._own.get_file(filename)
        if filename.endswith(".autotune.json"):
            path = self._guard(lambda: index.current().tuned(self.key, filename, _ordinal()))
            autotune.asked(self.key, filename)
            return path or self._from_own(lambda own: own.get_file(filename))
        if filename.endswith(EXT_SUFFIX):
            path = self._guard(self._host_by_key)
            return path or self._from_own(lambda own: own.get_file(filename))
        group = self._guard(lambda: index.current().kernel_group(self.key)) or {}
        return group.get(filename) or self._from_own(lambda own: own.get_file(filename))

    def get_group(self, filename):
        if not self._served:
            return self._own.get_group(filename)
        group = self._guard(lambda: index.current().kernel_group(self.key))
        if group is not None:
            return group
        if strict():
            self._refuse_kernel(filename)
        return self._from_own(lambda own: whole_group(own.cache_dir, filename))

    # --- writing ---
    def put(self, data, filename, binary=True):
        if not self._served:
            return self._own.put(data, filename, binary)
        if filename.endswith(EXT_SUFFIX):
            path = _answers.path_of(data)
            if path:
                return path
        if filename.endswith(".autotune.json") and strict():
            return filename  # chosen, not measured: nothing to keep
        return self._writable().put(data, filename, binary)

    def put_group(self, filename, group):
        return self._writable().put_group(filename, group)

    # --- Triton's own cache below ---
    @property
    def cache_dir(self):
        return self._writable().cache_dir

    def _from_own(self, read):
        """Read Triton's own cache, without making its folders just to look. Never in strict mode: nobody vouches
        for what lies there."""
        if strict():
            return None
        if self._own is None:
            from triton import knobs

            folder = knobs.cache.dir
            if not folder or not os.path.isdir(os.path.join(folder, self.key)):
                return None
            if not os.access(os.path.join(folder, self.key), os.W_OK):
                return read(_ReadOnly(os.path.join(folder, self.key)))
            self._own = FileCacheManager(self.key)
        return read(self._own)

    def _writable(self):
        if self._own is None:
            try:
                self._own = FileCacheManager(self.key)
            except OSError as error:
                self._own = _private(self.key, error)
        return self._own

    # --- misses ---
    def _guard(self, read):
        """A file that is not what the index says counts as missing, loudly; in strict mode it is an error."""
        try:
            return read()
        except (Tampered, Error) as error:
            if strict():
                raise _heard(error) from None
            log.warning(f"cubinary: {error} Triton compiles it here.")
            return None

    def _host_by_key(self):
        module, _ = index.current().host_module(None, [self.key])
        return index.current().host_file(module) if module else None

    def _refuse_kernel(self, filename):
        kind, variables = asking.who()
        if kind != "kernel":
            return
        miss = misses.record(
            "kernel",
            self.key,
            asking.kernel_name(variables),
            target=asking.target_text(variables),
            key_parts=asking.kernel_parts(variables),
        )
        raise Missing(misses.kernel_message(miss))


class _ReadOnly(FileCacheManager):
    """Triton's own layout where nothing may be written."""

    def __init__(self, folder):
        self.cache_dir, self.lock_path = folder, None


_private_lock = threading.Lock()
_private_folder = None


def _private(key, error):
    """A cache of this process alone, where Triton's own cannot be written. One warning a process."""
    global _private_folder
    with _private_lock:
        if _private_folder is None:
            _private_folder = tempfile.TemporaryDirectory(prefix="cubinary-triton-")
            log.warning(
                f"cubinary: Triton's cache cannot be written ({error}); what is compiled now lives in "
                f"{_private_folder.name} and is gone when this process ends."
            )
    own = FileCacheManager.__new__(FileCacheManager)
    own.key = key
    own.cache_dir = os.path.join(_private_folder.name, key)
    own.lock_path = os.path.join(own.cache_dir, "lock")
    os.makedirs(own.cache_dir, exist_ok=True)
    return own


def _ordinal():
    try:
        from triton.runtime import driver

        return int(driver.active.get_current_device())
    except Exception:
        return 0


# --- host modules ---


class _Answers:
    """Host modules handed out in this process, so that Triton's copy of one is not written anywhere."""

    def __init__(self):
        self._paths = {}

    def add(self, path, digest):
        self._paths[digest] = path

    def path_of(self, data):
        return self._paths.get(hashlib.sha256(data).hexdigest()) if isinstance(data, bytes) else None


_answers = _Answers()


def _build_host(build, name, src_path, _arguments):
    """Instead of compiling: the prebuilt module for this C source, whatever the platform key says."""
    digest = host.digest_of(src_path)
    current = index.current()
    module, why = current.host_module(digest)
    if module:
        try:
            path = current.host_file(module)
        except Tampered as error:
            if strict():
                raise _heard(error) from None
            log.warning(f"cubinary: {error} Triton compiles it here.")
        else:
            _answers.add(path, module["sha256"])
            return path
    if not strict():
        return build(src_path)
    _, variables = asking.who()
    key = getattr(variables.get("cache"), "key", "")
    message = misses.host_message(misses.record("host", key, name, source=digest), why)
    raise _heard(Missing(message))


def _heard(error):
    """An error that its caller cannot miss. flash-linear-attention asks for the GPU when it is imported, takes whatever
    is raised for "no GPU", calls its `_cpu_device_warning`, and goes on with the CPU: there the error is raised again."""
    frame = sys._getframe(1)
    while frame is not None:
        module = frame.f_globals
        if frame.f_code.co_name == "get_available_device" and module.get("__name__", "").startswith("fla."):
            if "_cpu_device_warning" not in module:
                return MissingExit(f"cubinary: {error}")

            def again():
                raise error

            module["_cpu_device_warning"] = again
            return error
        frame = frame.f_back
    return error


host.wrap_build(_build_host)
quiet.install()
autotune.install()
