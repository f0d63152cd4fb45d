// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "cli/command.hpp"
#include "cli/store_choice.hpp"

namespace cubinary::cli {

/// What every verb on a store takes: where it is, and whether to print JSON. The options of a
/// command's verbs are this and more.
struct VerbOptions {
  StoreChoice choice;
  bool json = false;
};

/// Adds a verb to a command (`stats` to `cubinary store`) that takes --store, --server and --json
/// besides what the caller adds. `options` lives as long as the command line.
template <typename Options>
CLI::App* add_verb(Cli& cli, CLI::App& parent, const std::shared_ptr<Options>& options,
                   const char* name, const char* help, core::Result<int> (*verb)(const Options&)) {
  CLI::App* app = parent.add_subcommand(name, help);
  add_store_options(*app, options->choice, "the store's file");
  app->add_flag("--json", options->json, "print JSON");
  app->callback([&cli, options, verb] { cli.run = [options, verb] { return verb(*options); }; });
  return app;
}

}  // namespace cubinary::cli
