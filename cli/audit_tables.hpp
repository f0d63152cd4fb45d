// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "core/base/json.hpp"

/// The audit's answers for people: tables that fit 120 columns unless a config is long (it stands
/// last), then a sentence that sums up. `all_jobs` lists also what is as it should be.
namespace cubinary::cli {

[[nodiscard]] std::string winners_text(const core::json::Value& answer, bool all_jobs);
[[nodiscard]] std::string compare_text(const core::json::Value& answer, bool all_jobs);
[[nodiscard]] std::string coverage_text(const core::json::Value& answer, bool all_jobs);
[[nodiscard]] std::string stale_text(const core::json::Value& answer, bool all_jobs);
[[nodiscard]] std::string resources_text(const core::json::Value& answer, bool all_jobs);

}  // namespace cubinary::cli
