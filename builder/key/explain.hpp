// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "builder/plan.hpp"
#include "core/base/digest.hpp"

namespace cubinary::builder {

/// What a kernel's last finished build hashed: the ground on which the next one is explained.
struct InputRecord {
  std::map<std::string, std::string> files;  ///< name → hex digest
  std::string compiler;                      ///< backend and identity
  std::string options;  ///< flags, includes, entries of the manifest, as one text
};

[[nodiscard]] InputRecord record_of(const PlannedKernel& kernel);
[[nodiscard]] std::string to_json(const InputRecord& record);
/// Nothing for an empty text or one of another version.
[[nodiscard]] std::optional<InputRecord> record_from_json(std::string_view json);

/// Why `candidate` is, or is not, compiled, in a few words. `before`: the record of the kernel's
/// last finished build, if there was one.
[[nodiscard]] std::string explain(const PlannedKernel& kernel, const PlannedCandidate& candidate,
                                  const std::optional<InputRecord>& before, bool retry_failed);

}  // namespace cubinary::builder
