# SPDX-License-Identifier: Apache-2.0
"""What Triton wants when it opens a cache: a kernel, a host module or an autotune result.

Triton hands a cache manager the digest of its key and nothing else. What went into the key stands in the
variables of the function that asked, one or two frames up. Reading it there works in every version and
whatever imported first; a name that a future version lacks leaves that part unknown, and nothing breaks.
"""

import hashlib
import json
import os
import sys

from . import ptxas
from .environment import machine, platform_keys, python_abi, triton_version

_ASKERS = {
    ("triton.compiler.compiler", "compile"): "kernel",
    ("triton.runtime.build", "compile_module_from_src"): "host",
    ("triton.runtime.build", "_compile_so"): "host",
    ("triton.runtime.autotuner", "check_disk_cache"): "autotune",
}
_DEEPEST = 12


def who(depth=2):
    """(kind, variables) of the Triton function that is asking this thread's cache manager; ("", {}) when
    it is somebody else."""
    frame = sys._getframe(depth)
    for _ in range(_DEEPEST):
        if frame is None:
            break
        kind = _ASKERS.get((frame.f_globals.get("__name__"), frame.f_code.co_name))
        if kind:
            return kind, dict(frame.f_locals)
        frame = frame.f_back
    return "", {}


def identity():
    return {"triton": triton_version(), "python_abi": python_abi(), "machine": machine()}


def canonical(value):
    return json.dumps(value, sort_keys=True, separators=(",", ":"), default=str)


def _triton_key():
    from triton.compiler import compiler
    from triton.runtime import cache

    key = getattr(cache, "triton_key", None) or getattr(compiler, "triton_key", None)
    return hashlib.sha256(key().encode()).hexdigest() if key else None


def _option(name, value):
    if name == "extern_libs" and value:
        # Triton hashes these files by content, so their paths are no part of the key.
        return canonical({lib: _content(path) for lib, path in value})
    return value if isinstance(value, str) else canonical(value)


def _content(path):
    try:
        with open(path, "rb") as file:
            return hashlib.sha256(file.read()).hexdigest()
    except OSError:
        return "unreadable"


def kernel_parts(variables):
    """The parts of a kernel's key, flat, all text; what cannot be had is left out."""
    src, options, target = (variables.get(name) for name in ("src", "options", "target"))
    fn = getattr(src, "fn", None)
    parts = {
        "triton_key": _triton_key,
        "source": lambda: src.hash(),
        "backend": lambda: variables["backend"].hash(),
        "arch": lambda: str(target.arch),
        "options": lambda: options.hash(),
        "ptxas.id": lambda: ptxas.used_for(target.arch),
    }
    if fn is not None:
        parts |= {
            "function": lambda: f"{fn.module}:{fn.fn.__qualname__}",
            "source.function": lambda: fn.cache_key,
            "source.line": lambda: str(fn.starting_line_number),
            "source.file": lambda: os.path.basename(fn.fn.__code__.co_filename),
            "signature": lambda: canonical(src.signature),
            "constants": lambda: canonical(
                {".".join(map(str, k)): constant_text(v) for k, v in src.constants.items()}
            ),
            "attrs": lambda: canonical({".".join(map(str, k)): v for k, v in src.attrs.items()}),
        }
    for name, value in sorted(getattr(options, "__dict__", {}).items()):
        parts[f"option.{name}"] = lambda name=name, value=value: _option(name, value)
    for name, value in sorted((variables.get("env_vars") or {}).items()):
        parts[f"env.{name}"] = lambda value=value: str(value)
    found = {}
    for name, read in parts.items():
        try:
            value = read()
        except Exception:  # a part that this version does not have
            continue
        if value is not None:
            found[name] = value
    if "backend" in found:
        found["ptxas"] = ptxas.release_line(found["backend"])
    return found


def constant_text(value):
    key = getattr(value, "cache_key", None)
    return f"jit:{key}" if isinstance(key, str) else repr(value)


def kernel_name(variables):
    return str(getattr(variables.get("src"), "name", ""))


def target_text(variables):
    return f"sm_{getattr(variables.get('target'), 'arch', '')}"


def host_source(variables):
    """The source of the host module that is asked for, as bytes."""
    src = variables.get("src", b"")
    return src if isinstance(src, bytes) else str(src).encode()


def host_keys(key, variables):
    """Every cache directory in which this Triton would look for the module: with `file` and without."""
    source = host_source(variables)
    build = {}
    if "language" in variables:  # 3.8 and newer hash how the module is built as well
        build = {"language": [variables["language"]]}
        build |= {
            name: variables.get(name) for name in ("library_dirs", "include_dirs", "libraries", "ccflags")
        }
    keys = []
    for platform_key in platform_keys():
        digest = hashlib.sha256(source + platform_key.encode())
        for name, values in build.items():
            if values is not None:
                digest.update(name.encode())
                for value in values:
                    digest.update(value.encode() + b":")
        keys.append(base32(digest.digest()))
    return keys if key in keys else [key]


def base32(digest):
    import base64

    return base64.b32encode(digest).decode().rstrip("=")
