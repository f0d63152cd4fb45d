# SPDX-License-Identifier: Apache-2.0
"""Asks for the GPU as versions of flash-linear-attention do: whatever is raised means the CPU."""

import types

import triton


def device(caught, warns):
    """`caught`: the class that this version catches; `warns`: whether it calls its warning."""
    module = types.ModuleType("fla.utils.hardware")
    module.triton = triton
    if warns:
        module._cpu_device_warning = lambda: None
    exec(
        f"""
def get_available_device():
    try:
        return triton.runtime.driver.active.get_current_target().backend
    except {caught}:
        {"_cpu_device_warning()" if warns else "pass"}
        return "cpu"
""",
        vars(module),
    )
    return module.get_available_device()
