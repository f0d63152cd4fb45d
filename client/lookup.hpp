// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "client/release.hpp"
#include "core/base/result.hpp"
#include "core/table/kernel_table.hpp"
#include "core/table/resolve.hpp"

namespace cubinary::client {

/// One kernel's tables for every target of a release that a device can load.
struct KernelTables {
  std::vector<std::shared_ptr<const TargetTables>> owners;  ///< of what `tables` points to
  std::vector<core::ResolveTable> tables;
};

struct LookupQuery {
  std::string_view kernel;
  core::Capability capability;
  /// The driver's CUDA version (12080); targets it cannot load are passed over. None: not asked.
  std::optional<int> cuda_version;
  /// Must equal the kernel's interface when set.
  std::optional<core::Digest> interface_digest;
};

/// Errors: `no_match` (the release has nothing for this device: names its targets), `driver` (only
/// code a newer driver loads), `not_found` (no such kernel: the nearest name),
/// `interface_mismatch`.
[[nodiscard]] core::Result<KernelTables> find_kernel(Release& release, const LookupQuery& query,
                                                     Deadline deadline);

}  // namespace cubinary::client
