// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cubinary::core {

using Bytes = std::vector<std::byte>;
using ByteView = std::span<const std::byte>;

/// Views text as bytes; nothing is copied.
[[nodiscard]] inline ByteView as_bytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}
/// Views bytes as text; nothing is copied or checked.
[[nodiscard]] inline std::string_view as_text(ByteView bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}
[[nodiscard]] inline Bytes to_bytes(std::string_view text) {
  const ByteView view = as_bytes(text);
  return {view.begin(), view.end()};
}
[[nodiscard]] inline std::string to_text(ByteView bytes) {
  return std::string(as_text(bytes));
}

}  // namespace cubinary::core
