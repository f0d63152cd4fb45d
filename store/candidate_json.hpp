// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/json.hpp"
#include "core/base/result.hpp"
#include "store/candidates.hpp"

/// Candidates and kernels as they travel between a builder, a tuner and a server
/// (schema/openapi.yaml: Candidate, Kernel).
namespace cubinary::store {

/// Digests are written `sha256:HEX`; the id is the one in the store it was read from, if any.
[[nodiscard]] core::json::Object to_json(const Candidate& candidate);
/// Reads one back, strictly: known roles and statuses, a target of the table, an artifact exactly
/// when the status is ok. Errors are `corrupt` with the place.
[[nodiscard]] core::Result<Candidate> candidate_from_json(const core::json::Node& node);

[[nodiscard]] core::json::Object to_json(const Kernel& kernel);
/// The manifest's digest is computed here; the interface must be given.
[[nodiscard]] core::Result<Kernel> kernel_from_json(const core::json::Node& node);

}  // namespace cubinary::store
