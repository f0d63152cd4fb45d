// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/result.hpp"
#include "core/table/resolve.hpp"
#include "server/table_cache.hpp"
#include "store/releases.hpp"

namespace cubinary::server {

/// A choice with what it points into.
struct Chosen {
  std::optional<core::Choice> choice;  ///< always set in an answer
  std::vector<TableCache::Table> tables;
  std::vector<std::vector<core::TableEntry>> entries;  ///< a released kernel each
};

/// What core::resolve answers over a released kernel's tables, reading of their entries only those
/// that may win: first the query's own device class, then the others from near to far, then the
/// configs nobody measured. The cascade puts these in this very order, so the first answer is the
/// answer. A query that nothing serves reads all, to say why. Errors: `no_match`, `usage`.
[[nodiscard]] core::Result<Chosen> resolve_released(
    const store::Reader& reader, TableCache& cache,
    const std::vector<store::ReleasedKernel>& released, const core::ResolveQuery& query);

}  // namespace cubinary::server
