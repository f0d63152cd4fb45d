// SPDX-License-Identifier: Apache-2.0
#include "client/cache.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <system_error>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace cubinary::client {
namespace {

namespace fs = std::filesystem;
using core::ErrorCode;

constexpr std::uint64_t k_max_record_bytes = 64U << 10U;
constexpr std::size_t k_max_quarantined = 16;
constexpr time_t k_touch_after_seconds = 86'400;

std::string from_environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

/// Marks an entry as used, at most once a day, so that a read-mostly cache stays quiet.
void touch(const fs::path& path) {
  struct stat info{};
  if (::stat(path.c_str(), &info) == 0 && ::time(nullptr) - info.st_mtime > k_touch_after_seconds) {
    (void)::utimensat(AT_FDCWD, path.c_str(), nullptr, 0);
  }
}

}  // namespace

Cache::Cache(Options options) : m_options(std::move(options)) {
  if (!m_options.log) {
    m_options.log = [](const std::string&) {};
  }
}

fs::path Cache::default_directory() {
  if (auto own = from_environment("CUBINARY_CACHE"); !own.empty()) {
    return own;
  }
  if (const auto shared = from_environment("XDG_CACHE_HOME"); shared.starts_with('/')) {
    return fs::path(shared) / "cubinary";
  }
  if (const auto home = from_environment("HOME"); !home.empty()) {
    return fs::path(home) / ".cache" / "cubinary";
  }
  return {};
}

fs::path Cache::path_of(Kind kind, const core::Digest& digest) const {
  return m_options.directory / "v1" / (kind == Kind::artifact ? "artifacts" : "blobs") / "sha256" /
         digest.hex();
}

std::optional<core::Bytes> Cache::find(Kind kind, const core::Digest& digest,
                                       std::uint64_t max_bytes) {
  {
    const std::lock_guard lock(m_mutex);
    if (const auto found = m_memory.find({kind, digest}); found != m_memory.end()) {
      return found->second.size() <= max_bytes ? std::optional(found->second) : std::nullopt;
    }
  }
  if (m_options.directory.empty()) {
    return std::nullopt;
  }
  const fs::path path = path_of(kind, digest);
  auto bytes = core::read_file(path, max_bytes);
  if (bytes && core::sha256(*bytes) == digest) {
    touch(path);
    return *std::move(bytes);
  }
  if (bytes || bytes.error().code == ErrorCode::too_large) {
    m_options.log("the cache entry " + path.string() +
                  " is damaged: moved away, it is fetched again when needed");
    quarantine(path);
  }
  return std::nullopt;
}

bool Cache::has(Kind kind, const core::Digest& digest) const {
  {
    const std::lock_guard lock(m_mutex);
    if (m_memory.contains({kind, digest})) {
      return true;
    }
  }
  std::error_code ignored;
  return !m_options.directory.empty() && fs::exists(path_of(kind, digest), ignored);
}

void Cache::put(Kind kind, const core::Digest& digest, core::ByteView bytes) {
  if (m_options.directory.empty() || !m_writable) {
    keep_in_memory(kind, digest, bytes);
    return;
  }
  if (const auto written = core::write_file_atomic(path_of(kind, digest), bytes); !written) {
    cannot_write(written.error());
    keep_in_memory(kind, digest, bytes);
    return;
  }
  bool look = false;
  {
    const std::lock_guard lock(m_mutex);
    look = m_until_trim < bytes.size();
    m_until_trim = look ? m_options.limit / 16 : m_until_trim - bytes.size();
  }
  if (look) {
    trim();
  }
}

void Cache::keep_in_memory(Kind kind, const core::Digest& digest, core::ByteView bytes) {
  const std::lock_guard lock(m_mutex);
  if (bytes.size() > m_options.memory_limit) {
    return;
  }
  if (m_memory_bytes + bytes.size() > m_options.memory_limit) {
    m_memory.clear();
    m_memory_bytes = 0;
  }
  const auto [at, fresh] = m_memory.try_emplace({kind, digest}, bytes.begin(), bytes.end());
  if (fresh) {
    m_memory_bytes += at->second.size();
  }
}

