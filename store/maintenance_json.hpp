// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "core/base/json.hpp"
#include "store/maintenance.hpp"

/// What `cubinary store … --json` prints and a server answers.
namespace cubinary::store {

[[nodiscard]] inline core::json::Object to_json(const Stats& stats) {
  return {{"file_bytes", stats.file_bytes},
          {"kernels", stats.kernels},
          {"candidates_ok", stats.candidates_ok},
          {"candidates_failed", stats.candidates_failed},
          {"artifacts", stats.artifacts},
          {"artifact_raw_bytes", stats.artifact_raw_bytes},
          {"artifact_stored_bytes", stats.artifact_stored_bytes},
          {"dictionary_bytes", stats.dictionary_bytes},
          {"measurements", stats.measurements},
          {"releases", stats.releases},
          {"blob_bytes", stats.blob_bytes}};
}

[[nodiscard]] inline core::json::Object to_json(const GcResult& result, bool dry_run) {
  return {{"dry_run", dry_run},
          {"candidates", result.candidates},
          {"measurements", result.measurements},
          {"artifacts", result.artifacts},
          {"blobs", result.blobs},
          {"bytes", result.bytes}};
}

/// The findings of fsck.
[[nodiscard]] inline core::json::Object to_json(const std::vector<std::string>& findings) {
  return {{"sound", findings.empty()},
          {"findings", core::json::Array(findings.begin(), findings.end())}};
}

}  // namespace cubinary::store
