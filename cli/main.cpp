// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <exception>

#include "cli/command.hpp"
#include "cli/usage.hpp"

int main(int argc, char** argv) {
  CLI::App app{"Compiles, stores, releases and serves GPU kernels ahead of time.", "cubinary"};
  app.set_version_flag("--version", CUBINARY_VERSION);
  app.require_subcommand(1);
  app.failure_message(cubinary::cli::usage_message);

  using namespace cubinary;
  cli::Cli command{app, {}};
  for (const auto add : {
           // one line a subcommand, in the order of the help text
           cli::add_build,
           cli::add_expand,
           cli::add_tune,
           cli::add_release,
           cli::add_keygen,
           cli::add_export,
           cli::add_verify,
           cli::add_serve,
           cli::add_fetch,
           cli::add_audit,
           cli::add_explain,
           cli::add_doctor,
           cli::add_store,
           cli::add_token,
           cli::add_triton,
           cli::add_worker,
       }) {
    add(command);
  }

  try {
    app.parse(argc, argv);
    auto status = command.run ? command.run() : core::Result<int>(0);
    if (!status) {
      std::fprintf(stderr, "cubinary: %s\n", status.error().message.c_str());
      return core::error_info(status.error().code).exit_status;
    }
    return *status;
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "cubinary: internal error: %s (please report it)\n", error.what());
    return 1;
  }
}
