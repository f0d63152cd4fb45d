// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>

#include "cli/remote.hpp"

namespace cubinary::cli {

/// Describes `--store FILE | --server URL [--token-file F]` on a command: exactly one of the two
/// stores, and a token only for a server. `choice` must outlive the parsing.
void add_store_options(CLI::App& app, StoreChoice& choice, const char* store_help);

}  // namespace cubinary::cli
