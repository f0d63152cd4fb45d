// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <atomic>
#include <fstream>
#include <thread>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/cache.hpp"
#include "tests/scratch.hpp"

using namespace cubinary;
using client::Cache;
namespace fs = std::filesystem;

namespace {

struct Warnings {
  std::vector<std::string> lines;
  client::Log log() {
    return [this](const std::string& line) { lines.push_back(line); };
  }
};

void flip_a_byte(const fs::path& path) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  char byte = 0;
  file.get(byte);
  file.seekp(0);
  file.put(static_cast<char>(byte ^ 1));
}

}  // namespace

TEST_CASE("what is put is found, by another process too") {
  const test::Scratch scratch;
  const auto bytes = core::to_bytes("some code");
  const auto digest = core::sha256(bytes);
  Cache cache({.directory = scratch.path(), .log = {}});
  CHECK_FALSE(cache.find(Cache::Kind::artifact, digest, 100).has_value());
  cache.put(Cache::Kind::artifact, digest, bytes);
  CHECK(cache.has(Cache::Kind::artifact, digest));
  REQUIRE(cache.flush());
  Cache other({.directory = scratch.path(), .log = {}});
  CHECK(other.find(Cache::Kind::artifact, digest, 100) == bytes);
  CHECK_FALSE(other.has(Cache::Kind::blob, digest));
  CHECK(fs::exists(scratch.path() / "v1" / "artifacts" / "sha256" / digest.hex()));
}

TEST_CASE("a damaged entry is moved away, counts as missing and can be put again") {
  const test::Scratch scratch;
  Warnings warnings;
  const auto bytes = core::to_bytes("some code");
  const auto digest = core::sha256(bytes);
  Cache cache({.directory = scratch.path(), .log = warnings.log()});
  const auto path = scratch.path() / "v1" / "artifacts" / "sha256" / digest.hex();
  for (int round = 0; round < 40; ++round) {
    cache.put(Cache::Kind::artifact, digest, bytes);
    REQUIRE(cache.flush());
    flip_a_byte(path);
    CHECK_FALSE(cache.find(Cache::Kind::artifact, digest, 100).has_value());
    CHECK_FALSE(fs::exists(path));
  }
  cache.put(Cache::Kind::artifact, digest, bytes);
  CHECK(cache.find(Cache::Kind::artifact, digest, 100) == bytes);
  CHECK(warnings.lines.size() == 40);
  CHECK(warnings.lines[0].find(path.string()) != std::string::npos);
  const auto kept = std::distance(fs::directory_iterator(scratch.path() / "v1" / "quarantine"),
                                  fs::directory_iterator());
  CHECK(kept >= 1);
  CHECK(kept <= 16);
}

TEST_CASE("a truncated and a swollen entry count as missing") {
  const test::Scratch scratch;
  const auto bytes = core::to_bytes("some code");
  const auto digest = core::sha256(bytes);
  Cache cache({.directory = scratch.path(), .log = {}});
  const auto path = scratch.path() / "v1" / "artifacts" / "sha256" / digest.hex();
  cache.put(Cache::Kind::artifact, digest, bytes);
  REQUIRE(cache.flush());
  fs::resize_file(path, 3);
  CHECK_FALSE(cache.find(Cache::Kind::artifact, digest, 100).has_value());
  cache.put(Cache::Kind::artifact, digest, bytes);
  REQUIRE(cache.flush());
  fs::resize_file(path, 1000);
  CHECK_FALSE(cache.find(Cache::Kind::artifact, digest, 100).has_value());
  CHECK_FALSE(fs::exists(path));
}

TEST_CASE("a folder that cannot be made means memory and one warning") {
  const test::Scratch scratch;
  std::ofstream(scratch / "file").put('x');
  Warnings warnings;
  Cache cache({.directory = scratch / "file", .log = warnings.log()});
  const auto bytes = core::to_bytes("some code");
  const auto digest = core::sha256(bytes);
  for (int i = 0; i < 3; ++i) {
    cache.put(Cache::Kind::artifact, digest, bytes);
    cache.put_record("name", "text");
    CHECK(cache.flush().has_value() == (i != 0));
  }
  CHECK(cache.find(Cache::Kind::artifact, digest, 100) == bytes);
  CHECK(cache.find_record("name") == "text");
  CHECK_FALSE(cache.lock(digest, client::deadline_after(0.1)));
  REQUIRE(warnings.lines.size() == 1);
  CHECK(warnings.lines[0].find("CUBINARY_CACHE") != std::string::npos);
}

