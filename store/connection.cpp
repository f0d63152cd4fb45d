// SPDX-License-Identifier: Apache-2.0
#include "store/connection.hpp"

#include <cerrno>
#include <climits>

#include <sqlite3.h>

namespace cubinary::store {

using core::Error;
using core::ErrorCode;
using core::fail;
using core::Result;

namespace {

constexpr int k_busy_timeout_ms = 10'000;
constexpr std::int64_t k_journal_size_limit = 64 << 20;

bool means_full(int system_errno) {
  return system_errno == ENOSPC || system_errno == EDQUOT || system_errno == EFBIG;
}

/// The errno behind an I/O failure. SQLite's own answer is whatever errno holds by the time it
/// looks, so the database's and its log's files are asked for theirs.
int io_errno(sqlite3* handle) {
  int found = sqlite3_system_errno(handle);
  for (const int which : {SQLITE_FCNTL_FILE_POINTER, SQLITE_FCNTL_JOURNAL_POINTER}) {
    sqlite3_file* file = nullptr;
    int number = 0;
    if (sqlite3_file_control(handle, "main", which, static_cast<void*>(&file)) == SQLITE_OK &&
        file != nullptr && file->pMethods != nullptr &&
        file->pMethods->xFileControl(file, SQLITE_FCNTL_LAST_ERRNO, &number) == SQLITE_OK &&
        means_full(number)) {
      found = number;
    }
  }
  return found;
}

/// `file:` URI of an absolute path: everything that has a meaning in a URI is escaped.
std::string immutable_uri(const std::filesystem::path& path) {
  static constexpr char k_hex[] = "0123456789ABCDEF";
  std::string uri = "file:";
  for (const char c : path.string()) {
    if (c == '%' || c == '?' || c == '#') {
      uri += '%';
      uri += k_hex[static_cast<unsigned char>(c) >> 4U];
      uri += k_hex[static_cast<unsigned char>(c) & 15U];
    } else {
      uri += c;
    }
  }
  return uri + "?immutable=1";
}

}  // namespace

Error sqlite_error(int status, int system_errno, std::string_view detail,
                   const std::filesystem::path& path) {
  const auto error = [&](ErrorCode code, std::string_view what) {
    return Error{code, path.string() + ": " + std::string(what)};
  };
  const std::string reason = " (" + std::string(detail) + ")";
  switch (status & 0xff) {
    case SQLITE_FULL:
      return error(ErrorCode::disk_full,
                   "the disk is full; free some space and run again: what was finished is kept");
    case SQLITE_NOTADB:
      return error(ErrorCode::not_a_store, "is no Cubinary store" + reason);
    case SQLITE_CORRUPT:
      return error(ErrorCode::corrupt,
                   "the store is damaged" + reason +
                       "; `cubinary store fsck` says what is lost, a backup brings it back");
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return error(ErrorCode::busy,
                   "another process uses the file" + reason + "; wait for it to finish or stop it");
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_AUTH:
      return error(ErrorCode::permission,
                   "may not be written" + reason + "; check who owns the file and its folder");
    case SQLITE_CANTOPEN:
      if (system_errno == ENOENT) {
        return error(ErrorCode::not_found, "no such store");
      }
      return error(ErrorCode::permission,
                   "cannot be opened" + reason +
                       "; a store that was not closed needs a writable folder once, to recover");
    case SQLITE_IOERR:
      if (means_full(system_errno)) {
        return sqlite_error(SQLITE_FULL, system_errno, detail, path);
      }
      return error(ErrorCode::io, "input or output failed" + reason);
    case SQLITE_CONSTRAINT:
      if (status == SQLITE_CONSTRAINT_FOREIGNKEY) {
        return error(ErrorCode::not_found, "what this refers to is not in the store");
      }
      return error(ErrorCode::internal, "SQLite failed" + reason);
    case SQLITE_TOOBIG:
      return error(ErrorCode::too_large, "a value is too large for the store" + reason);
    case SQLITE_INTERRUPT:
      return error(ErrorCode::cancelled, "stopped");
    default:
      return error(ErrorCode::internal, "SQLite failed" + reason);
  }
}

// --- Statement ---

Statement::Statement(Connection& connection, sqlite3_stmt* handle, bool* in_use)
    : m_connection(&connection), m_handle(handle), m_in_use(in_use) {
}

Statement::Statement(Statement&& other) noexcept
    : m_connection(other.m_connection),
      m_handle(std::exchange(other.m_handle, nullptr)),
      m_in_use(other.m_in_use),
      m_bind_status(other.m_bind_status),
      m_in_range(other.m_in_range) {
}

Statement::~Statement() {
  if (m_handle == nullptr) {
    return;
  }
  if (m_in_use == nullptr) {
    sqlite3_finalize(m_handle);
    return;
  }
  sqlite3_reset(m_handle);
  sqlite3_clear_bindings(m_handle);
  *m_in_use = false;
}

void Statement::check(int status) {
  if (m_bind_status == SQLITE_OK) {
    m_bind_status = status;
  }
}

void Statement::bind(int index, std::nullptr_t) {
  check(sqlite3_bind_null(m_handle, index));
}
void Statement::bind(int index, double value) {
  check(sqlite3_bind_double(m_handle, index, value));
}
void Statement::bind_integer(int index, std::int64_t value) {
  check(sqlite3_bind_int64(m_handle, index, value));
}
void Statement::bind(int index, std::string_view value) {
  // A null pointer would bind NULL, not the empty text.
  const char* data = value.empty() ? "" : value.data();
  check(sqlite3_bind_text64(m_handle, index, data, value.size(), SQLITE_TRANSIENT, SQLITE_UTF8));
}
void Statement::bind(int index, const core::Digest& value) {
  const core::ByteView raw = value.raw();
  check(sqlite3_bind_blob64(m_handle, index, raw.data(), raw.size(), SQLITE_TRANSIENT));
}
void Statement::bind(int index, core::ByteView value) {
  if (value.empty()) {
    check(sqlite3_bind_zeroblob(m_handle, index, 0));
  } else {
    check(sqlite3_bind_blob64(m_handle, index, value.data(), value.size(), SQLITE_STATIC));
  }
}

Result<bool> Statement::step() {
  if (!m_in_range) {
    return fail(ErrorCode::too_large, "a number is too large for the store");
  }
  const int status = m_bind_status == SQLITE_OK ? sqlite3_step(m_handle) : m_bind_status;
  if (status == SQLITE_ROW) {
    return true;
  }
  if (status == SQLITE_DONE) {
    return false;
  }
  return fail(m_connection->error(status));
}

Result<void> Statement::run() {
  while (true) {
    TRY_ASSIGN(const bool row, step());
    if (!row) {
      return {};
    }
  }
}

bool Statement::is_null(int column) const {
  return sqlite3_column_type(m_handle, column) == SQLITE_NULL;
}
std::int64_t Statement::integer(int column) const {
  return sqlite3_column_int64(m_handle, column);
}
std::uint64_t Statement::size(int column) const {
  const std::int64_t value = integer(column);
  return value < 0 ? 0 : static_cast<std::uint64_t>(value);
}
double Statement::real(int column) const {
  return sqlite3_column_double(m_handle, column);
}
std::string Statement::text(int column) const {
  const auto* data = reinterpret_cast<const char*>(sqlite3_column_text(m_handle, column));
  const auto length = static_cast<std::size_t>(sqlite3_column_bytes(m_handle, column));
  return data == nullptr ? std::string() : std::string(data, length);
}
core::ByteView Statement::blob(int column) const {
  const auto* data = static_cast<const std::byte*>(sqlite3_column_blob(m_handle, column));
  const auto length = static_cast<std::size_t>(sqlite3_column_bytes(m_handle, column));
  return data == nullptr ? core::ByteView() : core::ByteView(data, length);
}
core::Digest Statement::digest(int column) const {
  return core::Digest::from_raw(blob(column)).value_or(core::Digest());
}

// --- Connection ---

Result<std::unique_ptr<Connection>> Connection::open(const std::filesystem::path& path, Mode mode) {
  std::unique_ptr<Connection> connection(new Connection(path));
  int flags = SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE;
  std::string name = path.string();
  switch (mode) {
    case Mode::read:
      flags |= SQLITE_OPEN_READONLY;
      break;
    case Mode::immutable:
      flags |= SQLITE_OPEN_READONLY | SQLITE_OPEN_URI;
      name = immutable_uri(path);
      break;
    case Mode::write:
      flags |= SQLITE_OPEN_READWRITE;
      break;
    case Mode::create:
      flags |= SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;
      break;
  }
  const int status = sqlite3_open_v2(name.c_str(), &connection->m_handle, flags, nullptr);
  if (status != SQLITE_OK) {
    return fail(connection->error(status));
  }
  sqlite3* const handle = connection->m_handle;
  sqlite3_busy_timeout(handle, k_busy_timeout_ms);
  const bool writes = mode == Mode::write || mode == Mode::create;
  sqlite3_db_config(handle, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(handle, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  sqlite3_db_config(handle, SQLITE_DBCONFIG_ENABLE_FKEY, 1, nullptr);
  sqlite3_db_config(handle, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, writes ? 0 : 1, nullptr);
  TRY(connection->run("PRAGMA cell_size_check = ON"));
  if (writes) {
    TRY(connection->run("PRAGMA synchronous = FULL"));
    TRY(connection->run("PRAGMA temp_store = MEMORY"));
    TRY(connection->run("PRAGMA journal_size_limit = " + std::to_string(k_journal_size_limit)));
  } else {
    TRY(connection->run("PRAGMA query_only = ON"));
  }
  return connection;
}

Connection::~Connection() {
  for (auto& [sql, prepared] : m_prepared) {
    sqlite3_finalize(prepared.handle);
  }
  sqlite3_close_v2(m_handle);
}

Result<Statement> Connection::prepare(std::string_view sql) {
  Prepared& cached = m_prepared[std::string(sql)];
  const bool nested = cached.in_use;
  sqlite3_stmt* handle = nested ? nullptr : cached.handle;
  if (handle == nullptr) {
    if (sql.size() > INT_MAX) {
      return fail(ErrorCode::internal, "an SQL statement is too long");
    }
    const unsigned flags = nested ? 0 : SQLITE_PREPARE_PERSISTENT;
    const int status = sqlite3_prepare_v3(m_handle, sql.data(), static_cast<int>(sql.size()), flags,
                                          &handle, nullptr);
    if (status != SQLITE_OK) {
      return fail(error(status));
    }
  }
  if (nested) {
    return Statement(*this, handle, nullptr);
  }
  cached.handle = handle;
  cached.in_use = true;
  return Statement(*this, handle, &cached.in_use);
}

Result<void> Connection::execute_script(const std::string& sql) {
  const int status = sqlite3_exec(m_handle, sql.c_str(), nullptr, nullptr, nullptr);
  if (status != SQLITE_OK) {
    return fail(error(status));
  }
  return {};
}

Result<void> Connection::checkpoint() {
  // Cutting waits for readers as a writer would; what they still need is cut another time.
  sqlite3_busy_timeout(m_handle, 0);
  Result<void> result = run("PRAGMA wal_checkpoint(TRUNCATE)");
  sqlite3_busy_timeout(m_handle, k_busy_timeout_ms);
  return result;
}

std::int64_t Connection::last_insert_id() const {
  return sqlite3_last_insert_rowid(m_handle);
}
std::int64_t Connection::changes() const {
  return sqlite3_changes64(m_handle);
}
bool Connection::in_transaction() const {
  return sqlite3_get_autocommit(m_handle) == 0;
}

Error Connection::error(int status) const {
  const char* detail = m_handle == nullptr ? sqlite3_errstr(status) : sqlite3_errmsg(m_handle);
  const int system_errno = m_handle == nullptr ? 0 : sqlite3_system_errno(m_handle);
  const bool writing = status == SQLITE_IOERR_WRITE || status == SQLITE_IOERR_FSYNC ||
                       status == SQLITE_IOERR_SHMSIZE || status == SQLITE_IOERR_TRUNCATE;
  return sqlite_error(status, writing ? io_errno(m_handle) : system_errno, detail, m_path);
}

}  // namespace cubinary::store
