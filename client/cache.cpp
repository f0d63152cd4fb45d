// SPDX-License-Identifier: Apache-2.0
#include "client/cache.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <random>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace cubinary::client {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t k_max_record_bytes = 64U << 10U;
constexpr std::size_t k_max_quarantined = 16;
constexpr time_t k_touch_after_seconds = 86'400;
constexpr std::uint64_t k_queue_limit = 256ULL << 20U;
/// A temporary this old belongs to nobody who still lives.
constexpr time_t k_stale_seconds = 3600;

std::string from_environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

/// Bytes written between two looks at the size.
std::uint64_t trim_interval(std::uint64_t limit) {
  return limit / 16;
}

/// Good enough to spread programs; std::random_device may throw.
std::minstd_rand entropy() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch().count();
  std::minstd_rand generator(static_cast<unsigned>(now ^ (now >> 20U)) ^
                             static_cast<unsigned>(::getpid()));
  generator.discard(2);
  return generator;
}

enum class Read : std::uint8_t { ok, missing, too_large };

/// Few system calls: some file systems make each of them dear. A short read is the end of the file;
/// the digest tells when it was not.
Read read_entry(const fs::path& path, std::uint64_t max_bytes, core::Bytes& bytes) {
  const core::UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat info{};
  if (!fd || ::fstat(fd.get(), &info) != 0 || !S_ISREG(info.st_mode)) {
    return Read::missing;
  }
  if (static_cast<std::uint64_t>(info.st_size) > max_bytes) {
    return Read::too_large;
  }
  bytes.resize(static_cast<std::size_t>(info.st_size));
  std::size_t filled = 0;
  while (filled < bytes.size()) {
    const ssize_t count = ::read(fd.get(), bytes.data() + filled, bytes.size() - filled);
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count < 0) {
      return Read::missing;
    }
    if (count == 0) {
      break;
    }
    filled += static_cast<std::size_t>(count);
  }
  bytes.resize(filled);
  // Marks it as used, at most once a day, so that a read-mostly cache stays quiet.
  if (::time(nullptr) - info.st_mtime > k_touch_after_seconds) {
    (void)::futimens(fd.get(), nullptr);
  }
  return Read::ok;
}

}  // namespace

Cache::Cache(Options options)
    : m_options(std::move(options)), m_writer(m_options.durable, k_queue_limit) {
  if (!m_options.log) {
    m_options.log = [](const std::string&) {};
  }
  if (!m_options.metrics) {
    m_options.metrics = std::make_shared<Metrics>();
  }
  for (const Kind kind : {Kind::artifact, Kind::blob}) {
    m_folders[static_cast<std::size_t>(kind)] =
        m_options.directory / "v1" / (kind == Kind::artifact ? "artifacts" : "blobs") / "sha256";
  }
  // A look at the size reads the whole folder. Programs write little and begin often: each starts
  // somewhere between two looks, so that together they look as often as one that writes it all.
  std::minstd_rand generator = entropy();
  m_until_trim =
      std::uniform_int_distribution<std::uint64_t>(0, trim_interval(m_options.limit))(generator);
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
  return m_folders[static_cast<std::size_t>(kind)] / digest.hex();
}

std::optional<core::Bytes> Cache::find(Kind kind, const core::Digest& digest,
                                       std::uint64_t max_bytes) {
  const auto found = find_shared(kind, digest, max_bytes);
  if (!found) {
    return std::nullopt;
  }
  return core::Bytes(found->view().begin(), found->view().end());
}

std::optional<SharedBytes> Cache::find_shared(Kind kind, const core::Digest& digest,
                                              std::uint64_t max_bytes) {
  {
    const std::lock_guard lock(m_mutex);
    if (const auto found = m_memory.find({kind, digest}); found != m_memory.end()) {
      return found->second.bytes.view().size() <= max_bytes ? std::optional(found->second.bytes)
                                                            : std::nullopt;
    }
  }
  if (m_options.directory.empty()) {
    return std::nullopt;
  }
  const fs::path path = path_of(kind, digest);
  core::Bytes bytes;
  const Read read = read_entry(path, max_bytes, bytes);
  if (read == Read::missing) {
    return std::nullopt;
  }
  if (read == Read::ok && core::sha256(bytes) == digest) {
    return SharedBytes(std::move(bytes));
  }
  m_options.log("the cache entry " + path.string() +
                " is damaged: moved away, it is fetched again when needed");
  m_options.metrics->record({EventKind::damaged, digest.text(), bytes.size()});
  quarantine(path);
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
  put(kind, digest, SharedBytes(core::Bytes(bytes.begin(), bytes.end())));
}

