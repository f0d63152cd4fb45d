# SPDX-License-Identifier: Apache-2.0
"""Asks for the GPU as flash-linear-attention does: every exception means the CPU."""
import types

import triton

_hardware = types.ModuleType("fla.utils.hardware")
_hardware.triton = triton
exec("""
def get_available_device():
    try:
        return triton.runtime.driver.active.get_current_target().backend
    except Exception:
        return "cpu"
""", vars(_hardware))
device = _hardware.get_available_device
