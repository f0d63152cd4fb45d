// SPDX-License-Identifier: Apache-2.0
#include "builder/compile/worker.hpp"

#include "builder/tune/worker/serve.hpp"
#include "cli/command.hpp"

namespace cubinary::cli {

void add_worker(Cli& cli) {
  CLI::App* app = cli.app.add_subcommand("worker", "");
  app->group("");  // hidden: `build` starts it
  app->callback(
      [&cli] { cli.run = []() -> core::Result<int> { return builder::serve_compile_jobs(); }; });
  CLI::App* tune = cli.app.add_subcommand("tune-worker", "");
  tune->group("");  // hidden: `tune` starts it
  tune->callback(
      [&cli] { cli.run = []() -> core::Result<int> { return builder::serve_tune_requests(); }; });
}

}  // namespace cubinary::cli
