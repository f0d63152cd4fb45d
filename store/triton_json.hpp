// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "core/base/json.hpp"
#include "core/base/result.hpp"
#include "store/triton.hpp"

namespace cubinary::store {

/// What is captured of Triton, as it is sent to a server at once.
struct TritonEntries {
  std::vector<StoredTritonKernel> kernels;
  std::vector<core::TritonHost> host;
  std::vector<core::TritonAutotune> autotune;
  std::vector<std::string> records;  ///< one JSON object each
};

/// Everything a store holds of Triton, but the records.
[[nodiscard]] core::Result<TritonEntries> list_triton(const Reader& reader);

/// `{"kernels":[…],"host":[…],"autotune":[…]}`: elements as in a release's catalogue
/// (schema/triton.md section 3), kernels with their `target`; `"records":["…"]` when there are any.
[[nodiscard]] core::json::Object to_json(const TritonEntries& entries);
/// Errors are `corrupt` and say where. Whether the artifacts are there is not looked at.
[[nodiscard]] core::Result<TritonEntries> triton_entries_from_json(const core::json::Node& node);

}  // namespace cubinary::store
