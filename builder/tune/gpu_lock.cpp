// SPDX-License-Identifier: Apache-2.0
#include "builder/tune/gpu_lock.hpp"

#include <array>
#include <cerrno>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace cubinary::builder {

using core::fail;
using core::Result;

Result<std::optional<GpuLock>> GpuLock::try_take(const std::string& uuid, std::string_view purpose,
                                                 std::string& holder) {
  const std::string path = "/tmp/cubinary-" + uuid + ".lock";
  // Another user's file in a sticky folder may only be opened without O_CREAT.
  core::UniqueFd fd(open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
  if (!fd && errno == ENOENT) {
    fd = core::UniqueFd(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666));
    if (fd) {
      (void)fchmod(fd.get(), 0666);  // whatever the umask: every user's tuner must see it
    }
  }
  if (!fd) {
    return fail(
        core::errno_error("cannot open " + path + ", which keeps two tuners off one GPU", errno));
  }
  if (flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) {
      return fail(core::errno_error("cannot lock " + path, errno));
    }
    std::array<char, 256> text{};
    const ssize_t got = pread(fd.get(), text.data(), text.size(), 0);
    holder.assign(text.data(), got > 0 ? static_cast<std::size_t>(got) : 0);
    while (!holder.empty() && holder.back() == '\n') {
      holder.pop_back();
    }
    return std::nullopt;
  }
  const std::string text =
      "process " + std::to_string(getpid()) + " (" + std::string(purpose) + ")\n";
  (void)!ftruncate(fd.get(), 0);
  (void)!pwrite(fd.get(), text.data(), text.size(), 0);
  return GpuLock(std::move(fd));
}

}  // namespace cubinary::builder
