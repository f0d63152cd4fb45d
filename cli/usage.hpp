// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <CLI/CLI.hpp>

namespace cubinary::cli {

/// What is printed of a wrong command line: what is wrong, and where the help is.
inline std::string usage_message(const CLI::App* app, const CLI::Error& error) {
  return app->get_name() + ": " + error.what() + "\nTry the same with --help.\n";
}

}  // namespace cubinary::cli
