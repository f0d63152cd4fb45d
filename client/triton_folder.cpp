// SPDX-License-Identifier: Apache-2.0
#include "client/triton_folder.hpp"

#include <cerrno>
#include <chrono>
#include <system_error>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

namespace cubinary::client {
namespace {

namespace fs = std::filesystem;
using core::ErrorCode;
using core::fail;
using core::Result;

constexpr std::string_view k_stage_prefix = ".cubinary-";
constexpr std::uint64_t k_max_index_bytes = 512U << 20U;

tl::unexpected<core::Error> fail_errno(const std::string& what, int number = errno) {
  return fail(core::errno_error(what, number));
}

Result<void> make_folders(const fs::path& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) {
    return fail_errno("cannot make folder " + path.string(), error.value());
  }
  return {};
}

Result<void> write_new_file(const fs::path& path, core::ByteView bytes) {
  core::UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  if (!fd) {
    return fail_errno("cannot write " + path.string());
  }
  while (!bytes.empty()) {
    const ssize_t count = ::write(fd.get(), bytes.data(), bytes.size());
    if (count < 0 && errno != EINTR) {
      return fail_errno("cannot write " + path.string());
    }
    bytes = bytes.subspan(count < 0 ? 0 : static_cast<std::size_t>(count));
  }
  // Some file systems tell only now that the disk is full.
  if (::close(fd.release()) != 0) {
    return fail_errno("cannot write " + path.string());
  }
  return {};
}

Result<void> rename_file(const fs::path& from, const fs::path& to) {
  if (::rename(from.c_str(), to.c_str()) == 0) {
    return {};
  }
  if (errno == EXDEV) {
    return fail(ErrorCode::unsupported,
                "cannot put " + to.string() +
                    " in place: it lies on another file system than the cache folder itself; "
                    "mount one volume over the whole folder");
  }
  return fail_errno("cannot put " + to.string() + " in place");
}

bool holds_bytes(const fs::path& path, const core::Digest& digest) {
  const auto bytes = core::read_file(path, core::k_max_triton_pack_bytes);
  return bytes && core::sha256(*bytes) == digest;
}

bool holds_text(const fs::path& path, std::string_view text) {
  const auto found = core::read_text_file(path, text.size());
  return found && *found == text;
}

/// Why nothing can be made in the folder, as an errno; 0 when it can.
int why_not_writable(const fs::path& path) {
  return ::access(path.c_str(), W_OK | X_OK) == 0 ? 0 : errno;
}

}  // namespace

fs::path cache_path(const fs::path& path) {
  std::error_code error;
  const fs::path normal = fs::absolute(path, error).lexically_normal();
  return normal.has_filename() ? normal : normal.parent_path();
}

