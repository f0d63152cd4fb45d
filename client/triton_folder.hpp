// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "client/source.hpp"
#include "client/triton_plan.hpp"
#include "core/base/file.hpp"
#include "core/base/result.hpp"

namespace cubinary::client {

/// The path as programs will see it: absolute, without `.`, `..` and a slash at its end.
[[nodiscard]] std::filesystem::path cache_path(const std::filesystem::path& path);

/// A Triton cache on disk while it is being laid down.
///
/// Files are staged in a hidden folder inside the cache, so that renaming them never leaves the
/// file system, and become visible a whole folder at a time once `publish` is called: an
/// interrupted run leaves nothing but the hidden folder, which the next one removes. Where a folder
/// exists and is not empty, its files are replaced one by one, what makes them visible to Triton
/// last.
///
/// Nothing is forced to the disk: whoever reads a file from here holds it against its digest, so
/// that what a loss of power tore is refused, and laying the same release down again mends it.
/// Forcing would wait for everything else that the machine has to write as well.
class TritonFolder {
 public:
  /// Makes the folder when it is missing and locks it, waiting for another's work until the
  /// deadline. A folder that cannot be written is opened all the same, for looking only.
  /// Errors: `permission` and others of making the folder, `timeout`.
  [[nodiscard]] static core::Result<TritonFolder> open(const std::filesystem::path& path,
                                                       Deadline deadline);
  TritonFolder(TritonFolder&& other) noexcept;
  TritonFolder& operator=(TritonFolder&&) = delete;
  ~TritonFolder();

  /// Absolute.
  [[nodiscard]] const std::filesystem::path& path() const { return m_path; }
  [[nodiscard]] bool writable() const { return m_why_not == 0; }
  /// Whether shared objects in it can be loaded.
  [[nodiscard]] bool executable() const;

  /// Whether the folder `name` holds all of `planned`, every byte of it.
  [[nodiscard]] bool holds(const std::string& name, const PlannedFolder& planned) const;
  [[nodiscard]] bool holds_index(std::string_view text) const;

  /// Begins staging. `permission` says why nothing can be written here and what helps.
  [[nodiscard]] core::Result<void> begin();
  /// Stages one file of the folder `name`. Thread-safe for different files.
  [[nodiscard]] core::Result<void> stage(const std::string& name, const std::string& file,
                                         core::ByteView bytes);
  /// Makes a staged folder visible. Thread-safe for different folders.
  [[nodiscard]] core::Result<void> publish(const std::string& name, const PlannedFolder& planned);
  [[nodiscard]] core::Result<void> publish_index(std::string_view text);

 private:
  TritonFolder() = default;
  [[nodiscard]] core::Result<void> publish_files(const std::filesystem::path& staged,
                                                 const std::filesystem::path& place,
                                                 const PlannedFolder& planned);
  void remove_stale() const;

  std::filesystem::path m_path;
  std::filesystem::path m_stage;  ///< empty: not begun
  core::UniqueFd m_folder;        ///< holds the lock
  bool m_locked = false;
  int m_why_not = 0;  ///< errno of why the folder cannot be written
};

}  // namespace cubinary::client
