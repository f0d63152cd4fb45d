// SPDX-License-Identifier: Apache-2.0
#include "store/store.hpp"

#include <array>
#include <atomic>
#include <cerrno>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include "core/base/file.hpp"
#include "store/connection.hpp"
#include "store/file_system.hpp"
#include "store/migrations.hpp"
#include "store/owner_lock.hpp"

namespace cubinary::store {

using core::ErrorCode;
using core::fail;
using core::Result;
namespace fs = std::filesystem;

namespace {

constexpr std::int64_t k_application_id = 0x43554249;  // "CUBI"
constexpr std::size_t k_max_idle_connections = 64;

std::int64_t newest_format() {
  return static_cast<std::int64_t>(migrations().size());
}

/// What lies at a path, as far as the first bytes tell without SQLite: foreign files are refused
/// before anything beside them is touched.
enum class Found : std::uint8_t { missing, empty, database };

Result<Found> look_at(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::not_found) {
    return Found::missing;
  }
  if (error) {
    return fail(core::errno_error("cannot look at " + path.string(), error.value()));
  }
  if (status.type() != fs::file_type::regular) {
    return fail(ErrorCode::not_a_store, path.string() + " is no regular file, so no store");
  }
  const core::UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) {
    return fail(core::errno_error("cannot read " + path.string(), errno));
  }
  std::array<char, 100> header{};
  const ssize_t length = pread(fd.get(), header.data(), header.size(), 0);
  if (length < 0) {
    return fail(core::errno_error("cannot read " + path.string(), errno));
  }
  if (length == 0) {
    return Found::empty;
  }
  constexpr std::string_view k_magic("SQLite format 3\0", 16);
  if (std::string_view(header.data(), k_magic.size()) != k_magic) {
    return fail(ErrorCode::not_a_store, path.string() + " is no Cubinary store");
  }
  if (static_cast<std::size_t>(length) < header.size()) {
    return fail(ErrorCode::corrupt, path.string() + ": the store is cut off after " +
                                        std::to_string(length) + " bytes; restore a backup");
  }
  // Zero when the first transaction is still in the write-ahead log: then SQLite's answer counts.
  const std::string_view id(header.data() + 68, 4);
  if (id != std::string_view("CUBI") && id != std::string_view("\0\0\0\0", 4)) {
    return fail(ErrorCode::not_a_store,
                path.string() + " is an SQLite database of another application");
  }
  return Found::database;
}

/// The store's format; 0 for a database in which nothing has been made yet.
Result<std::int64_t> read_format(Connection& connection) {
  const std::string name = connection.path().string();
  TRY_ASSIGN(const auto application, connection.find_integer("PRAGMA application_id"));
  TRY_ASSIGN(const auto format, connection.find_integer("PRAGMA user_version"));
  if (application.value_or(0) == 0 && format.value_or(0) == 0) {
    TRY_ASSIGN(const auto objects, connection.find_integer("SELECT count(*) FROM sqlite_schema"));
    if (objects.value_or(0) == 0) {
      return 0;
    }
  }
  if (application.value_or(0) != k_application_id) {
    return fail(ErrorCode::not_a_store, name + " is an SQLite database of another application");
  }
  if (format.value_or(0) > newest_format()) {
    return fail(ErrorCode::newer_format,
                name + " has store format " + std::to_string(*format) +
                    ", made by a newer Cubinary; this one (" CUBINARY_VERSION
                    ") reads formats up to " +
                    std::to_string(newest_format()) + ": update it");
  }
  if (format.value_or(0) <= 0) {
    return fail(ErrorCode::corrupt, name + " says no store format; restore a backup");
  }
  return *format;
}

Result<void> migrate(Connection& connection, std::int64_t from) {
  for (std::int64_t format = from; format < newest_format(); ++format) {
    std::string script = "BEGIN IMMEDIATE;\n";
    script += migrations()[static_cast<std::size_t>(format)].text;
    script += "PRAGMA application_id = " + std::to_string(k_application_id) + ";\n";
    script += "PRAGMA user_version = " + std::to_string(format + 1) + ";\nCOMMIT;\n";
    TRY(connection.execute_script(script));
  }
  return {};
}

