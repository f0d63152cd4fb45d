// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "core/base/json.hpp"
#include "core/base/result.hpp"
#include "store/audit/audit.hpp"

/// The audit as documents: the command line prints what a server sends (schema/openapi.yaml).
namespace cubinary::store {

/// `{"audit": "winners", "winners": [...]}`.
[[nodiscard]] core::json::Value winners_to_json(const std::vector<Winner>& winners);
/// `{"audit": "compare", "a": "...", "b": "...", "kernels": [...], "jobs": [...]}`.
[[nodiscard]] core::json::Value compare_to_json(const CompareAnswer& answer);
/// `{"audit": "coverage", "kernels": [...], "jobs": [...]}`; `kernels` counts jobs a kernel, target
/// and device class.
[[nodiscard]] core::json::Value coverage_to_json(const std::vector<CoverageJob>& jobs);
/// `{"audit": "stale", "stale": [...]}`.
[[nodiscard]] core::json::Value stale_to_json(const std::vector<StaleWinner>& stale);

/// The parameters `kernel`, `target` and `device_class` as a filter. Errors: `usage` for another
/// name, `target`, and those of find_device_class.
[[nodiscard]] core::Result<AuditFilter> audit_filter(
    const Reader& reader, const std::map<std::string, std::string>& parameters);

/// Answers `winners`, `compare`, `coverage` or `stale`. Parameters are `kernel` (a glob), `target`
/// and `device_class` (as find_device_class takes it) for all, `a` and `b` for compare, `driver`
/// for stale. Errors: `usage` for an unknown query, an unknown or missing parameter; those of the
/// queries.
[[nodiscard]] core::Result<core::json::Value> audit(
    const Reader& reader, std::string_view query,
    const std::map<std::string, std::string>& parameters);

/// An answer of `audit` as CSV (RFC 4180, lines end with a newline): a header, then a row a winner,
/// job, stale winner or launch. Values read `VEC=4 WARPS=8`; what is not known is empty. Empty for
/// a document that is no answer.
[[nodiscard]] std::string audit_csv(const core::json::Value& answer);

}  // namespace cubinary::store
