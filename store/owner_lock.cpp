// SPDX-License-Identifier: Apache-2.0
#include "store/owner_lock.hpp"

#include <array>
#include <cerrno>
#include <string>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

namespace cubinary::store {

using core::ErrorCode;
using core::fail;
using core::Result;

namespace {

/// "process 123 (cubinary serve)", or what can be said when the file says nothing.
std::string owner_text(int fd) {
  std::array<char, 256> buffer{};
  const ssize_t length = pread(fd, buffer.data(), buffer.size(), 0);
  const std::string text(buffer.data(), length > 0 ? static_cast<std::size_t>(length) : 0);
  const std::size_t line = text.find('\n');
  if (line == std::string::npos || line == 0) {
    return "another process";
  }
  std::string purpose = text.substr(line + 1);
  while (!purpose.empty() && purpose.back() == '\n') {
    purpose.pop_back();
  }
  return "process " + text.substr(0, line) + (purpose.empty() ? "" : " (" + purpose + ")");
}

}  // namespace

Result<OwnerLock> OwnerLock::take(const std::filesystem::path& store, std::string_view purpose) {
  const std::string path = store.string() + ".lock";
  core::UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644));
  if (!fd) {
    return fail(core::errno_error("cannot open the store's lock file " + path, errno));
  }
  while (flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EINTR) {
      continue;
    }
    if (errno != EWOULDBLOCK) {
      return fail(core::errno_error("cannot lock " + path, errno));
    }
    return fail(ErrorCode::busy, store.string() + " is in use by " + owner_text(fd.get()) +
                                     "; wait for it to finish, or reach it with --server URL if "
                                     "it is a server");
  }
  // Who we are is a courtesy to others: a full disk must not keep a store from being opened.
  const std::string text = std::to_string(getpid()) + "\n" + std::string(purpose) + "\n";
  if (ftruncate(fd.get(), 0) == 0) {
    [[maybe_unused]] const ssize_t written = pwrite(fd.get(), text.data(), text.size(), 0);
  }
  return OwnerLock(std::move(fd));
}

OwnerLock::~OwnerLock() {
  if (m_fd) {
    [[maybe_unused]] const int ignored = ftruncate(m_fd.get(), 0);
  }
}

}  // namespace cubinary::store
