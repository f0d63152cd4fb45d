// SPDX-License-Identifier: Apache-2.0
#include "cli/python_folder.hpp"

#include <cstdlib>
#include <system_error>
#include <vector>

namespace cubinary::cli {

namespace fs = std::filesystem;
using core::ErrorCode;
using core::fail;
using core::Result;

Result<fs::path> python_folder() {
  std::error_code error;
  std::vector<fs::path> candidates;
  if (const char* named = std::getenv("CUBINARY_PYTHON"); named != nullptr && *named != '\0') {
    candidates.push_back(fs::absolute(named, error));
  } else {
    const fs::path prefix = fs::read_symlink("/proc/self/exe", error).parent_path().parent_path();
    candidates = {prefix / "share" / "cubinary" / "python", prefix / "python"};
  }
  std::string looked_at;
  for (const fs::path& candidate : candidates) {
    if (fs::exists(candidate / "cubinary" / "triton" / "__init__.py", error)) {
      return fs::canonical(candidate, error);
    }
    looked_at += (looked_at.empty() ? "" : ", ") + candidate.string();
  }
  return fail(ErrorCode::environment, "the cubinary package of Python is not in " + looked_at +
                                          ": set CUBINARY_PYTHON to the folder that holds it");
}

std::string python_path(const fs::path& folder) {
  std::string path = (folder / "cubinary" / "triton" / "site").string() + ":" + folder.string();
  if (const char* before = std::getenv("PYTHONPATH"); before != nullptr && *before != '\0') {
    path += ":" + std::string(before);
  }
  return path;
}

std::string python_program(const std::string& named) {
  if (!named.empty()) {
    return named;
  }
  const char* program = std::getenv("CUBINARY_PYTHON_PROGRAM");
  return program != nullptr && *program != '\0' ? program : "python3";
}

}  // namespace cubinary::cli