TEST_CASE("a lock that is let go after the writes shows the next holder all of them") {
  const test::Scratch scratch;
  Cache writer({.directory = scratch.path(), .durable = true});
  Cache reader({.directory = scratch.path()});
  const auto name = core::sha256("pack");
  std::vector<core::Digest> digests;
  auto lock = writer.lock(name, client::deadline_after(1));
  REQUIRE(lock);
  for (int i = 0; i < 50; ++i) {
    const auto bytes = core::to_bytes("code " + std::to_string(i));
    digests.push_back(core::sha256(bytes));
    writer.put(Cache::Kind::artifact, digests.back(), bytes);
  }
  writer.put_record("name", "text");
  writer.unlock_after_writes(std::move(lock));
  REQUIRE(reader.lock(name, client::deadline_after(30)));
  for (const auto& digest : digests) {
    CHECK(reader.find(Cache::Kind::artifact, digest, 100).has_value());
  }
  CHECK(reader.find_record("name") == "text");
}

TEST_CASE("temporaries that a killed process left are removed once they are old") {
  const test::Scratch scratch;
  const fs::path folder = scratch.path() / "v1" / "artifacts" / "sha256";
  fs::create_directories(folder);
  const fs::path old = folder / (core::sha256("a").hex() + ".tmp-1-0");
  const fs::path young = folder / (core::sha256("b").hex() + ".tmp-2-0");
  std::ofstream(old).put('x');
  std::ofstream(young).put('x');
  const timespec times[2] = {{1'000'000, 0}, {1'000'000, 0}};
  REQUIRE(::utimensat(AT_FDCWD, old.c_str(), times, 0) == 0);
  // More than what may pass between two looks at the folder.
  Cache cache({.directory = scratch.path(), .limit = 100'000});
  const std::string bytes(7000, 'c');
  cache.put(Cache::Kind::artifact, core::sha256(bytes), core::to_bytes(bytes));
  REQUIRE(cache.flush());
  CHECK_FALSE(fs::exists(old));
  CHECK(fs::exists(young));
}

TEST_CASE("memory is bounded") {
  Cache cache({.directory = {}, .memory_limit = 100, .log = {}});
  std::vector<core::Digest> digests;
  for (int i = 0; i < 10; ++i) {
    const auto bytes = core::to_bytes(std::string(30, static_cast<char>('a' + i)));
    digests.push_back(core::sha256(bytes));
    cache.put(Cache::Kind::artifact, digests.back(), bytes);
  }
  const auto held = std::count_if(digests.begin(), digests.end(), [&](const core::Digest& digest) {
    return cache.has(Cache::Kind::artifact, digest);
  });
  CHECK(held >= 1);
  CHECK(held <= 3);
  CHECK(cache.has(Cache::Kind::artifact, digests.back()));
  Cache none({.directory = {}, .memory_limit = 0, .log = {}});
  none.put(Cache::Kind::artifact, digests[0], core::to_bytes(std::string(30, 'a')));
  CHECK_FALSE(none.has(Cache::Kind::artifact, digests[0]));
}

TEST_CASE("the folder is bounded: what was used longest ago goes first") {
  const test::Scratch scratch;
  Cache cache({.directory = scratch.path(), .limit = 10'000, .log = {}});
  std::vector<core::Digest> digests;
  for (int i = 0; i < 40; ++i) {
    const auto bytes = core::to_bytes(std::string(1000, static_cast<char>('!' + i)));
    digests.push_back(core::sha256(bytes));
    cache.put(Cache::Kind::artifact, digests.back(), bytes);
    REQUIRE(cache.flush());
    // Times of entries made in one tick would not order them.
    const timespec times[2] = {{1'000'000 + i, 0}, {1'000'000 + i, 0}};
    const auto path = scratch.path() / "v1" / "artifacts" / "sha256" / digests.back().hex();
    REQUIRE(::utimensat(AT_FDCWD, path.c_str(), times, 0) == 0);
  }
  const auto held = std::count_if(digests.begin(), digests.end(), [&](const core::Digest& digest) {
    return cache.has(Cache::Kind::artifact, digest);
  });
  CHECK(held >= 9);
  CHECK(held <= 11);
  CHECK(cache.has(Cache::Kind::artifact, digests[38]));
  CHECK_FALSE(cache.has(Cache::Kind::artifact, digests[0]));
}

TEST_CASE("a lock is one holder's, and waiting for it ends with the deadline") {
  const test::Scratch scratch;
  Cache cache({.directory = scratch.path(), .log = {}});
  const auto digest = core::sha256("x");
  std::atomic<int> inside = 0;
  std::atomic<int> most = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 5; ++round) {
        const auto lock = cache.lock(digest, client::deadline_after(30));
        const int now = ++inside;
        most = std::max(most.load(), now);
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        --inside;
      }
    });
  }
  for (auto& thread : threads) {
    thread.join();
  }
  CHECK(most == 1);

  const auto held = cache.lock(digest, client::deadline_after(1));
  REQUIRE(held);
  CHECK_FALSE(cache.lock(digest, client::deadline_after(0.02)));
  CHECK(cache.lock(core::sha256("y"), client::deadline_after(1)));
}
