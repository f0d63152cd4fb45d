// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cli/command.hpp"

namespace cubinary::cli {

/// Describes `release list`, `show` and `diff`, which only read a store, on `release`.
void add_release_reads(Cli& cli, CLI::App& release);

}  // namespace cubinary::cli
