// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>

#include "core/base/bytes.hpp"
#include "core/base/result.hpp"

namespace cubinary::core {

/// An owned file descriptor.
class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : m_fd(fd) {}
  ~UniqueFd() { reset(); }
  UniqueFd(UniqueFd&& other) noexcept : m_fd(std::exchange(other.m_fd, -1)) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    if (this != &other) {
      reset();
      m_fd = std::exchange(other.m_fd, -1);
    }
    return *this;
  }

  [[nodiscard]] int get() const { return m_fd; }
  [[nodiscard]] int release() { return std::exchange(m_fd, -1); }
  explicit operator bool() const { return m_fd >= 0; }
  void reset();

 private:
  int m_fd = -1;
};

/// The Error of the current or a given errno: ENOSPC/EDQUOT → disk_full, EACCES/EPERM/EROFS →
/// permission, ENOENT → not_found, else io; the message names `what` ("cannot read /x/y").
[[nodiscard]] Error errno_error(std::string_view what, int number);

/// Reads a whole regular file; more than `max_bytes` is `too_large`, never a partial read.
[[nodiscard]] Result<Bytes> read_file(const std::filesystem::path& path, std::uint64_t max_bytes);
[[nodiscard]] Result<std::string> read_text_file(const std::filesystem::path& path,
                                                 std::uint64_t max_bytes);

/// Replaces `path` by `bytes` or leaves it as it was: a temporary beside it, fsync, rename, fsync
/// of the folder. Missing parent folders are made. On failure nothing is left behind.
[[nodiscard]] Result<void> write_file_atomic(const std::filesystem::path& path, ByteView bytes,
                                             unsigned mode = 0644);

}  // namespace cubinary::core
