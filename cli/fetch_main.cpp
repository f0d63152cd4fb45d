// SPDX-License-Identifier: Apache-2.0
// cubinary-fetch: `cubinary fetch` and `cubinary triton hydrate` alone, for machines that need
// nothing else of it.
#include <cstdio>
#include <exception>
#include <string_view>

#include "cli/fetch.hpp"
#include "cli/hydrate.hpp"
#include "cli/usage.hpp"

int main(int argc, char** argv) {
  using namespace cubinary;
  // SOURCE comes first, so that a subcommand of the parser's would be taken for one.
  const bool hydrate = argc > 1 && std::string_view(argv[1]) == "hydrate";
  CLI::App app{hydrate ? "Lays a release's Triton entries down as a cache for Triton."
                       : "Fetches a release into a cache folder and verifies every byte of it.\n"
                         "`cubinary-fetch hydrate SOURCE` lays a cache for Triton down.",
               hydrate ? "cubinary-fetch hydrate" : "cubinary-fetch"};
  app.set_version_flag("--version", CUBINARY_VERSION);
  app.failure_message(cli::usage_message);
  try {
    const auto run = hydrate ? cli::describe_hydrate(app) : cli::describe_fetch(app);
    app.parse(argc - (hydrate ? 1 : 0), argv + (hydrate ? 1 : 0));
    const auto status = run();
    if (!status) {
      std::fprintf(stderr, "cubinary-fetch: %s\n", status.error().message.c_str());
      return core::error_info(status.error().code).exit_status;
    }
    return *status;
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "cubinary-fetch: internal error: %s (please report it)\n", error.what());
    return 1;
  }
}
