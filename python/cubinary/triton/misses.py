# SPDX-License-Identifier: Apache-2.0
"""Misses: what a program asked for and the release lacks, appended to a file as one JSON object a line, and
said in one message."""

import json
import os
import socket
import time

from . import asking, device, index


def record(kind, key, name, **more):
    """The miss as a dictionary, appended to the misses file where there is one. Never fails: a read-only
    folder costs the file, not the message."""
    current = index.current()
    miss = {
        "miss": 1,
        "kind": kind,
        "key": key,
        "name": name,
        **asking.identity(),
        "device_class": device.device_class(),
        "time": int(time.time()),
        "pid": os.getpid(),
        "host": socket.gethostname(),
        **more,
    }
    path = os.environ.get("CUBINARY_TRITON_MISSES") or current.misses
    if path:
        line = json.dumps(miss, sort_keys=True, separators=(",", ":"), default=str) + "\n"
        try:
            # One write to a file opened for appending: lines of several processes do not mix.
            descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
        except OSError:
            return miss
        try:
            os.write(descriptor, line.encode())
        except OSError:
            pass
        finally:
            os.close(descriptor)
    return miss


_WAY_OUT = (
    "Capture the program again with `cubinary triton capture`, or unset CUBINARY_TRITON_STRICT to let "
    "Triton compile it here."
)


def kernel_message(miss):
    from . import explain

    current = index.current()
    where = f"{miss['key_parts'].get('source.file', '?')}:{miss['key_parts'].get('source.line', '?')}"
    said = explain.sentence(miss, current.kernels)
    return (
        f"strict mode: the kernel '{miss['name']}' ({where}) for {miss['target']} under key "
        f"{miss['key']} is not in {current.describe()}. {said} {_WAY_OUT}"
    )


def host_message(miss, why):
    current = index.current()
    said = f"{why[0].upper()}{why[1:]}." if why else explain_host(miss, current)
    return (
        f"strict mode: the host module '{miss['name']}' (C source {miss['source'][:16]}…, key "
        f"{miss['key']}) is not in {current.describe()}, and no compiler is started. {said} {_WAY_OUT}"
    )


def explain_host(miss, current):
    versions = sorted(
        {
            module["triton"]
            for modules in current.host.values()
            for module in modules
            if module.get("name") == miss["name"]
        }
    )
    if not versions:
        return "It holds no such module at all."
    if miss["triton"] not in versions:
        return f"It holds the one of Triton {', '.join(versions)}; this is Triton {miss['triton']}."
    return "It holds others of this Triton, made from other signatures."
