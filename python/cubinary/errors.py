# SPDX-License-Identifier: Apache-2.0
"""What can go wrong, as exceptions."""


class Error(RuntimeError):
    """An operation failed. `status` is its stable word: "no_match", "signature", "network", …"""

    def __init__(self, status, message):
        super().__init__(message)
        self.status = status


class ArgumentError(Error, ValueError):
    """An argument of a call does not fit the kernel. Nothing was launched."""

    def __init__(self, message):
        super().__init__("usage", message)