void Cache::cannot_write(const core::Error& error) {
  if (m_writable.exchange(false)) {
    m_options.log("the cache folder " + m_options.directory.string() + " cannot be written (" +
                  error.message +
                  "): keeping what is fetched in memory; set CUBINARY_CACHE to a folder of yours");
  }
}

void Cache::quarantine(const fs::path& path) {
  std::error_code ignored;
  const fs::path folder = m_options.directory / "v1" / "quarantine";
  fs::create_directories(folder, ignored);
  std::size_t held = 0;
  for (fs::directory_iterator at(folder, ignored), end; at != end && !ignored;
       at.increment(ignored)) {
    ++held;
  }
  std::error_code error;
  if (held < k_max_quarantined) {
    fs::rename(path, folder / (path.filename().string() + "." + std::to_string(::getpid())), error);
    if (!error) {
      return;
    }
  }
  fs::remove(path, ignored);
}

fs::path Cache::record_path(std::string_view name) const {
  return m_options.directory.empty()
             ? fs::path()
             : m_options.directory / "v1" / "records" / (core::sha256(name).hex() + ".json");
}

std::optional<std::string> Cache::find_record(std::string_view name) {
  {
    const std::lock_guard lock(m_mutex);
    if (const auto found = m_records.find(name); found != m_records.end()) {
      return found->second;
    }
  }
  if (m_options.directory.empty()) {
    return std::nullopt;
  }
  auto text = core::read_text_file(record_path(name), k_max_record_bytes);
  return text ? std::optional(*std::move(text)) : std::nullopt;
}

void Cache::put_record(std::string_view name, std::string_view text) {
  if (!m_options.directory.empty() && m_writable) {
    const auto written = core::write_file_atomic(record_path(name), core::as_bytes(text));
    if (written) {
      return;
    }
    cannot_write(written.error());
  }
  const std::lock_guard lock(m_mutex);
  m_records.insert_or_assign(std::string(name), std::string(text));
}

Cache::Lock Cache::lock(const core::Digest& digest, Deadline deadline) {
  if (m_options.directory.empty() || !m_writable) {
    return {};
  }
  const fs::path folder = m_options.directory / "v1" / "lock";
  std::error_code ignored;
  fs::create_directories(folder, ignored);
  Lock file(::open((folder / digest.hex()).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
  std::chrono::milliseconds wait(1);
  while (file) {
    if (::flock(file.get(), LOCK_EX | LOCK_NB) == 0) {
      return file;
    }
    if (errno == EINTR) {
      continue;
    }
    if (errno != EWOULDBLOCK || std::chrono::steady_clock::now() + wait >= deadline) {
      break;
    }
    std::this_thread::sleep_for(wait);
    wait = std::min(wait * 2, std::chrono::milliseconds(50));
  }
  return {};
}

void Cache::trim() {
  struct Entry {
    fs::file_time_type used;
    std::uint64_t size;
    fs::path path;
  };
  std::vector<Entry> entries;
  std::uint64_t total = 0;
  std::error_code error;
  for (const char* kind : {"artifacts", "blobs"}) {
    const fs::path folder = m_options.directory / "v1" / kind / "sha256";
    for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
      std::error_code gone;
      const auto size = at->file_size(gone);
      const auto used = at->last_write_time(gone);
      if (!gone) {
        entries.push_back({used, size, at->path()});
        total += size;
      }
    }
  }
  if (total <= m_options.limit) {
    return;
  }
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.used < b.used; });
  for (const Entry& entry : entries) {
    if (total <= m_options.limit / 10 * 9) {
      break;
    }
    fs::remove(entry.path, error);
    total -= entry.size;
  }
}

}  // namespace cubinary::client
