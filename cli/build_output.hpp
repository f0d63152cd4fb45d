// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "builder/build.hpp"
#include "core/base/result.hpp"
#include "store/store.hpp"

namespace cubinary::cli {

/// How a build speaks: a progress bar on a terminal, plain lines in a pipe, or JSON lines.
enum class BuildStyle : std::uint8_t { terminal, plain, json };

[[nodiscard]] std::unique_ptr<builder::BuildObserver> make_build_observer(BuildStyle style);

/// The table of what the store now holds for the kernels and targets built: a row for each kernel,
/// types and target.
[[nodiscard]] core::Result<std::string> build_table(const store::Store& store,
                                                    const builder::BuildSummary& summary);

/// The last line of a build: for people, or the JSON object that ends JSON lines.
[[nodiscard]] std::string summary_line(const builder::BuildSummary& summary, BuildStyle style);

}  // namespace cubinary::cli
