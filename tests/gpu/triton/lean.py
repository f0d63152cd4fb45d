# SPDX-License-Identifier: Apache-2.0
"""Run a Python program in a lean view: as an unprivileged user, with every execve refused by the kernel (seccomp),
and watched. Ends with one line `LEAN {…}` on stderr: programs it tried to start, files it opened for writing.

    python lean.py PROGRAM ARGS...
"""

import atexit
import ctypes
import json
import os
import runpy
import sys

NOBODY = 65534
tried, written = [], []


class Instruction(ctypes.Structure):
    _fields_ = [
        ("code", ctypes.c_uint16),
        ("jt", ctypes.c_uint8),
        ("jf", ctypes.c_uint8),
        ("k", ctypes.c_uint32),
    ]


class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.POINTER(Instruction))]


def forbid_exec():
    """execve and execveat answer EPERM from here on, in every thread and child; True when the kernel agreed."""
    load, equal, give = 0x20, 0x15, 0x06
    execve, execveat = (59, 322) if os.uname().machine == "x86_64" else (221, 281)
    code = [
        Instruction(load, 0, 0, 0),
        Instruction(equal, 2, 0, execve),
        Instruction(equal, 1, 0, execveat),
        Instruction(give, 0, 0, 0x7FFF0000),
        Instruction(give, 0, 0, 0x00050001),
    ]
    array = (Instruction * len(code))(*code)
    libc = ctypes.CDLL(None, use_errno=True)
    return libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, ctypes.byref(Program(len(code), array))) == 0


def watch(event, arguments):
    if event in ("subprocess.Popen", "os.exec", "os.posix_spawn", "os.system"):
        tried.append(str(arguments[0]))
    elif event == "open":
        path, mode, flags = arguments
        writing = isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
        if writing and not str(path).startswith(("/dev/", "/proc/")) and not isinstance(path, int):
            written.append(str(path))
    elif event in ("os.mkdir", "os.rename"):
        written.append(str(arguments[0]))


def report():
    print(
        "LEAN",
        json.dumps({"exec_forbidden": forbidden, "uid": os.getuid(), "tried": tried, "written": written}),
        file=sys.stderr,
    )


if os.getuid() == 0 and os.environ.get("LEAN_ROOT") != "1":
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)
forbidden = forbid_exec()
sys.addaudithook(watch)
atexit.register(report)
sys.argv = sys.argv[1:]
sys.path[0] = os.path.dirname(os.path.abspath(sys.argv[0]))
runpy.run_path(sys.argv[0], run_name="__main__")
