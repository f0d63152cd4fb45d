// SPDX-License-Identifier: Apache-2.0
#include "cli/command.hpp"
#include "cli/fetch.hpp"

namespace cubinary::cli {

void add_fetch(Cli& cli) {
  CLI::App* app = cli.app.add_subcommand(
      "fetch", "Fetch a release into a cache folder and verify every byte of it");
  app->callback([&cli, run = describe_fetch(*app)] { cli.run = run; });
}

}  // namespace cubinary::cli
