// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

#include "core/base/result.hpp"

namespace cubinary::core {

/// A folder for one run: removed with all in it at the end, unless it was named or is kept.
class TemporaryFolder {
 public:
  /// `named`, made when it is missing; empty: a new one in TMPDIR whose name begins with `prefix`.
  [[nodiscard]] static Result<TemporaryFolder> make(const std::filesystem::path& named,
                                                    const std::string& prefix);
  TemporaryFolder(TemporaryFolder&& other) noexcept;
  TemporaryFolder& operator=(TemporaryFolder&&) = delete;
  ~TemporaryFolder();

  /// Absolute.
  [[nodiscard]] const std::filesystem::path& path() const { return m_path; }
  void keep() { m_remove = false; }

 private:
  TemporaryFolder(std::filesystem::path path, bool remove);
  std::filesystem::path m_path;
  bool m_remove;
};

}  // namespace cubinary::core
