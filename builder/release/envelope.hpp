// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.hpp"

namespace cubinary::builder {

/// What a DSSE envelope says it signs, and by which keys; nothing is verified.
struct OpenedEnvelope {
  std::string payload;
  std::vector<std::string> key_ids;
};
/// Errors are `corrupt`: no envelope of an in-toto statement, or no signature in it.
[[nodiscard]] core::Result<OpenedEnvelope> open_envelope(std::string_view envelope);

}  // namespace cubinary::builder
