// SPDX-License-Identifier: Apache-2.0
// cubinary-fetch: `cubinary fetch` alone, for machines that need nothing else of it.
#include <cstdio>
#include <exception>

#include "cli/fetch.hpp"

int main(int argc, char** argv) {
  using namespace cubinary;
  CLI::App app{"Fetches a release into a cache folder and verifies every byte of it.",
               "cubinary-fetch"};
  app.set_version_flag("--version", CUBINARY_VERSION);
  app.failure_message(CLI::FailureMessage::help);
  try {
    const auto run = cli::describe_fetch(app);
    app.parse(argc, argv);
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
