# SPDX-License-Identifier: Apache-2.0
"""Where this process runs: Triton's version, the interpreter's ABI, the machine, the C library, and the
switches that a user sets. Read once; nothing here starts a program."""

import functools
import logging
import os
import platform
import sys
import sysconfig

from .errors import UnsupportedTriton

log = logging.getLogger("cubinary.triton")

OLDEST = (3, 4)
NEWEST_TESTED = (3, 9)
EXT_SUFFIX = sysconfig.get_config_var("EXT_SUFFIX")


def python_abi():
    """The wheel tag of this interpreter: cp312, free-threaded cp313t."""
    threads = "t" if sysconfig.get_config_var("Py_GIL_DISABLED") else ""
    return f"cp{sys.version_info.major}{sys.version_info.minor}{threads}"


def machine():
    return os.uname().machine


def platform_keys():
    """Triton's platform key with the `file` program installed and without it, in this order."""
    base = f"{machine()},{os.uname().sysname},{platform_bits()}"
    return [f"{base},ELF", f"{base},"]


def platform_bits():
    return "64bit" if sys.maxsize > 2**32 else "32bit"


@functools.lru_cache
def glibc():
    """The running C library as (2, 36); None when it is not glibc."""
    try:
        text = os.confstr("CS_GNU_LIBC_VERSION")
    except (AttributeError, ValueError, OSError):
        return None
    return version_tuple(text.split()[-1]) if text else None


def version_tuple(text):
    numbers = []
    for part in text.split("."):
        digits = ""
        for character in part:
            if not character.isdigit():
                break
            digits += character
        if not digits:
            break
        numbers.append(int(digits))
    return tuple(numbers)


def flag(name):
    return os.environ.get(name, "").lower() not in ("", "0", "false", "no", "off")


def strict():
    """Fail closed: a miss is an error at once, and no compiler is ever started."""
    return flag("CUBINARY_TRITON_STRICT")


@functools.lru_cache
def triton_version():
    """Triton's version as text, when it can be served; otherwise UnsupportedTriton. Warns once about a
    version newer than those tested."""
    import triton

    version = triton.__version__
    numbers = version_tuple(version)[:2]
    if numbers < OLDEST:
        raise UnsupportedTriton(
            f"Triton {version} cannot be served without a compiler: it names its host modules without the "
            "interpreter's ABI and has no hook for building them. Use Triton 3.4 or newer."
        )
    if numbers > NEWEST_TESTED:
        log.warning(
            f"cubinary was tested with Triton 3.4 to {'.'.join(map(str, NEWEST_TESTED))}; this is {version}. "
            "Its keys are computed by Triton itself, so it may well work."
        )
    return version


def running_python():
    return f"Python {platform.python_version()} ({python_abi()})"