Result<TritonFolder> TritonFolder::open(const fs::path& path, Deadline deadline) {
  constexpr auto k_pause = std::chrono::milliseconds(20);
  TritonFolder folder;
  folder.m_path = cache_path(path);
  if (auto made = make_folders(folder.m_path); !made) {
    return fail(made.error().with_context("the Triton cache folder"));
  }
  folder.m_folder =
      core::UniqueFd(::open(folder.m_path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder.m_folder) {
    return fail_errno("cannot open the Triton cache folder " + folder.m_path.string());
  }
  folder.m_why_not = why_not_writable(folder.m_path);
  // Where locks are not possible, each rename still leaves a good entry.
  while (folder.writable() && ::flock(folder.m_folder.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) {
      return folder;
    }
    if (std::chrono::steady_clock::now() >= deadline) {
      return fail(ErrorCode::timeout, "another process is laying down " + folder.m_path.string() +
                                          " and did not finish in time");
    }
    std::this_thread::sleep_for(k_pause);
  }
  folder.m_locked = folder.writable();
  folder.remove_stale();
  return folder;
}

TritonFolder::TritonFolder(TritonFolder&& other) noexcept
    : m_path(std::move(other.m_path)),
      m_stage(std::exchange(other.m_stage, {})),
      m_folder(std::move(other.m_folder)),
      m_locked(other.m_locked),
      m_why_not(other.m_why_not) {
}

TritonFolder::~TritonFolder() {
  if (!m_stage.empty()) {
    std::error_code error;
    fs::remove_all(m_stage, error);
  }
}

bool TritonFolder::executable() const {
  struct statvfs info{};
  return ::fstatvfs(m_folder.get(), &info) != 0 || (info.f_flag & ST_NOEXEC) == 0;
}

bool TritonFolder::holds(const std::string& name, const PlannedFolder& planned) const {
  const fs::path place = m_path / name;
  // The common case of a new cache, answered by one look.
  if (::access(place.c_str(), F_OK) != 0) {
    return false;
  }
  for (const auto& [file, text] : planned.made) {
    if (!holds_text(place / file, text)) {
      return false;
    }
  }
  for (const auto& [file, digest] : planned.files) {
    if (!holds_bytes(place / file, digest)) {
      return false;
    }
  }
  return true;
}

bool TritonFolder::holds_index(std::string_view text) const {
  return text.size() <= k_max_index_bytes && holds_text(m_path / k_triton_index_file, text);
}

Result<void> TritonFolder::begin() {
  if (!writable()) {
    return fail(core::errno_error(
        "the Triton cache " + m_path.string() +
            " is not complete and cannot be written: hydrate it while the image is built, or "
            "mount a writable volume there",
        m_why_not));
  }
  std::string stage = (m_path / (std::string(k_stage_prefix) + "XXXXXX")).string();
  if (::mkdtemp(stage.data()) == nullptr) {
    return fail_errno("cannot write the Triton cache " + m_path.string());
  }
  m_stage = std::move(stage);
  return {};
}

void TritonFolder::remove_stale() const {
  if (!m_locked) {
    return;  // it could be another's
  }
  std::error_code error;
  std::vector<fs::path> stale;
  for (fs::directory_iterator at(m_path, error); !error && at != fs::directory_iterator();
       at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (name.starts_with(k_stage_prefix) && name.size() == k_stage_prefix.size() + 6) {
      stale.push_back(at->path());
    }
  }
  for (const fs::path& path : stale) {
    fs::remove_all(path, error);
  }
}

Result<void> TritonFolder::stage(const std::string& name, const std::string& file,
                                 core::ByteView bytes) {
  const fs::path folder = m_stage / name;
  auto written = write_new_file(folder / file, bytes);
  if (!written && written.error().code == ErrorCode::not_found) {
    TRY(make_folders(folder));
    written = write_new_file(folder / file, bytes);
  }
  return written;
}

Result<void> TritonFolder::publish(const std::string& name, const PlannedFolder& planned) {
  const fs::path staged = m_stage / name;
  const fs::path place = m_path / name;
  if (place.parent_path() != m_path) {
    TRY(make_folders(place.parent_path()));
  }
  if (::rename(staged.c_str(), place.c_str()) == 0) {
    return {};
  }
  if (errno == ENOTEMPTY || errno == EEXIST || errno == EXDEV || errno == EBUSY) {
    return publish_files(staged, place, planned);
  }
  return fail_errno("cannot put " + place.string() + " in place");
}

Result<void> TritonFolder::publish_files(const fs::path& staged, const fs::path& place,
                                         const PlannedFolder& planned) {
  TRY(make_folders(place));
  for (const auto& [file, digest] : planned.files) {
    TRY(rename_file(staged / file, place / file));
  }
  for (const auto& [file, text] : planned.made) {
    TRY(rename_file(staged / file, place / file));
  }
  return {};
}

Result<void> TritonFolder::publish_index(std::string_view text) {
  const fs::path staged = m_stage / k_triton_index_file;
  TRY(write_new_file(staged, core::as_bytes(text)));
  return rename_file(staged, m_path / k_triton_index_file);
}

}  // namespace cubinary::client
