# SPDX-License-Identifier: Apache-2.0
"""One specialisation a program asked for, as a line of JSON: enough to ask for it again on a machine without
a GPU, for another target. The arguments are described, not kept: Triton's binder looks at their types, at
alignment and divisibility, and at nothing else."""

import json
import math
import os
import socket
import threading

from . import asking, device

VERSION = 1


class Unrecordable(ValueError):
    """A specialisation that cannot be described; the text says which part."""


_lock = threading.Lock()


def note(key, variables):
    """Append the specialisation that Triton asks for to this process's record: a file a process, so that a kill
    costs at most its last line."""
    from .capture import folder

    line = json.dumps(describe(key, variables), sort_keys=True, separators=(",", ":"), default=str)
    path = os.path.join(folder(), "records", f"{socket.gethostname()}-{os.getpid()}.jsonl")
    with _lock:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "a", encoding="utf-8") as file:
            file.write(line + "\n")


def describe(key, variables):
    src, options, target = variables["src"], variables["options"], variables["target"]
    fn = getattr(src, "fn", None)
    line = {
        "record": VERSION,
        "key": key,
        "target": asking.target_text(variables),
        "name": src.name,
        "host": socket.gethostname(),
        "device_class": device.device_class(),
        **asking.identity(),
    }
    if fn is None:
        return line | {"unrecordable": "compiled from a file of intermediate code, not from a function"}
    code = fn.fn.__code__
    line |= {
        "name": f"{fn.module}:{fn.fn.__qualname__}",
        "module": fn.module,
        "function": fn.fn.__qualname__,
        "file": os.path.abspath(code.co_filename),
        "root": _root(fn.module, code.co_filename),
        "line": fn.starting_line_number,
        "source": fn.cache_key,
        "warp_size": target.warp_size,
    }
    try:
        line["arguments"] = arguments(src)
        line["options"] = chosen_options(variables["backend"], options)
    except Unrecordable as error:
        line["unrecordable"] = str(error)
    return line


def _root(module, file):
    """The folder that must be on sys.path for `import module`."""
    path = os.path.dirname(os.path.abspath(file))
    if os.path.basename(file) == "__init__.py":
        path = os.path.dirname(path)
    for _ in range(module.count(".")):
        path = os.path.dirname(path)
    return path


# --- arguments ---


def arguments(src):
    """One description a parameter, in order, from the signature, constants and attributes of a source."""
    constants = {tuple(path): value for path, value in src.constants.items()}
    divisible = {
        tuple(path)
        for path, attrs in src.attrs.items()
        if any(tuple(attr)[:1] == ("tt.divisibility",) for attr in attrs)
    }
    return [
        _argument((position,), kind, constants, divisible)
        for position, kind in enumerate(src.signature.values())
    ]


def _argument(path, kind, constants, divisible):
    if isinstance(kind, tuple):
        parts = [
            _argument((*path, position), inner, constants, divisible) for position, inner in enumerate(kind)
        ]
        if hasattr(kind, "_fields"):
            return {"tuple": parts, "class": f"{type(kind).__module__}:{type(kind).__qualname__}"}
        return {"tuple": parts}
    if kind == "constexpr":
        return {"constant": encode(constants.get(path))}
    if kind.startswith("tensordesc"):
        inside = kind[len("tensordesc<") : -1]
        if not inside.endswith("]"):
            raise Unrecordable(f"argument {path[0]}: a descriptor with a layout, {kind}")
        dtype, _, block = inside.partition("[")
        return {"descriptor": dtype, "block": json.loads(f"[{block}")}
    return {"type": kind, "divisible": path in divisible}


def encode(value):
    """A constant as JSON, keeping its kind."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"float": repr(value)}
    if isinstance(value, (tuple, list)):
        coded = {"tuple" if isinstance(value, tuple) else "list": [encode(item) for item in value]}
        if hasattr(value, "_fields"):
            coded["class"] = f"{type(value).__module__}:{type(value).__qualname__}"
        return coded
    kind, module = type(value).__name__, type(value).__module__
    if kind == "constexpr":
        return {"constexpr": encode(value.value)}
    if kind == "dtype" and module.startswith("torch"):
        return {"torch": str(value).rpartition(".")[2]}
    if kind == "dtype" and module.startswith("triton."):
        return {"dtype": value.name}
    fn = getattr(value, "fn", None)
    if hasattr(value, "cache_key") and fn is not None:
        return {"jit": f"{value.fn.__module__}:{value.fn.__qualname__}"}
    raise Unrecordable(f"a constant of type {module}.{kind}")


def chosen_options(backend, options):
    """Options that the caller set: those that differ from what the target gives by itself. The rest must
    follow the next target, not this one."""
    given = backend.parse_options({})
    return {
        name: encode(value)
        for name, value in vars(options).items()
        if vars(given).get(name) != value and name not in ("arch", "backend_name", "extern_libs")
    }
