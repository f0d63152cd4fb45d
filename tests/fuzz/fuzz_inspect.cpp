// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "builder/inspect/inspect.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto info = cubinary::builder::inspect_cubin(std::as_bytes(std::span(data, size)));
  if (!info &&
      (info.error().code != cubinary::core::ErrorCode::bad_cubin || info.error().message.empty())) {
    std::abort();
  }
  return 0;
}
