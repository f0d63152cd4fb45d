// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "core/base/bytes.hpp"
#include "core/base/digest.hpp"
#include "core/base/result.hpp"

struct sqlite3;
struct sqlite3_stmt;

namespace cubinary::store {

/// One run of a prepared statement of a Connection, which it must not outlive. Destroying it ends
/// the run and gives the prepared statement back for the next.
class Statement {
 public:
  Statement(Statement&& other) noexcept;
  Statement& operator=(Statement&&) = delete;
  ~Statement();

  /// Goes to the next row; false when there is none.
  [[nodiscard]] core::Result<bool> step();
  /// Runs to the end, ignoring rows.
  [[nodiscard]] core::Result<void> run();

  // --- The current row, columns from 0 ---

  [[nodiscard]] bool is_null(int column) const;
  [[nodiscard]] std::int64_t integer(int column) const;
  [[nodiscard]] std::uint64_t size(int column) const;  ///< a negative one reads as 0
  [[nodiscard]] double real(int column) const;
  [[nodiscard]] std::string text(int column) const;
  /// Valid until the next step.
  [[nodiscard]] core::ByteView blob(int column) const;
  /// All zero when the column does not hold 32 bytes.
  [[nodiscard]] core::Digest digest(int column) const;

 private:
  friend class Connection;
  Statement(class Connection& connection, sqlite3_stmt* handle, bool* in_use);

  void bind(int index, std::nullptr_t);
  void bind(int index, double value);
  void bind(int index, std::string_view value);
  void bind(int index, const core::Digest& value);
  void bind(int index, core::ByteView value);
  void bind_integer(int index, std::int64_t value);
  template <std::integral T>
  void bind(int index, T value) {
    if constexpr (std::unsigned_integral<T> && sizeof(T) == sizeof(std::int64_t)) {
      m_in_range = m_in_range && std::in_range<std::int64_t>(value);
    }
    bind_integer(index, static_cast<std::int64_t>(value));
  }
  template <typename T>
  void bind(int index, const std::optional<T>& value) {
    if (value) {
      bind(index, *value);
    } else {
      bind(index, nullptr);
    }
  }
  void check(int status);

  class Connection* m_connection;
  sqlite3_stmt* m_handle;
  bool* m_in_use;         ///< the cache's mark; null: not cached, finalised at the end
  int m_bind_status = 0;  ///< the first binding that failed
  bool m_in_range = true;
};

/// One SQLite connection with its prepared statements. Used by one thread at a time. Errors name
/// the file and say what helps.
class Connection {
 public:
  enum class Mode : std::uint8_t {
    read,       ///< never writes the database; never checkpoints
    immutable,  ///< the file cannot change while it is open: no locks, no helper files
    write,      ///< the one writer and checkpointer
    create,     ///< write, and make the file when it is missing
  };
  [[nodiscard]] static core::Result<std::unique_ptr<Connection>> open(
      const std::filesystem::path& path, Mode mode);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  /// Prepares `sql` (or takes it from the cache) and binds `arguments` to ?1, ?2, …. Text and
  /// digests are copied; a ByteView must stay valid until the run ends.
  template <typename... Arguments>
  [[nodiscard]] core::Result<Statement> query(std::string_view sql, const Arguments&... arguments) {
    TRY_ASSIGN(Statement statement, prepare(sql));
    [[maybe_unused]] int index = 0;
    (statement.bind(++index, arguments), ...);
    return statement;
  }
  /// Runs a statement that answers nothing.
  template <typename... Arguments>
  [[nodiscard]] core::Result<void> run(std::string_view sql, const Arguments&... arguments) {
    TRY_ASSIGN(Statement statement, query(sql, arguments...));
    return statement.run();
  }
  /// The first column of the first row; none without a row.
  template <typename... Arguments>
  [[nodiscard]] core::Result<std::optional<std::int64_t>> find_integer(
      std::string_view sql, const Arguments&... arguments) {
    TRY_ASSIGN(Statement statement, query(sql, arguments...));
    TRY_ASSIGN(const bool row, statement.step());
    if (!row) {
      return std::nullopt;
    }
    return statement.integer(0);
  }
  /// Runs a script of several statements, without the cache.
  [[nodiscard]] core::Result<void> execute_script(const std::string& sql);

  /// Checkpoints and cuts the write-ahead log as far as is possible without waiting for readers.
  [[nodiscard]] core::Result<void> checkpoint();

  [[nodiscard]] std::int64_t last_insert_id() const;
  /// Rows the last statement inserted, updated or deleted.
  [[nodiscard]] std::int64_t changes() const;
  [[nodiscard]] bool in_transaction() const;

  [[nodiscard]] const std::filesystem::path& path() const { return m_path; }
  [[nodiscard]] sqlite3* handle() const { return m_handle; }
  /// The failure SQLite last reported here.
  [[nodiscard]] core::Error error(int status) const;

  /// Unpacked compression dictionaries used lately, by digest.
  [[nodiscard]] std::map<core::Digest, std::shared_ptr<const core::Bytes>>& dictionaries() {
    return m_dictionaries;
  }

 private:
  explicit Connection(std::filesystem::path path) : m_path(std::move(path)) {}
  [[nodiscard]] core::Result<Statement> prepare(std::string_view sql);

  struct Prepared {
    sqlite3_stmt* handle = nullptr;
    bool in_use = false;
  };
  std::filesystem::path m_path;
  sqlite3* m_handle = nullptr;
  std::unordered_map<std::string, Prepared> m_prepared;
  std::map<core::Digest, std::shared_ptr<const core::Bytes>> m_dictionaries;
};

/// The Error for an SQLite status on `path`; `system_errno` tells a full disk from other I/O
/// failures.
[[nodiscard]] core::Error sqlite_error(int status, int system_errno, std::string_view detail,
                                       const std::filesystem::path& path);

}  // namespace cubinary::store
