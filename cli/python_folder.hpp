// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "core/base/result.hpp"

namespace cubinary::cli {

/// The folder that holds the `cubinary` package of Python: $CUBINARY_PYTHON, else beside this
/// program as it is installed (`../share/cubinary/python`) or built (`../python`). `environment`
/// names what was looked at.
[[nodiscard]] core::Result<std::filesystem::path> python_folder();

/// PYTHONPATH with the package, and with what loads the plug-in at start-up, before what it holds
/// now.
[[nodiscard]] std::string python_path(const std::filesystem::path& folder);

/// The interpreter to run: `named`, else $CUBINARY_PYTHON_PROGRAM, else `python3`.
[[nodiscard]] std::string python_program(const std::string& named);

}  // namespace cubinary::cli
