// SPDX-License-Identifier: Apache-2.0
#include "store/maintenance.hpp"

#include <cerrno>
#include <cstdio>
#include <memory>
#include <system_error>

#include <fcntl.h>
#include <sqlite3.h>
#include <unistd.h>

#include "core/base/file.hpp"
#include "store/connection.hpp"

namespace cubinary::store {

using core::ErrorCode;
using core::fail;
using core::Result;
namespace fs = std::filesystem;

namespace {

/// A file that goes away unless it is kept.
class Temporary {
 public:
  explicit Temporary(fs::path path) : m_path(std::move(path)) {}
  ~Temporary() {
    std::error_code ignored;
    fs::remove(m_path, ignored);
    fs::remove(m_path.string() + "-journal", ignored);
  }
  Temporary(const Temporary&) = delete;
  Temporary& operator=(const Temporary&) = delete;
  [[nodiscard]] const fs::path& path() const { return m_path; }

 private:
  fs::path m_path;
};

Result<void> copy_database(Connection& from, const fs::path& to) {
  struct Close {
    void operator()(sqlite3* handle) const { sqlite3_close_v2(handle); }
  };
  sqlite3* opened = nullptr;
  const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_EXCLUSIVE |
                    SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE;
  int status = sqlite3_open_v2(to.c_str(), &opened, flags, nullptr);
  const std::unique_ptr<sqlite3, Close> target(opened);
  const auto error = [&](int code) {
    return fail(
        sqlite_error(code, sqlite3_system_errno(target.get()), sqlite3_errmsg(target.get()), to));
  };
  if (status != SQLITE_OK) {
    return error(status);
  }
  sqlite3_backup* const copy = sqlite3_backup_init(target.get(), "main", from.handle(), "main");
  if (copy == nullptr) {
    return error(sqlite3_errcode(target.get()));
  }
  // All in one step: in pieces, a change by the owner would start it over each time.
  const int step = sqlite3_backup_step(copy, -1);
  status = sqlite3_backup_finish(copy);
  if (step != SQLITE_DONE) {
    return error(step);
  }
  return status == SQLITE_OK ? Result<void>() : error(status);
}

Result<void> sync_folder(const fs::path& folder) {
  const core::UniqueFd fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd || fsync(fd.get()) != 0) {
    return fail(core::errno_error("cannot sync folder " + folder.string(), errno));
  }
  return {};
}

}  // namespace

Result<Stats> stats(const Store& store) {
  TRY_ASSIGN(const Reader reader, store.reader());
  Stats stats;
  TRY_ASSIGN(Statement row,
             reader.connection().query(
                 "SELECT (SELECT count(*) FROM kernel), "
                 "(SELECT count(*) FROM candidate WHERE status = 0), "
                 "(SELECT count(*) FROM candidate WHERE status <> 0), "
                 "(SELECT count(*) FROM artifact), "
                 "(SELECT coalesce(sum(size), 0) FROM artifact), "
                 "(SELECT coalesce(sum(stored_size), 0) FROM artifact), "
                 "(SELECT coalesce(sum(length(stored)), 0) FROM dictionary), "
                 "(SELECT count(*) FROM measurement), (SELECT count(*) FROM release), "
                 "(SELECT coalesce(sum(size), 0) FROM blob)"));
  TRY(row.step());
  stats.kernels = row.size(0);
  stats.candidates_ok = row.size(1);
  stats.candidates_failed = row.size(2);
  stats.artifacts = row.size(3);
  stats.artifact_raw_bytes = row.size(4);
  stats.artifact_stored_bytes = row.size(5);
  stats.dictionary_bytes = row.size(6);
  stats.measurements = row.size(7);
  stats.releases = row.size(8);
  stats.blob_bytes = row.size(9);
  std::error_code missing;
  for (const std::string_view suffix : {"", "-wal"}) {
    const std::uintmax_t size = fs::file_size(store.path().string() + std::string(suffix), missing);
    stats.file_bytes += missing ? 0 : size;
  }
  return stats;
}

Result<void> backup(const Store& store, const fs::path& destination) {
  const std::string name = destination.string();
  const auto taken = [&] {
    return fail(ErrorCode::exists,
                name + " exists; a backup overwrites nothing, so choose another name");
  };
  std::error_code error;
  if (fs::exists(fs::symlink_status(destination, error))) {
    return taken();
  }
  fs::path folder = destination.parent_path();
  if (folder.empty()) {
    folder = ".";
  }
  if (!fs::is_directory(folder, error)) {
    return fail(ErrorCode::not_found, "no folder " + folder.string() + " for the backup");
  }
  const Temporary temporary(name + ".part-" + std::to_string(getpid()));
  TRY_ASSIGN(const Reader reader, store.reader());
  TRY(copy_database(reader.connection(), temporary.path()));
  // A link, unlike a rename, never replaces a file somebody made meanwhile.
  if (link(temporary.path().c_str(), destination.c_str()) != 0) {
    if (errno == EEXIST) {
      return taken();
    }
    if (errno != EPERM && errno != EOPNOTSUPP) {
      return fail(core::errno_error("cannot name the backup " + name, errno));
    }
    if (std::rename(temporary.path().c_str(), destination.c_str()) != 0) {
      return fail(core::errno_error("cannot name the backup " + name, errno));
    }
  }
  return sync_folder(folder);
}

}  // namespace cubinary::store
