# SPDX-License-Identifier: Apache-2.0
"""What the plug-in refuses, as exceptions."""


class Missing(RuntimeError):
    """Strict mode: the release lacks what the program asks for. The message names the key and why."""


class MissingExit(SystemExit):
    """`Missing` where the caller swallows every exception and would fall back to the CPU in silence."""


class Tampered(RuntimeError):
    """A file of the hydrated cache is not what its index says. Nothing of it was loaded."""


class UnsupportedTriton(ImportError):
    """This Triton cannot be served."""
