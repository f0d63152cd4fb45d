// SPDX-License-Identifier: Apache-2.0
#include "client/cache_writer.hpp"

#include <atomic>
#include <cerrno>
#include <string>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

#include "core/base/file.hpp"
#include "core/driver/process.hpp"

namespace cubinary::client {
namespace {

using core::fail;
using core::Result;

constexpr std::string_view k_temporary = ".tmp-";
// A network file system forgets handles and folders under our feet; a second look finds them.
constexpr int k_attempts = 5;

int write_all(int fd, core::ByteView bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0) {
      if (errno == EINTR) {
        continue;
      }
      return errno;
    }
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return 0;
}

/// One try; errno or 0.
int try_write(const std::filesystem::path& path, core::ByteView bytes, bool durable) {
  static std::atomic<unsigned> s_counter{0};
  const std::string temporary = path.string() + std::string(k_temporary) +
                                std::to_string(::getpid()) + "-" +
                                std::to_string(s_counter.fetch_add(1));
  core::UniqueFd fd(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  if (!fd) {
    return errno;
  }
  int error = write_all(fd.get(), bytes);
  if (error == 0 && durable && ::fsync(fd.get()) != 0) {
    error = errno;
  }
  // Network file systems report a failed write when the file is closed.
  if (::close(fd.release()) != 0 && error == 0 && errno != EINTR) {
    error = errno;
  }
  if (error == 0 && ::rename(temporary.c_str(), path.c_str()) != 0) {
    error = errno;
  }
  if (error != 0) {
    ::unlink(temporary.c_str());
  }
  return error;
}

}  // namespace

Result<void> write_cache_file(const std::filesystem::path& path, core::ByteView bytes,
                              bool durable) {
  int error = 0;
  for (int attempt = 0; attempt < k_attempts; ++attempt) {
    error = try_write(path, bytes, durable);
    if (error == ENOENT) {
      std::error_code failure;
      std::filesystem::create_directories(path.parent_path(), failure);
      if (failure) {
        return fail(core::errno_error("cannot make the folder " + path.parent_path().string(),
                                      failure.value()));
      }
      continue;
    }
    if (error != ESTALE && error != EBUSY) {
      break;
    }
  }
  return error == 0 ? Result<void>()
                    : fail(core::errno_error("cannot write " + path.string(), error));
}

namespace {

/// Programs end without closing what they opened: what they fetched should be there the next time.
class OpenWriters {
 public:
  void add(CacheWriter* writer) {
    const std::lock_guard lock(m_mutex);
    m_writers.insert(writer);
  }
  void remove(CacheWriter* writer) {
    const std::lock_guard lock(m_mutex);
    m_writers.erase(writer);
  }
  void drain() {
    const std::lock_guard lock(m_mutex);
    for (CacheWriter* writer : m_writers) {
      writer->drain(k_patience);
    }
  }

 private:
  static constexpr std::chrono::seconds k_patience{5};
  std::mutex m_mutex;
  std::set<CacheWriter*> m_writers;
};

/// Leaked on purpose: writers may be destroyed later than any static object.
OpenWriters& open_writers() {
  static auto* const writers = new OpenWriters;
  return *writers;
}

struct DrainAtExit {
  DrainAtExit() = default;
  // A forked child has none of the threads that would do it.
  ~DrainAtExit() {
    if (core::fork_generation() == generation) {
      open_writers().drain();
    }
  }
  DrainAtExit(const DrainAtExit&) = delete;
  DrainAtExit& operator=(const DrainAtExit&) = delete;
  unsigned generation = core::fork_generation();
};

}  // namespace

bool is_temporary_name(std::string_view name) {
  return name.find(k_temporary) != name.npos;
}

CacheWriter::~CacheWriter() {
  open_writers().remove(this);
  {
    const std::lock_guard lock(m_mutex);
    m_stop = true;
  }
  m_changed.notify_all();
  if (m_thread.joinable()) {
    m_thread.join();
  }
}

void CacheWriter::add(Job job) {
  std::unique_lock lock(m_mutex);
  m_changed.wait(lock, [&] { return m_queued_bytes <= m_queue_limit; });
  m_queued_bytes += job.bytes.view().size();
  m_jobs.push_back(std::move(job));
  if (!m_thread.joinable()) {
    try {
      m_thread = std::thread([this] { run(); });
      static const DrainAtExit s_drain;
      open_writers().add(this);
    } catch (const std::system_error&) {
      // Containers bound the number of threads: the caller's has to do.
      lock.unlock();
      run_queued();
      return;
    }
  }
  m_changed.notify_all();
}

Result<void> CacheWriter::flush() {
  std::unique_lock lock(m_mutex);
  m_changed.wait(lock, [&] { return m_jobs.empty() && !m_busy; });
  if (m_error) {
    return fail(*std::exchange(m_error, std::nullopt));
  }
  return {};
}

void CacheWriter::drain(std::chrono::seconds patience) {
  std::unique_lock lock(m_mutex);
  m_changed.wait_for(lock, patience, [&] { return m_jobs.empty() && !m_busy; });
}

void CacheWriter::run() {
  std::unique_lock lock(m_mutex);
  while (true) {
    m_changed.wait(lock, [&] { return m_stop || !m_jobs.empty(); });
    if (m_jobs.empty()) {
      return;
    }
    lock.unlock();
    run_queued();
    lock.lock();
  }
}

void CacheWriter::run_queued() {
  const std::lock_guard writing(m_writing);
  std::unique_lock lock(m_mutex);
  while (!m_jobs.empty()) {
    Job job = std::move(m_jobs.front());
    m_jobs.pop_front();
    m_busy = true;
    const bool last = m_jobs.empty();
    lock.unlock();

    Result<void> written = job.path.empty() ? Result<void>() : write(job);
    if (written && last) {
      written = sync_folders();
    }
    if (job.done) {
      job.done(written);
    }
    const std::uint64_t size = job.bytes.view().size();
    job = {};

    lock.lock();
    m_busy = false;
    m_queued_bytes -= size;
    if (!written && !m_error) {
      m_error = written.error();
    }
    m_changed.notify_all();
  }
}

Result<void> CacheWriter::write(const Job& job) {
  TRY(write_cache_file(job.path, job.bytes.view(), m_durable || job.durable));
  if (m_durable) {
    m_folders.insert(job.path.parent_path());
  }
  return {};
}

Result<void> CacheWriter::sync_folders() {
  for (const auto& folder : std::exchange(m_folders, {})) {
    const core::UniqueFd fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    // Some file systems cannot sync a folder; the renames themselves stand.
    if (fd && ::fsync(fd.get()) != 0 && errno != EINVAL && errno != ENOTSUP) {
      return fail(core::errno_error("cannot sync the folder " + folder.string(), errno));
    }
  }
  return {};
}

}  // namespace cubinary::client
