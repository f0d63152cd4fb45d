// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/result.hpp"
#include "store/store.hpp"

namespace cubinary::store {

/// Gives the pages a deletion freed back to the file system.
[[nodiscard]] core::Result<void> shrink(Store& store);

}  // namespace cubinary::store
