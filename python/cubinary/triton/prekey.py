# SPDX-License-Identifier: Apache-2.0
"""Triton hashes its whole compiler library, hundreds of megabytes, into every key, once a process, at the first
launch. Begun when Triton is imported, beside what the program does until then, it is ready by that time."""

import os
import threading


def begin():
    """Have Triton's own function compute its key in a thread; it keeps the result itself. A program that forks
    meanwhile waits for it, so that no child inherits half of it."""
    from triton.compiler import compiler
    from triton.runtime import cache

    compute = getattr(cache, "triton_key", None) or getattr(compiler, "triton_key", None)
    if compute is None:
        return
    thread = threading.Thread(target=_quietly, args=(compute,), name="cubinary-triton-key", daemon=True)
    thread.start()
    os.register_at_fork(before=thread.join)


def _quietly(compute):
    try:
        compute()
    except Exception:  # the first launch will meet it again, where it can be seen
        pass
