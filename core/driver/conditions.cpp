// SPDX-License-Identifier: Apache-2.0
#include "core/driver/conditions.hpp"

#include <cstdio>

#include <dlfcn.h>

namespace cubinary::core {
namespace {

using Device = struct ManagedDevice*;

template <typename... Arguments>
bool call(void* library, const char* symbol, Arguments... arguments) {
  auto* function = reinterpret_cast<int (*)(Arguments...)>(::dlsym(library, symbol));
  return function != nullptr && function(arguments...) == 0;
}

}  // namespace

std::map<std::string, std::string> read_conditions(const std::string& uuid) {
  std::map<std::string, std::string> found;
  void* library = ::dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return found;
  }
  if (call(library, "nvmlInit_v2")) {
    Device device = nullptr;
    if (call(library, "nvmlDeviceGetHandleByUUID", uuid.c_str(), &device)) {
      constexpr int k_sm = 1;
      constexpr int k_memory = 2;
      const auto number = [&](const char* name, const char* symbol, auto... which) {
        unsigned value = 0;
        if (call(library, symbol, device, which..., &value)) {
          found.emplace(name, std::to_string(value));
        }
      };
      number("temperature_c", "nvmlDeviceGetTemperature", 0);
      number("sm_clock_mhz", "nvmlDeviceGetClockInfo", k_sm);
      number("memory_clock_mhz", "nvmlDeviceGetClockInfo", k_memory);
      number("max_sm_clock_mhz", "nvmlDeviceGetMaxClockInfo", k_sm);
      unsigned milliwatts = 0;
      if (call(library, "nvmlDeviceGetPowerUsage", device, &milliwatts)) {
        found.emplace("power_w", std::to_string(milliwatts / 1000));
      }
      unsigned long long reasons = 0;
      if (call(library, "nvmlDeviceGetCurrentClocksThrottleReasons", device, &reasons)) {
        char text[24];
        std::snprintf(text, sizeof text, "0x%llx", reasons);
        found.emplace("slowdown", text);
      }
    }
    (void)call(library, "nvmlShutdown");
  }
  ::dlclose(library);
  return found;
}

}  // namespace cubinary::core
