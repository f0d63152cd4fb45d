// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "builder/release/view.hpp"
#include "cli/remote.hpp"

namespace cubinary::cli {

/// A server's blobs, every digest checked here; `remote` must outlive it.
[[nodiscard]] builder::ReadBlob blobs_of(Remote& remote);

}  // namespace cubinary::cli
