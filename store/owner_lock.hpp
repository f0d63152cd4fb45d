// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string_view>

#include "core/base/file.hpp"
#include "core/base/result.hpp"

namespace cubinary::store {

/// The right to write a store, held by one process at a time: an flock on `<store>.lock`, whose
/// text (pid, newline, purpose) says who has it. The kernel drops the lock with the process, so
/// what a dead one left behind is never in the way. The file stays when the lock is given back:
/// removing it would let two processes lock two files of one name.
class OwnerLock {
 public:
  /// `busy` names the owner's pid and purpose; it never waits.
  [[nodiscard]] static core::Result<OwnerLock> take(const std::filesystem::path& store,
                                                    std::string_view purpose);
  OwnerLock(OwnerLock&&) noexcept = default;
  OwnerLock& operator=(OwnerLock&&) = delete;
  ~OwnerLock();

 private:
  explicit OwnerLock(core::UniqueFd fd) : m_fd(std::move(fd)) {}
  core::UniqueFd m_fd;
};

}  // namespace cubinary::store
