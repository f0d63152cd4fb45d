# SPDX-License-Identifier: Apache-2.0
"""`ptxas --version` without ptxas: its text is part of every kernel's key, and Triton runs the program for
it on every start. A release says what the text was, and from which binary."""

import functools
import hashlib
import os
import re

_SAMPLE = 1 << 20


@functools.lru_cache
def identity(path):
    """Size and digest of both ends of a file: enough to tell two builds of ptxas apart, and no trust is
    put in it, since it only chooses which entry of the release is meant."""
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        digest = hashlib.sha256(file.read(_SAMPLE))
        file.seek(max(size - _SAMPLE, 0))
        digest.update(file.read(_SAMPLE))
    return f"{size}-{digest.hexdigest()[:32]}"


def installed():
    """Paths of the ptxas programs that this Triton could use, without running any."""
    from triton import knobs

    paths = []
    for name in ("ptxas", "ptxas_blackwell"):
        knob = type(knobs.nvidia).__dict__.get(name)
        if knob is None:
            continue
        shipped = os.path.join(os.path.dirname(knobs.__file__), "backends", "nvidia", "bin", knob.binary)
        chosen = vars(knobs.nvidia).get(name) or os.environ.get(knob.key) or shipped
        chosen = getattr(chosen, "path", chosen)
        if os.path.exists(chosen):
            paths.append(chosen)
    return paths


def used_for(arch):
    """Identity of the ptxas that compiles for this arch. May run it: for capture and build only."""
    from triton.backends.nvidia import compiler

    try:
        tool = compiler.get_ptxas(arch)
    except TypeError:
        tool = compiler.get_ptxas()
    return identity(tool.path)


def release_line(backend):
    """ "12.8.93" out of the text of a backend's hash."""
    match = re.search(r"V(\d+(?:\.\d+)+)", backend)
    return match.group(1) if match else ""


def text_of(backend, arch):
    """The version text inside a backend's hash, "<text>-<arch>"; None when it is not of that form."""
    suffix = f"-{arch}"
    return backend[: -len(suffix)] if backend.endswith(suffix) else None


def answer(recorded):
    """The version text, out of the (text, identity) pairs recorded for one arch: that of the ptxas that is
    installed, or the only one there is when none is. None: run it and see."""
    present = {identity(path) for path in installed()}
    texts = {text for text, made_by in recorded if not present or made_by in present}
    return texts.pop() if len(texts) == 1 else None
