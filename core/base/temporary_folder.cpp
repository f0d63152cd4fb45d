// SPDX-License-Identifier: Apache-2.0
#include "core/base/temporary_folder.hpp"

#include <cerrno>
#include <system_error>
#include <utility>

#include <stdlib.h>  // mkdtemp

#include "core/base/file.hpp"

namespace cubinary::core {

namespace fs = std::filesystem;

TemporaryFolder::TemporaryFolder(fs::path path, bool remove)
    : m_path(std::move(path)), m_remove(remove) {
}

TemporaryFolder::TemporaryFolder(TemporaryFolder&& other) noexcept
    : m_path(std::move(other.m_path)), m_remove(std::exchange(other.m_remove, false)) {
}

TemporaryFolder::~TemporaryFolder() {
  if (m_remove) {
    std::error_code error;
    fs::remove_all(m_path, error);
  }
}

Result<TemporaryFolder> TemporaryFolder::make(const fs::path& named, const std::string& prefix) {
  std::error_code error;
  if (!named.empty()) {
    const fs::path path = fs::absolute(named, error);
    fs::create_directories(path, error);
    if (error) {
      return fail(errno_error("cannot make folder " + path.string(), error.value()));
    }
    return TemporaryFolder(path, false);
  }
  const fs::path parent = fs::temp_directory_path(error);
  if (error) {
    return fail(errno_error("cannot use the folder for temporary files (TMPDIR)", error.value()));
  }
  std::string path = (parent / (prefix + "XXXXXX")).string();
  if (::mkdtemp(path.data()) == nullptr) {
    return fail(errno_error("cannot make a folder in " + parent.string(), errno));
  }
  return TemporaryFolder(std::move(path), true);
}

}  // namespace cubinary::core