/// Whether a read connection may take the file as unchanging. Only where SQLite's helper files can
/// neither be found nor made: its folder is read-only for us and nothing waits in a write-ahead
/// log. A writer with more rights could still start meanwhile, so such a connection serves one
/// lease only and every lease looks again; what it may read in between is caught by the digests.
bool is_immutable(const fs::path& path) {
  const fs::path folder = path.parent_path();
  if (faccessat(AT_FDCWD, folder.c_str(), W_OK, AT_EACCESS) == 0) {
    return false;
  }
  std::error_code missing;
  if (fs::exists(path.string() + "-shm", missing)) {
    return false;
  }
  const std::uintmax_t log = fs::file_size(path.string() + "-wal", missing);
  return missing || log == 0;
}

}  // namespace

// --- Reader ---

struct Reader::Pool {
  std::mutex mutex;
  std::vector<std::unique_ptr<Connection>> idle;
};

Reader::Reader(std::shared_ptr<Pool> pool, std::unique_ptr<Connection> connection)
    : m_pool(std::move(pool)), m_connection(std::move(connection)) {
}
Reader::Reader(Reader&&) noexcept = default;

Reader& Reader::operator=(Reader&& other) noexcept {
  std::swap(m_pool, other.m_pool);
  std::swap(m_connection, other.m_connection);
  return *this;
}

Reader::~Reader() {
  if (m_pool == nullptr || m_connection == nullptr) {
    return;
  }
  if (m_connection->in_transaction() && !m_connection->run("ROLLBACK")) {
    return;
  }
  const std::lock_guard lock(m_pool->mutex);
  if (m_pool->idle.size() < k_max_idle_connections) {
    m_pool->idle.push_back(std::move(m_connection));
  }
}

// --- Store ---

struct Store::Impl {
  fs::path path;
  std::optional<OwnerLock> lock;  // given up last
  std::optional<Reader> writing;  // the one writing connection
  std::shared_ptr<Reader::Pool> pool = std::make_shared<Reader::Pool>();
  std::mutex write_mutex;
  std::atomic<std::thread::id> write_thread;

  ~Impl() {
    // Reading connections first: closing the writing one checkpoints and removes the log.
    const std::lock_guard guard(pool->mutex);
    pool->idle.clear();
  }
};

Store::Store(std::unique_ptr<Impl> impl) : m_impl(std::move(impl)) {
}
Store::Store(Store&&) noexcept = default;
Store& Store::operator=(Store&&) noexcept = default;
Store::~Store() = default;

const fs::path& Store::path() const {
  return m_impl->path;
}
bool Store::writable() const {
  return m_impl->writing.has_value();
}

Result<Store> Store::open(const fs::path& path, const OpenOptions& options) {
  const bool write = options.access == Access::write;
  const bool create = write && options.create;
  auto impl = std::make_unique<Impl>();
  std::error_code error;
  // One name for one file: the lock beside it must be the same through every symbolic link.
  impl->path = fs::weakly_canonical(fs::absolute(path), error);
  if (error) {
    return fail(core::errno_error("cannot find " + path.string(), error.value()));
  }
  const fs::path folder = impl->path.parent_path();
  if (!fs::is_directory(folder, error)) {
    return fail(ErrorCode::not_found, "no folder " + folder.string() + " to hold the store " +
                                          impl->path.filename().string() + "; make it first");
  }
  TRY(refuse_network_file_system(folder));

  const fs::path file = impl->path;
  const auto check_found = [&]() -> Result<Found> {
    TRY_ASSIGN(const Found found, look_at(file));
    if (found == Found::missing && !create) {
      return fail(ErrorCode::not_found, "no store " + path.string() + "; `cubinary build --store " +
                                            path.string() + "` makes one");
    }
    if (found == Found::empty && !create) {
      return fail(ErrorCode::not_a_store, path.string() + " is empty, so no store yet");
    }
    return found;
  };
  TRY(check_found());
  Store store(std::move(impl));
  if (!write) {
    TRY_ASSIGN(const Reader reader, store.reader());
    TRY_ASSIGN(const std::int64_t format, read_format(reader.connection()));
    if (format < newest_format()) {
      return format == 0
                 ? fail(ErrorCode::not_a_store, path.string() + " is empty, so no store yet")
                 : fail(ErrorCode::unsupported,
                        path.string() + " has the older store format " + std::to_string(format) +
                            "; open it once for writing (`cubinary store gc`) to bring it up");
    }
    return store;
  }
  TRY_ASSIGN(OwnerLock lock, OwnerLock::take(store.path(), options.purpose));
  // Again: another process may have made or replaced it before we got the lock.
  TRY_ASSIGN(const Found found, check_found());
  store.m_impl->lock.emplace(std::move(lock));
  const auto opened = store.open_writer(create);
  if (!opened) {
    if (found == Found::missing) {
      fs::remove(store.path(), error);  // half made, by us, under the lock
      fs::remove(store.path().string() + "-wal", error);
      fs::remove(store.path().string() + "-shm", error);
    }
    return fail(opened.error());
  }
  return store;
}

