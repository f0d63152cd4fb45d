// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>

namespace cubinary::core {

/// What the management library (libnvidia-ml, opened with dlopen) says of a GPU now:
/// `temperature_c` `power_w` `sm_clock_mhz` `memory_clock_mhz` `max_sm_clock_mhz` `slowdown`
/// (hexadecimal reasons), each only where it can be asked; empty without the library. Only reads.
/// `uuid` is "GPU-…".
[[nodiscard]] std::map<std::string, std::string> read_conditions(const std::string& uuid);

}  // namespace cubinary::core
