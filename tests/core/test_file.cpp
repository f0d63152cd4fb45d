// SPDX-License-Identifier: Apache-2.0
#include <cerrno>

#include <catch2/catch_test_macros.hpp>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/file.hpp"

using namespace cubinary::core;
namespace fs = std::filesystem;

namespace {

struct Folder {
  Folder() {
    std::string name = (fs::temp_directory_path() / "cubinary-file-XXXXXX").string();
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    path = name;
  }
  ~Folder() { fs::remove_all(path); }
  [[nodiscard]] std::size_t entries() const {
    return static_cast<std::size_t>(
        std::distance(fs::directory_iterator(path), fs::directory_iterator()));
  }
  fs::path path;
};

}  // namespace

TEST_CASE("a file is written whole, replaced whole and read whole") {
  const Folder folder;
  const fs::path file = folder.path / "a" / "b" / "file";
  REQUIRE(write_file_atomic(file, as_bytes("first")));
  REQUIRE(write_file_atomic(file, as_bytes("second, longer"), 0600));
  CHECK(read_text_file(file, 14).value() == "second, longer");
  CHECK(as_text(read_file(file, 14).value()) == "second, longer");
  struct stat info{};
  REQUIRE(::stat(file.c_str(), &info) == 0);
  CHECK((info.st_mode & 0777U) == 0600U);
  // Nothing is left beside it.
  CHECK(std::distance(fs::directory_iterator(file.parent_path()), fs::directory_iterator()) == 1);

  REQUIRE(write_file_atomic(file, {}));
  CHECK(read_text_file(file, 0).value().empty());
}

TEST_CASE("a bound on the size refuses, it does not cut") {
  const Folder folder;
  REQUIRE(write_file_atomic(folder.path / "f", as_bytes("12345")));
  const auto read = read_file(folder.path / "f", 4);
  REQUIRE_FALSE(read);
  CHECK(read.error().code == ErrorCode::too_large);
  CHECK(read.error().message.find("5 bytes") != std::string::npos);
}

TEST_CASE("what cannot be read says why") {
  const Folder folder;
  const auto missing = read_file(folder.path / "none", 10);
  REQUIRE_FALSE(missing);
  CHECK(missing.error().code == ErrorCode::not_found);
  CHECK(missing.error().message.find("none") != std::string::npos);
  CHECK_FALSE(read_file(folder.path, 10));

  REQUIRE(::mkfifo((folder.path / "pipe").c_str(), 0600) == 0);
  const auto pipe = read_file(folder.path / "pipe", 10);
  REQUIRE_FALSE(pipe);
  CHECK(pipe.error().message.find("no regular file") != std::string::npos);
}

TEST_CASE("a write that fails leaves the old file and nothing else") {
  const Folder folder;
  // The target is a folder with something in it: the rename fails after all bytes were written.
  REQUIRE(write_file_atomic(folder.path / "target" / "inside", as_bytes("x")));
  CHECK_FALSE(write_file_atomic(folder.path / "target", as_bytes("new")));
  CHECK(fs::is_directory(folder.path / "target"));
  CHECK(folder.entries() == 1);
  // A parent that is a file.
  CHECK_FALSE(write_file_atomic(folder.path / "target" / "inside" / "below", as_bytes("x")));
  CHECK(read_text_file(folder.path / "target" / "inside", 1).value() == "x");
}

TEST_CASE("errno becomes the code that tells the user what to do") {
  CHECK(errno_error("x", ENOSPC).code == ErrorCode::disk_full);
  CHECK(errno_error("x", EDQUOT).code == ErrorCode::disk_full);
  CHECK(errno_error("x", EACCES).code == ErrorCode::permission);
  CHECK(errno_error("x", EROFS).code == ErrorCode::permission);
  CHECK(errno_error("x", ENOENT).code == ErrorCode::not_found);
  CHECK(errno_error("cannot read /y", EIO).code == ErrorCode::io);
  CHECK(errno_error("cannot read /y", EIO).message == "cannot read /y: Input/output error");
}

TEST_CASE("a descriptor is closed once and may change hands") {
  const int fd = ::dup(0);
  REQUIRE(fd >= 0);
  {
    UniqueFd a(fd);
    UniqueFd b = std::move(a);
    CHECK(b.get() == fd);
    CHECK_FALSE(a);
  }
  CHECK(::fcntl(fd, F_GETFD) == -1);
}
