// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "core/manifest/manifest.hpp"

// Any bytes parse or are refused with a position; what parses has a digest and at least one step.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace cubinary::core;
  const auto manifest = parse_manifest({reinterpret_cast<const char*>(data), size}, "kernel.toml");
  if (!manifest) {
    if (!manifest.error().message.starts_with("kernel.toml:")) {
      std::abort();
    }
    return 0;
  }
  if (manifest->steps.empty() || interface_digest(*manifest).is_zero()) {
    std::abort();
  }
  return 0;
}
