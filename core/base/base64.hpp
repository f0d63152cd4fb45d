// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "core/base/bytes.hpp"
#include "core/base/result.hpp"

namespace cubinary::core {

/// Standard base64 with padding (RFC 4648 section 4).
[[nodiscard]] std::string base64_encode(ByteView bytes);
/// Takes the standard or the URL-safe alphabet, not both mixed, with padding. White space, missing
/// padding and bits that no encoder sets are `corrupt`: one value has one text an alphabet.
[[nodiscard]] Result<Bytes> base64_decode(std::string_view text);

}  // namespace cubinary::core