void Cache::put(Kind kind, const core::Digest& digest, SharedBytes bytes) {
  if (!on_disk()) {
    keep_in_memory(kind, digest, std::move(bytes));
    return;
  }
  {
    const std::lock_guard lock(m_mutex);
    if (!m_memory.try_emplace({kind, digest}, Held{bytes, true}).second) {
      return;
    }
  }
  m_writer.add(
      {path_of(kind, digest), std::move(bytes), false,
       [this, kind, digest](const core::Result<void>& result) { written(kind, digest, result); }});
}

void Cache::written(Kind kind, const core::Digest& digest, const core::Result<void>& result) {
  SharedBytes bytes;
  bool look = false;
  {
    const std::lock_guard lock(m_mutex);
    const auto at = m_memory.find({kind, digest});
    if (at != m_memory.end() && at->second.waits) {
      bytes = std::move(at->second.bytes);
      m_memory.erase(at);
    }
    look = m_until_trim < bytes.view().size();
    m_until_trim = look ? trim_interval(m_options.limit) : m_until_trim - bytes.view().size();
  }
  if (!result) {
    cannot_write(result.error());
    keep_in_memory(kind, digest, std::move(bytes));
  } else if (look) {
    trim();
  }
}

core::Result<void> Cache::flush() {
  return m_writer.flush();
}

void Cache::keep_in_memory(Kind kind, const core::Digest& digest, SharedBytes bytes) {
  const std::uint64_t size = bytes.view().size();
  const std::lock_guard lock(m_mutex);
  if (size > m_options.memory_limit) {
    return;
  }
  if (m_memory_bytes + size > m_options.memory_limit) {
    std::erase_if(m_memory, [](const auto& entry) { return !entry.second.waits; });
    m_memory_bytes = 0;
  }
  if (m_memory.try_emplace({kind, digest}, Held{std::move(bytes), false}).second) {
    m_memory_bytes += size;
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
  {
    const std::lock_guard lock(m_mutex);
    m_records.insert_or_assign(std::string(name), std::string(text));
  }
  if (!on_disk()) {
    return;
  }
  m_writer.add({record_path(name), SharedBytes(core::to_bytes(text)), true,
                [this, key = std::string(name),
                 value = std::string(text)](const core::Result<void>& result) {
                  if (!result) {
                    cannot_write(result.error());
                    return;
                  }
                  const std::lock_guard lock(m_mutex);
                  const auto at = m_records.find(key);
                  if (at != m_records.end() && at->second == value) {
                    m_records.erase(at);
                  }
                }});
}

Cache::Lock Cache::lock(const core::Digest& digest, Deadline deadline) {
  if (!on_disk()) {
    return {};
  }
  const fs::path folder = m_options.directory / "v1" / "lock";
  const std::string path = (folder / digest.hex()).string();
  const auto open = [&] { return Lock(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666)); };
  Lock file = open();
  if (!file && errno == ENOENT) {
    std::error_code ignored;
    fs::create_directories(folder, ignored);
    file = open();
  }
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

void Cache::unlock_after_writes(Lock lock) {
  if (lock) {
    // A function object must be copyable.
    m_writer.add({{}, {}, false, [held = std::make_shared<Lock>(std::move(lock))](const auto&) {}});
  }
}

void Cache::trim() {
  struct Entry {
    timespec used;
    std::uint64_t size;
    fs::path path;
  };
  std::vector<Entry> entries;
  std::uint64_t total = 0;
  std::error_code error;
  const time_t stale = ::time(nullptr) - k_stale_seconds;
  for (const char* kind : {"artifacts", "blobs"}) {
    const fs::path folder = m_options.directory / "v1" / kind / "sha256";
    for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
      struct stat info{};
      if (::stat(at->path().c_str(), &info) != 0) {
        continue;
      }
      if (info.st_mtime < stale && is_temporary_name(at->path().filename().string())) {
        std::error_code gone;
        fs::remove(at->path(), gone);
      } else {
        const auto size = static_cast<std::uint64_t>(info.st_size);
        entries.push_back({info.st_mtim, size, at->path()});
        total += size;
      }
    }
  }
  if (total <= m_options.limit) {
    return;
  }
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::pair(a.used.tv_sec, a.used.tv_nsec) < std::pair(b.used.tv_sec, b.used.tv_nsec);
  });
  for (const Entry& entry : entries) {
    if (total <= m_options.limit / 10 * 9) {
      break;
    }
    fs::remove(entry.path, error);
    total -= entry.size;
  }
}

}  // namespace cubinary::client
