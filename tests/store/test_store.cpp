// SPDX-License-Identifier: Apache-2.0
#include <fstream>

#include <catch2/catch_test_macros.hpp>
#include <sqlite3.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/file.hpp"
#include "store/connection.hpp"
#include "store/file_system.hpp"
#include "store/maintenance.hpp"
#include "store/migrations.hpp"
#include "store/store.hpp"
#include "tests/store/scratch.hpp"

namespace cubinary::store {
namespace {

using core::ErrorCode;
namespace fs = std::filesystem;

const OpenOptions k_write{Access::write, false, "test"};
const OpenOptions k_create{Access::write, true, "test"};

void write_text(const fs::path& path, std::string_view text) {
  std::ofstream(path, std::ios::binary) << text;
}

void run_sql(const fs::path& path, const char* sql) {
  sqlite3* handle = nullptr;
  REQUIRE(sqlite3_open(path.c_str(), &handle) == SQLITE_OK);
  REQUIRE(sqlite3_exec(handle, sql, nullptr, nullptr, nullptr) == SQLITE_OK);
  sqlite3_close(handle);
}

std::size_t files_in(const fs::path& folder) {
  return static_cast<std::size_t>(
      std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

TEST_CASE("a new store opens again, for reading and for writing") {
  const Scratch scratch;
  {
    Store store = open_new(scratch / "s.db");
    CHECK(store.writable());
    CHECK(store.path() == fs::canonical(scratch / "s.db"));
    put_made_up(store, "rmsnorm", 1);
  }
  CHECK_FALSE(fs::exists(scratch / "s.db-wal"));
  const Store reading = open_read(scratch / "s.db");
  CHECK_FALSE(reading.writable());
  CHECK(must(stats(reading)).artifacts == 1);
  const Store writing = must(Store::open(scratch / "s.db", k_write));
  CHECK(must(stats(writing)).candidates_ok == 1);
}

TEST_CASE("pragmas and header are what the format says") {
  const Scratch scratch;
  const Store store = open_new(scratch / "s.db");
  const Reader reader = must(store.reader());
  Connection& connection = reader.connection();
  CHECK(must(connection.find_integer("PRAGMA application_id")) == 0x43554249);
  CHECK(must(connection.find_integer("PRAGMA user_version")) ==
        static_cast<std::int64_t>(migrations().size()));
  CHECK(must(connection.find_integer("PRAGMA foreign_keys")) == 1);
  CHECK(must(connection.find_integer("PRAGMA trusted_schema")) == 0);
  CHECK(must(connection.find_integer("PRAGMA auto_vacuum")) == 2);
  CHECK(must(connection.find_integer("SELECT count(*) FROM pragma_table_list WHERE strict = 0 AND "
                                     "name NOT LIKE 'sqlite_%'")) == 0);
  Statement mode = must(connection.query("PRAGMA journal_mode"));
  REQUIRE(must(mode.step()));
  CHECK(mode.text(0) == "wal");
}

TEST_CASE("what is no store is refused by kind, and nothing is left beside it") {
  const Scratch scratch;
  const fs::path path = scratch / "x.db";
  ErrorCode wanted = ErrorCode::not_a_store;
  std::string says;
  SECTION("text") {
    write_text(path, std::string(5000, 'x'));
    says = "no Cubinary store";
  }
  SECTION("a short text") {
    write_text(path, "hello");
    says = "no Cubinary store";
  }
  SECTION("another application's database") {
    run_sql(path, "CREATE TABLE t (a); PRAGMA application_id = 7");
    says = "another application";
  }
  SECTION("a database without an application id") {
    run_sql(path, "CREATE TABLE t (a)");
    says = "another application";
  }
  SECTION("a folder") {
    fs::create_directory(path);
    says = "no regular file";
  }
  SECTION("a header cut short") {
    write_text(path, std::string_view("SQLite format 3\0abc", 19));
    wanted = ErrorCode::corrupt;
    says = "cut off after 19 bytes";
  }
  const std::size_t before = files_in(scratch.path());
  for (const OpenOptions& options : {OpenOptions{}, k_write, k_create}) {
    const auto opened = Store::open(path, options);
    CHECK(code_of(opened) == wanted);
    CHECK(opened.error().message.find(says) != std::string::npos);
    CHECK(opened.error().message.find("x.db") != std::string::npos);
  }
  // The database without an id can only be told from ours by SQLite, under the lock.
  CHECK(files_in(scratch.path()) - before <= (says == "another application" ? 1 : 0));
}

TEST_CASE("a missing store is not found unless it may be made") {
  const Scratch scratch;
  CHECK(code_of(Store::open(scratch / "s.db", {})) == ErrorCode::not_found);
  CHECK(code_of(Store::open(scratch / "s.db", k_write)) == ErrorCode::not_found);
  CHECK(code_of(Store::open(scratch / "no/s.db", k_create)) == ErrorCode::not_found);
  CHECK(files_in(scratch.path()) == 0);
}

TEST_CASE("an empty file is no store, but one may be made in it") {
  const Scratch scratch;
  write_text(scratch / "s.db", "");
  CHECK(code_of(Store::open(scratch / "s.db", {})) == ErrorCode::not_a_store);
  CHECK(code_of(Store::open(scratch / "s.db", k_write)) == ErrorCode::not_a_store);
  CHECK(must(stats(open_new(scratch / "s.db"))).kernels == 0);
}

TEST_CASE("a store whose making was interrupted is finished by the next") {
  const Scratch scratch;
  run_sql(scratch / "s.db", "PRAGMA page_size = 4096; PRAGMA journal_mode = WAL; VACUUM");
  CHECK(code_of(Store::open(scratch / "s.db", {})) == ErrorCode::not_a_store);
  CHECK(code_of(Store::open(scratch / "s.db", k_write)) == ErrorCode::not_a_store);
  CHECK(must(stats(open_new(scratch / "s.db"))).kernels == 0);
}

TEST_CASE("a newer format names both versions") {
  const Scratch scratch;
  open_new(scratch / "s.db");
  run_sql(scratch / "s.db", "PRAGMA user_version = 99");
  for (const OpenOptions& options : {OpenOptions{}, k_write, k_create}) {
    const auto opened = Store::open(scratch / "s.db", options);
    CHECK(code_of(opened) == ErrorCode::newer_format);
    CHECK(opened.error().message.find("format 99") != std::string::npos);
    CHECK(opened.error().message.find("up to " + std::to_string(migrations().size())) !=
          std::string::npos);
  }
}

TEST_CASE("a truncated store is corrupt") {
  const Scratch scratch;
  {
    Store store = open_new(scratch / "s.db");
    put_made_up(store, "rmsnorm", 1);
  }
  fs::resize_file(scratch / "s.db", fs::file_size(scratch / "s.db") / 2);
  CHECK(code_of(Store::open(scratch / "s.db", {})) == ErrorCode::corrupt);
  CHECK(code_of(Store::open(scratch / "s.db", k_write)) == ErrorCode::corrupt);
}

TEST_CASE("a second owner is told who the first is") {
  const Scratch scratch;
  {
    const Store first =
        must(Store::open(scratch / "s.db", {Access::write, true, "cubinary serve"}));
    const auto second = Store::open(scratch / "s.db", k_write);
    CHECK(code_of(second) == ErrorCode::busy);
    CHECK(second.error().message.find("process " + std::to_string(getpid()) +
                                      " (cubinary serve)") != std::string::npos);
    CHECK(second.error().message.find("--server") != std::string::npos);
    fs::create_symlink(scratch / "s.db", scratch / "link.db");
    CHECK(code_of(Store::open(scratch / "link.db", k_write)) == ErrorCode::busy);
    CHECK(must(stats(open_read(scratch / "s.db"))).kernels == 0);
  }
  CHECK(must(Store::open(scratch / "s.db", k_write)).writable());
}

TEST_CASE("a lock file left by a dead process is not in the way") {
  const Scratch scratch;
  open_new(scratch / "s.db");
  write_text(scratch / "s.db.lock", "1\ncubinary serve\n");
  CHECK(must(Store::open(scratch / "s.db", k_write)).writable());
}

TEST_CASE("a failing and a throwing body leave nothing behind") {
  const Scratch scratch;
  Store store = open_new(scratch / "s.db");
  const auto failed = store.write([&](Writer& writer) -> core::Result<void> {
    TRY(put_kernel(writer, made_up_kernel("a")));
    return core::fail(ErrorCode::cancelled, "enough");
  });
  CHECK(code_of(failed) == ErrorCode::cancelled);
  const auto throwing = [&](Writer& writer) -> core::Result<void> {
    TRY(put_kernel(writer, made_up_kernel("b")));
    throw std::runtime_error("bug");
  };
  CHECK_THROWS_AS(store.write(throwing), std::runtime_error);
  CHECK(must(stats(store)).kernels == 0);
  put_made_up(store, "c", 1);
  CHECK(must(list_kernels(must(store.reader()))).at(0).name == "c");
}

TEST_CASE("a write inside a write and a write to a reading store are refused") {
  const Scratch scratch;
  {
    Store store = open_new(scratch / "s.db");
    ErrorCode inner = ErrorCode::io;
    must(store.write([&](Writer&) -> core::Result<void> {
      inner = code_of(store.write([](Writer&) { return core::Result<void>(); }));
      return {};
    }));
    CHECK(inner == ErrorCode::internal);
  }
  Store reading = open_read(scratch / "s.db");
  CHECK(code_of(reading.write([](Writer&) { return core::Result<void>(); })) ==
        ErrorCode::permission);
}

TEST_CASE("a reader keeps its snapshot; a writer's reader sees its own changes") {
  const Scratch scratch;
  Store store = open_new(scratch / "s.db");
  put_made_up(store, "a", 1);
  const Reader old = must(store.reader());
  CHECK(must(list_kernels(old)).size() == 1);
  must(store.write([&](Writer& writer) -> core::Result<void> {
    TRY(put_kernel(writer, made_up_kernel("b")));
    CHECK(must(list_kernels(writer.reader())).size() == 2);
    CHECK(must(list_kernels(must(store.reader()))).size() == 1);
    return {};
  }));
  CHECK(must(list_kernels(old)).size() == 1);
  CHECK(must(list_kernels(must(store.reader()))).size() == 2);
}

TEST_CASE("reading works in a folder where nothing may be written, and writes nothing") {
  if (geteuid() != 0) {
    SKIP("needs root, to become somebody who may not write");
  }
  const Scratch scratch;
  {
    Store store = open_new(scratch / "s.db");
    put_made_up(store, "rmsnorm", 1);
  }
  fs::remove(scratch / "s.db.lock");
  fs::permissions(scratch.path(),
                  fs::perms::owner_all | fs::perms::others_read | fs::perms::others_exec);
  const pid_t child = fork();
  if (child == 0) {
    int status = 1;
    if (setgid(65534) == 0 && setuid(65534) == 0) {
      const auto store = Store::open(scratch / "s.db", {});
      const auto found = store ? stats(*store) : core::fail(store.error());
      const auto refused = Store::open(scratch / "s.db", k_write);
      const bool right = found && found->artifacts == 1 && !refused &&
                         refused.error().code == ErrorCode::permission;
      status = right ? 0 : 2;
    }
    _exit(status);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  CHECK(files_in(scratch.path()) == 1);
}

TEST_CASE("network file systems are known by their magic") {
  CHECK(network_file_system(0x6969) == "NFS");
  CHECK(network_file_system(0xFF534D42) == "CIFS");
  CHECK(network_file_system(static_cast<std::int32_t>(0xFE534D42)) == "SMB");
  CHECK_FALSE(network_file_system(0xEF53));      // ext4
  CHECK_FALSE(network_file_system(0x01021994));  // tmpfs
  CHECK(refuse_network_file_system("/"));
}

TEST_CASE("SQLite's failures become ours") {
  const auto code = [](int status, int system_errno = 0) {
    return sqlite_error(status, system_errno, "x", "s.db").code;
  };
  CHECK(code(SQLITE_FULL) == ErrorCode::disk_full);
  CHECK(code(SQLITE_IOERR_WRITE, ENOSPC) == ErrorCode::disk_full);
  CHECK(code(SQLITE_IOERR_WRITE, EDQUOT) == ErrorCode::disk_full);
  CHECK(code(SQLITE_IOERR_FSYNC, EIO) == ErrorCode::io);
  CHECK(code(SQLITE_NOTADB) == ErrorCode::not_a_store);
  CHECK(code(SQLITE_CORRUPT_INDEX) == ErrorCode::corrupt);
  CHECK(code(SQLITE_BUSY_SNAPSHOT) == ErrorCode::busy);
  CHECK(code(SQLITE_READONLY_DIRECTORY) == ErrorCode::permission);
  CHECK(code(SQLITE_CANTOPEN, ENOENT) == ErrorCode::not_found);
  CHECK(code(SQLITE_CONSTRAINT_FOREIGNKEY) == ErrorCode::not_found);
}

}  // namespace
}  // namespace cubinary::store
