// SPDX-License-Identifier: Apache-2.0
#include "core/base/file.hpp"

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <system_error>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace cubinary::core {
namespace {

Result<void> write_all(int fd, ByteView bytes, const std::filesystem::path& path) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0) {
      if (errno == EINTR) {
        continue;
      }
      return fail(errno_error("cannot write " + path.string(), errno));
    }
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return {};
}

Result<void> sync_folder(const std::filesystem::path& folder) {
  const UniqueFd fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd) {
    return fail(errno_error("cannot open the folder " + folder.string(), errno));
  }
  // Some file systems cannot sync a folder; the rename itself stands.
  if (::fsync(fd.get()) != 0 && errno != EINVAL && errno != ENOTSUP) {
    return fail(errno_error("cannot sync the folder " + folder.string(), errno));
  }
  return {};
}

// Unlinks the temporary unless it became the file.
struct TemporaryFile {
  std::filesystem::path path;
  ~TemporaryFile() {
    if (!path.empty()) {
      ::unlink(path.c_str());
    }
  }
};

std::filesystem::path temporary_name(const std::filesystem::path& path) {
  static std::atomic<unsigned> s_counter{0};
  return path.string() + ".tmp-" + std::to_string(::getpid()) + "-" +
         std::to_string(s_counter.fetch_add(1));
}

Result<void> require_regular(int fd, const std::filesystem::path& path, std::uint64_t max_bytes,
                             std::uint64_t& size) {
  struct stat info{};
  if (::fstat(fd, &info) != 0) {
    return fail(errno_error("cannot read " + path.string(), errno));
  }
  if (!S_ISREG(info.st_mode)) {
    return fail(ErrorCode::io, "cannot read " + path.string() + ": it is no regular file");
  }
  size = static_cast<std::uint64_t>(info.st_size);
  if (size > max_bytes) {
    return fail(ErrorCode::too_large, path.string() + " has " + std::to_string(size) +
                                          " bytes; at most " + std::to_string(max_bytes) +
                                          " are read");
  }
  return {};
}

template <typename Buffer>
Result<Buffer> read_whole(const std::filesystem::path& path, std::uint64_t max_bytes) {
  // O_NONBLOCK: a FIFO must be refused, not waited for.
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) {
    return fail(errno_error("cannot read " + path.string(), errno));
  }
  std::uint64_t size = 0;
  TRY(require_regular(fd.get(), path, max_bytes, size));
  // One byte more than expected, so that a file that grew meanwhile is noticed at once.
  Buffer buffer;
  buffer.resize(static_cast<std::size_t>(size) + 1);
  std::size_t filled = 0;
  while (true) {
    const ssize_t count = ::read(fd.get(), buffer.data() + filled, buffer.size() - filled);
    if (count < 0) {
      if (errno == EINTR) {
        continue;
      }
      return fail(errno_error("cannot read " + path.string(), errno));
    }
    if (count == 0) {
      break;
    }
    filled += static_cast<std::size_t>(count);
    if (filled > max_bytes) {
      return fail(ErrorCode::too_large, path.string() + " grew beyond " +
                                            std::to_string(max_bytes) + " bytes while it was read");
    }
    if (filled == buffer.size()) {
      buffer.resize(2 * buffer.size());
    }
  }
  buffer.resize(filled);
  return buffer;
}

}  // namespace

void UniqueFd::reset() {
  if (m_fd >= 0) {
    ::close(std::exchange(m_fd, -1));
  }
}

Error errno_error(std::string_view what, int number) {
  ErrorCode code = ErrorCode::io;
  switch (number) {
    case ENOSPC:
    case EDQUOT:
      code = ErrorCode::disk_full;
      break;
    case EACCES:
    case EPERM:
    case EROFS:
      code = ErrorCode::permission;
      break;
    case ENOENT:
      code = ErrorCode::not_found;
      break;
    default:
      break;
  }
  return Error{code, std::string(what) + ": " + std::generic_category().message(number)};
}

Result<Bytes> read_file(const std::filesystem::path& path, std::uint64_t max_bytes) {
  return read_whole<Bytes>(path, max_bytes);
}

Result<std::string> read_text_file(const std::filesystem::path& path, std::uint64_t max_bytes) {
  return read_whole<std::string>(path, max_bytes);
}

Result<void> write_file_atomic(const std::filesystem::path& path, ByteView bytes, unsigned mode) {
  const std::filesystem::path folder =
      path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
  std::error_code failure;
  std::filesystem::create_directories(folder, failure);
  if (failure) {
    return fail(errno_error("cannot make the folder " + folder.string(), failure.value()));
  }

  // Declared before the fd: closed first, then unlinked.
  TemporaryFile temporary{temporary_name(path)};
  const UniqueFd fd(
      ::open(temporary.path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode & 07777U));
  if (!fd) {
    const int number = errno;
    temporary.path.clear();
    return fail(errno_error("cannot write " + path.string(), number));
  }
  TRY(write_all(fd.get(), bytes, path));
  if (::fsync(fd.get()) != 0) {
    return fail(errno_error("cannot write " + path.string(), errno));
  }
  if (::rename(temporary.path.c_str(), path.c_str()) != 0) {
    return fail(errno_error("cannot write " + path.string(), errno));
  }
  temporary.path.clear();
  return sync_folder(folder);
}

}  // namespace cubinary::core
