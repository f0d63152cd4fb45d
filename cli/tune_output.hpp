// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "builder/tune/tune.hpp"

namespace cubinary::cli {

/// How a tune speaks: a line that moves on a terminal, plain lines in a pipe, or JSON lines.
enum class TuneStyle : std::uint8_t { terminal, plain, json };

[[nodiscard]] std::unique_ptr<builder::TuneObserver> make_tune_observer(TuneStyle style);

/// The last line of a tune: for people, or the JSON object that ends JSON lines.
[[nodiscard]] std::string tune_summary_line(const builder::TuneSummary& summary, TuneStyle style);

}  // namespace cubinary::cli