Result<void> Store::open_writer(bool create) {
  TRY_ASSIGN(std::unique_ptr<Connection> connection,
             Connection::open(path(), create ? Connection::Mode::create : Connection::Mode::write));
  TRY_ASSIGN(const std::int64_t format, read_format(*connection));
  if (format == 0) {
    if (!create) {
      return fail(ErrorCode::not_a_store, path().string() + " is empty, so no store yet");
    }
    // Both must be said before the first page is written. Small pages: a store has some fifty
    // tables and indexes, and most cubins pack into a few hundred bytes.
    TRY(connection->run("PRAGMA page_size = 1024"));
    TRY(connection->run("PRAGMA auto_vacuum = INCREMENTAL"));
  }
  {
    TRY_ASSIGN(Statement mode, connection->query("PRAGMA journal_mode = WAL"));
    TRY_ASSIGN(const bool row, mode.step());
    if (!row || mode.text(0) != "wal") {
      return fail(ErrorCode::unsupported,
                  path().string() + ": the file system cannot hold a write-ahead log");
    }
  }
  TRY(migrate(*connection, format));
  m_impl->writing.emplace(Reader(nullptr, std::move(connection)));
  return {};
}

Result<Reader> Store::reader() const {
  const std::shared_ptr<Reader::Pool>& pool = m_impl->pool;
  std::unique_ptr<Connection> connection;
  std::shared_ptr<Reader::Pool> home = pool;
  if (!writable() && is_immutable(path())) {
    TRY_ASSIGN(connection, Connection::open(path(), Connection::Mode::immutable));
    home = nullptr;
  } else {
    {
      const std::lock_guard lock(pool->mutex);
      if (!pool->idle.empty()) {
        connection = std::move(pool->idle.back());
        pool->idle.pop_back();
      }
    }
    if (connection == nullptr) {
      TRY_ASSIGN(connection, Connection::open(path(), Connection::Mode::read));
    }
  }
  TRY(connection->run("BEGIN"));
  return Reader(std::move(home), std::move(connection));
}

Result<void> Store::checkpoint() {
  if (!writable()) {
    return fail(ErrorCode::permission, path().string() + " is open for reading only");
  }
  const std::lock_guard lock(m_impl->write_mutex);
  return m_impl->writing->connection().checkpoint();
}

Result<void> Store::write(const std::function<Result<void>(Writer&)>& body) {
  if (!writable()) {
    return fail(ErrorCode::permission, path().string() + " is open for reading only");
  }
  if (m_impl->write_thread.load() == std::this_thread::get_id()) {
    return fail(ErrorCode::internal, "a write inside a write to " + path().string());
  }
  const std::lock_guard lock(m_impl->write_mutex);
  Connection& connection = m_impl->writing->connection();
  struct Transaction {
    Connection& connection;
    std::atomic<std::thread::id>& thread;
    ~Transaction() {
      // SQLite has rolled back by itself after some failures, such as a full disk.
      if (connection.in_transaction()) {
        [[maybe_unused]] const auto ignored = connection.run("ROLLBACK");
      }
      thread.store(std::thread::id());
    }
  } transaction{connection, m_impl->write_thread};
  m_impl->write_thread.store(std::this_thread::get_id());

  TRY(connection.run("BEGIN IMMEDIATE"));
  Writer writer(*m_impl->writing);
  TRY(body(writer));
  return connection.run("COMMIT");
}

}  // namespace cubinary::store
