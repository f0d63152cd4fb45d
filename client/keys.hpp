// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/base/result.hpp"
#include "core/wire/signature.hpp"

namespace cubinary::client {

/// Public keys from files, or from PEM text itself.
[[nodiscard]] core::Result<std::vector<core::PublicKey>> load_keys(
    std::span<const std::string> files_or_pem);

/// A token as it is sent: without the white space a file or shell leaves around it, and "" when
/// what is left could not stand in a header.
[[nodiscard]] std::string trimmed_token(std::string token);

}  // namespace cubinary::client
