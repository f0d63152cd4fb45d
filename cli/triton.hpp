// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "builder/triton/ingest.hpp"
#include "cli/command.hpp"

namespace cubinary::cli {

// The subcommands of `cubinary triton`, each described on it.
void add_triton_capture(Cli& cli, CLI::App& triton);
void add_triton_build(Cli& cli, CLI::App& triton);
void add_triton_list(Cli& cli, CLI::App& triton);
void add_triton_env(Cli& cli, CLI::App& triton);
void add_triton_explain(Cli& cli, CLI::App& triton);

/// What was stored, as a table for people, and what was passed over.
[[nodiscard]] std::string ingest_table(const builder::TritonIngest& ingest);
/// The same as one JSON object.
[[nodiscard]] std::string ingest_json(const builder::TritonIngest& ingest, int status);

}  // namespace cubinary::cli
