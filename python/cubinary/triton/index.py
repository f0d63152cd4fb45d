# SPDX-License-Identifier: Apache-2.0
"""A hydrated folder: `cubinary-triton.json`, and the files whose digests it holds.

The index is written last, after the release's signature was checked, by `cubinary triton hydrate` or
`cubinary-fetch`. Everything served is held against it first; CUBINARY_TRITON_INDEX pins the index itself.
"""

import functools
import hashlib
import json
import logging
import os

from ..errors import Error
from . import device, ondemand, ptxas
from .environment import glibc, machine, python_abi, running_python, strict, triton_version, version_tuple
from .errors import Tampered

log = logging.getLogger("cubinary.triton")

NAME = "cubinary-triton.json"
FORMAT = 1


class Index:
    """What one hydrated folder holds. Immutable after construction; safe to share between threads."""

    def __init__(self, folder, document):
        self.folder = os.path.abspath(folder)
        self.present = bool(document)
        self.release = document.get("release", "")
        self.misses = document.get("misses", "")
        self.kernels = document.get("kernels", {})
        self.host = document.get("host", {})
        self.autotune = document.get("autotune", {})
        self.host_by_key = {
            key: module
            for modules in self.host.values()
            for module in modules
            for key in module.get("keys", [])
        }

    def describe(self):
        if not self.present:
            return f"no release is laid down in {self.folder} (no {NAME})"
        return f"release '{self.release}' in {self.folder}"

    # --- files ---
    def verified(self, relative, digest):
        """Absolute path of a file of the folder, after its bytes were held against `digest`. Raises
        Tampered when they differ or are gone."""
        path = f"{self.folder}/{relative}"
        try:
            actual = _digest(path)
        except OSError as error:
            raise Tampered(
                f"{path} of {self.describe()} cannot be read: {error.strerror}. Hydrate the folder again."
            ) from None
        if actual != digest:
            raise Tampered(
                f"{path} was changed after it was verified: SHA-256 {actual}, the release says "
                f"{digest}. It was not loaded. Hydrate the folder again."
            )
        return path

    def kernel_group(self, key):
        """{file name: verified path} of a kernel entry; None when the release lacks it."""
        entry = self.kernels.get(key)
        if entry is None:
            return None
        return {
            name: self.verified(f"{key}/{name}", digest)
            for name, digest in entry["files"].items()
            if not name.startswith("__grp__") and name != "cubinary.json"
        }

    def host_module(self, source_digest, keys=()):
        """(module, why not): the host module built from this source that loads here. Both may be None: the
        release has never seen the source."""
        candidates = list(self.host.get(source_digest, []))
        candidates += [self.host_by_key[key] for key in keys if key in self.host_by_key]
        why = None
        for module in candidates:
            why = _cannot_load(module)
            if why is None:
                return module, None
        return None, why

    def host_file(self, module):
        return self.verified(module["path"], module["sha256"])

    # --- autotune results ---
    def tuned(self, key, name, ordinal=0):
        """Verified path of an autotune result for the running GPU, or for the nearest class of the same
        capability; None when there is none."""
        holding = [c for c, entries in self.autotune.items() if name in entries.get(key, {}).get("files", {})]
        if not holding:
            return None
        chosen = device.nearest(device.device_class(ordinal), holding)
        if chosen is None:
            return None
        digest = self.autotune[chosen][key]["files"][name]
        return self.verified(os.path.join("cubinary", "autotune", chosen, key, name), digest)

    # --- ptxas ---
    def ptxas_text(self, arch):
        """What `ptxas --version` printed where this release was made, when the same ptxas is here."""
        recorded = set()
        for entry in self.kernels.values():
            parts = entry.get("key_parts", {})
            if entry.get("target") == f"sm_{arch}" and entry.get("triton") == triton_version():
                text = ptxas.text_of(parts.get("backend", ""), arch)
                if text is not None:
                    recorded.add((text, parts.get("ptxas.id", "")))
        return ptxas.answer(recorded) if recorded else None


_PIECE = 64 << 10  # holds most files of an entry whole, and stays below what malloc maps anew each time


def _digest(path):
    # Every hit reads all files of its entry: through the plain calls this costs a third of what it does through open().
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        piece = os.read(descriptor, _PIECE)
        digest = hashlib.sha256(piece)
        while piece:
            piece = os.read(descriptor, _PIECE)
            digest.update(piece)
    finally:
        os.close(descriptor)
    return digest.hexdigest()


def _cannot_load(module):
    if module.get("python_abi") and module["python_abi"] != python_abi():
        return f"the release has it for {module['python_abi']}, this is {running_python()}"
    if module.get("machine") and module["machine"] != machine():
        return f"the release has it for {module['machine']}, this machine is {machine()}"
    floor, here = version_tuple(module.get("glibc_floor") or ""), glibc()
    if floor and here is None:
        return f"it was built against glibc {module['glibc_floor']}, and this system has another C library"
    if floor and floor > here:
        return f"it needs glibc {module['glibc_floor']} or newer, this system has {'.'.join(map(str, here))}"
    return None


@functools.lru_cache
def folder():
    """The hydrated folder this process was told to use; Triton's own cache folder otherwise."""
    from triton import knobs

    return os.environ.get("CUBINARY_TRITON_CACHE") or knobs.cache.dir


def read(folder):
    """The index of a folder; an empty one where there is none. Raises Tampered when it is not the pinned one, damaged,
    or of another format."""
    path, data = os.path.join(os.path.abspath(folder), NAME), b""
    try:
        with open(path, "rb") as file:
            data = file.read()
    except FileNotFoundError:
        pass
    pinned = os.environ.get("CUBINARY_TRITON_INDEX", "").removeprefix("sha256:")
    if pinned and hashlib.sha256(data).hexdigest() != pinned:
        raise Tampered(
            f"{path} is not the index that CUBINARY_TRITON_INDEX pins ({pinned}). Hydrate the folder again, or "
            "export what `cubinary triton env` prints for it."
        )
    try:
        document = json.loads(data) if data else {}
    except ValueError as error:
        raise Tampered(f"{path} is damaged ({error}). Hydrate the folder again.") from None
    if data and document.get("triton_index") != FORMAT:
        raise Tampered(
            f"{path} has format {document.get('triton_index')!r}, this plug-in reads {FORMAT}. Use the cubinary "
            "package of the same version as the program that wrote it."
        )
    return Index(folder, document)


@functools.lru_cache
def current():
    """The index of this process, read once. What is wrong with it is an error in strict mode; otherwise it is said
    once, and nothing is served."""
    try:
        ondemand.fill(folder(), NAME)
        return read(folder())
    except (Tampered, Error) as error:
        if strict():
            raise
        log.warning(f"cubinary: {error} Nothing is served from a release.")
        return Index(folder(), {})
