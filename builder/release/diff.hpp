// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.hpp"
#include "store/store.hpp"

namespace cubinary::builder {

/// One thing that differs between two releases, in words fit for a table.
struct ReleaseChange {
  enum class Kind : std::uint8_t { added, removed, changed };
  Kind kind = Kind::changed;
  std::string target;
  std::string kernel;  ///< empty: the whole target
  std::string entry;   ///< types, shape, device class and rank; empty: the whole kernel
  std::string what;    ///< "config WARPS=4 -> WARPS=8"; for added and removed the config
};
[[nodiscard]] std::string_view kind_name(ReleaseChange::Kind kind);

/// What `after` has that `before` has not, and the other way round, by target, kernel and entry:
/// what it runs (config), how it is compiled (artifact), how fast it was; a changed interface or
/// launch rule of a kernel. Empty when clients would do exactly the same with both. Errors:
/// `not_found`, `corrupt`.
[[nodiscard]] core::Result<std::vector<ReleaseChange>> diff_releases(const store::Reader& reader,
                                                                     std::string_view before,
                                                                     std::string_view after);

}  // namespace cubinary::builder
