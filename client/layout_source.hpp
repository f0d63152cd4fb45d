// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <memory>

#include "client/source.hpp"

namespace cubinary::client {

/// Reads an OCI image layout. Nothing is ever written; the folder may be read-only media.
[[nodiscard]] core::Result<std::unique_ptr<Source>> open_layout_source(
    const std::filesystem::path& directory);

}  // namespace cubinary::client
