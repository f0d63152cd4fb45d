// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/json.hpp"
#include "core/base/result.hpp"
#include "core/model/occupancy.hpp"
#include "core/table/resolve.hpp"
#include "store/audit/audit.hpp"

/// What the configs that a release would serve take of a GPU.
namespace cubinary::builder {

/// One launch of one config. Launches alike in everything but the shape are one row.
struct ResourceRow {
  std::string kernel;
  std::string target;
  core::DeviceClass device_class;
  core::Types types;
  core::Config config;
  core::Match match = core::Match::fallback;  ///< the surest of its shapes'
  std::string step;
  std::int64_t spill_bytes = 0;
  core::BlockResources block;
  core::Occupancy occupancy;
  std::vector<core::Shape> shapes;  ///< sorted
};

struct ResourceAnswer {
  std::vector<ResourceRow> rows;  ///< by kernel, target, device class, types, config, step
  /// Shapes that the manifests say to tune and that no config serves, a sentence each.
  std::vector<std::string> unserved;
};

/// For every shape the manifests say to tune, with pointers as an allocator gives them: the config
/// a client on the class would get from a release of the store as it is. Without a class in the
/// filter: every class the store knows that runs the target; `usage` when it knows none.
[[nodiscard]] core::Result<ResourceAnswer> audit_resources(const store::Reader& reader,
                                                           const store::AuditFilter& filter);

/// store::audit's queries and `resources`, whose parameters are `kernel`, `target` and
/// `device_class`; the class need not be one that the store knows.
[[nodiscard]] core::Result<core::json::Value> audit(
    const store::Reader& reader, std::string_view query,
    const std::map<std::string, std::string>& parameters);

}  // namespace cubinary::builder
