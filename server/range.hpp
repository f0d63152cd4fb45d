// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

namespace cubinary::server {

/// What a Range header asks of a representation of known size.
struct RangeRequest {
  enum class Kind : std::uint8_t {
    whole,          ///< no range, an unknown unit or malformed text: send everything
    part,           ///< one range: send [offset, offset + length)
    unsatisfiable,  ///< lies outside, or several ranges (never answered in parts here): 416
  };
  Kind kind = Kind::whole;
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
};

/// Reads `bytes=a-b`, `bytes=a-` and `bytes=-n` against `size` bytes.
[[nodiscard]] RangeRequest parse_range(std::string_view header, std::uint64_t size);

}  // namespace cubinary::server
