// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "core/manifest/manifest.hpp"

namespace cubinary::builder {

/// The first error of a compiler's log as one line, followed by the way out where the error is one
/// of those everybody meets; empty when the log names none.
[[nodiscard]] std::string first_error(std::string_view log, core::Backend backend);

/// The log without the assembler's resource lines, names of temporary files and warnings that
/// another instantiation brought before: what is worth keeping of a compilation. At most 64 KiB;
/// the middle of a longer one is cut out, and it says so.
[[nodiscard]] std::string log_to_keep(std::string_view log);

}  // namespace cubinary::builder
