// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "core/base/result.hpp"

namespace cubinary::store {

class Connection;

/// A snapshot-reading lease on one connection: from its first read on it sees the store as it was
/// then. Movable, used by one thread at a time, given back to the Store's pool when destroyed; must
/// not outlive its Store. Take one a job and let it go: an old snapshot keeps the write-ahead log
/// from being cut. Every read function takes a Reader.
class Reader {
 public:
  Reader(Reader&&) noexcept;
  Reader& operator=(Reader&&) noexcept;
  ~Reader();
  [[nodiscard]] Connection& connection() const { return *m_connection; }

 protected:
  friend class Store;
  struct Pool;
  Reader(std::shared_ptr<Pool> pool, std::unique_ptr<Connection> connection);

 private:
  std::shared_ptr<Pool> m_pool;
  std::unique_ptr<Connection> m_connection;
};

/// The right to change the store, alive inside Store::write only. Every write function takes a
/// Writer; read functions have overloads through `reader()` that see the transaction's own changes.
class Writer {
 public:
  [[nodiscard]] Connection& connection() const { return *m_connection; }
  [[nodiscard]] const Reader& reader() const { return *m_reader; }

 private:
  friend class Store;
  explicit Writer(Reader& reader) : m_reader(&reader), m_connection(&reader.connection()) {}
  Reader* m_reader;
  Connection* m_connection;
};

enum class Access : std::uint8_t {
  /// No owner lock, and the store is never changed; the file must exist. In a writable folder
  /// SQLite may
  /// make its empty `-wal` and `-shm` helpers beside it; a read-only folder works too, unless a
  /// crashed
  /// writer left changes in a `-wal` there.
  read,
  write,  ///< takes the owner lock (`<store>.lock`); migrates an older store
};

struct OpenOptions {
  Access access = Access::read;
  bool create = false;  ///< with write: make the file when it is missing
  std::string purpose;  ///< who opens it ("cubinary build"), told to whoever finds it owned
};

/// One SQLite file that holds every candidate, artifact, measurement and release.
///
/// Exactly one process owns a store for writing; the lock file beside it says who. Within the
/// process any thread may call write (serialised) and reader (concurrent). All checkpoints happen
/// on the one writing connection.
///
/// Errors of open: `not_found`; `not_a_store`; `newer_format` (names the version that is needed);
/// `busy` (names the owner's pid and purpose, and `--server`); `unsupported` for a network file
/// system; `corrupt`, `disk_full`, `permission`.
class Store {
 public:
  [[nodiscard]] static core::Result<Store> open(const std::filesystem::path& path,
                                                const OpenOptions& options);
  Store(Store&&) noexcept;
  Store& operator=(Store&&) noexcept;
  ~Store();

  [[nodiscard]] const std::filesystem::path& path() const;
  [[nodiscard]] bool writable() const;

  [[nodiscard]] core::Result<Reader> reader() const;

  /// Runs `body` in one immediate transaction with synchronous=FULL: when this returns success,
  /// what the body did survives kill -9 and power loss. A failing body, a throwing one and a full
  /// disk roll back. Not to be nested. `permission` on a store opened for reading.
  [[nodiscard]] core::Result<void> write(const std::function<core::Result<void>(Writer&)>& body);

  /// Moves the write-ahead log into the file and cuts it, as far as readers' snapshots allow;
  /// closing does the same. `permission` on a store opened for reading.
  [[nodiscard]] core::Result<void> checkpoint();

 private:
  struct Impl;
  explicit Store(std::unique_ptr<Impl> impl);
  [[nodiscard]] core::Result<void> open_writer(bool create);
  std::unique_ptr<Impl> m_impl;
};

}  // namespace cubinary::store
