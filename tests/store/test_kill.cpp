// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <set>
#include <thread>

#include <catch2/catch_test_macros.hpp>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/file.hpp"
#include "store/maintenance.hpp"
#include "tests/store/scratch.hpp"

namespace cubinary::store {
namespace {

using core::ErrorCode;

/// Writes candidates from `first` on for ever, a repack now and then, and says each number on `out`
/// once it was told that it is stored.
[[noreturn]] void write_until_killed(const std::filesystem::path& path, unsigned first, int out) {
  auto store = Store::open(path, {Access::write, true, "kill test"});
  if (!store) {
    _exit(2);
  }
  for (unsigned number = first;; ++number) {
    const auto written = store->write([&](Writer& writer) -> core::Result<void> {
      TRY(put_kernel(writer, made_up_kernel("rmsnorm")));
      TRY_ASSIGN(const Dictionary dictionary,
                 current_dictionary(writer.reader(), "rmsnorm", "sm_90"));
      TRY_ASSIGN(const PreparedArtifact artifact,
                 prepare_artifact(made_up_cubin(number), &dictionary));
      TRY(put_artifact(writer, artifact));
      TRY(put_candidate(writer, made_up_candidate("rmsnorm", number)));
      return {};
    });
    if (!written || write(out, &number, sizeof number) != sizeof number) {
      _exit(3);
    }
    if (number % 16 == 15 && !repack_artifacts(*store, "rmsnorm", "sm_90")) {
      _exit(4);
    }
  }
}

unsigned rounds() {
  const char* text = std::getenv("CUBINARY_KILL_ROUNDS");
  return text == nullptr ? 30 : static_cast<unsigned>(std::strtoul(text, nullptr, 10));
}

TEST_CASE("killed at any moment, the store is good and nothing acknowledged is lost") {
  const Scratch scratch;
  const std::filesystem::path path = scratch / "s.db";
  std::mt19937 random(20261130);
  std::set<unsigned> acknowledged;
  unsigned progress = 0;
  for (unsigned round = 0; round < rounds(); ++round) {
    int ends[2];
    REQUIRE(pipe(ends) == 0);
    core::UniqueFd in(ends[0]);
    const unsigned first = acknowledged.empty() ? 0 : *acknowledged.rbegin() + 1;
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      close(ends[0]);
      write_until_killed(path, first, ends[1]);
    }
    close(ends[1]);
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 120'000));
    REQUIRE(kill(child, SIGKILL) == 0);
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    REQUIRE((WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL));
    unsigned number = 0;
    while (read(in.get(), &number, sizeof number) == sizeof number) {
      acknowledged.insert(number);
      ++progress;
    }

    if (acknowledged.empty()) {
      continue;  // killed before there was a store
    }
    const Store store = must(Store::open(path, {Access::write, true, "check"}));
    REQUIRE(must(fsck(store)).empty());
    const Reader reader = must(store.reader());
    for (const unsigned each : acknowledged) {
      const Candidate candidate = made_up_candidate("rmsnorm", each);
      const auto state = must(find_candidate(reader, candidate.build_key));
      REQUIRE(state);
      REQUIRE(state->status == CandidateStatus::ok);
      REQUIRE(must(has_artifact(reader, *candidate.artifact)));
    }
  }
  CHECK(progress > 0);
  WARN(rounds() << " kills, " << progress << " candidates stored between them, none lost");
}

TEST_CASE("a full disk is said, and the store stays good") {
  const Scratch scratch;
  const std::filesystem::path path = scratch / "s.db";
  {
    Store store = open_new(path);
    put_made_up(store, "rmsnorm", 0);
  }
  // No file of the child may grow beyond this, as on a disk without room.
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{3'000'000, 3'000'000};
    auto store = Store::open(path, {Access::write, false, "full disk test"});
    int status = 2;
    if (store && setrlimit(RLIMIT_FSIZE, &limit) == 0) {
      for (unsigned number = 1; number < 1000; ++number) {
        const auto written = store->write([&](Writer& writer) -> core::Result<void> {
          TRY_ASSIGN(const PreparedArtifact artifact,
                     prepare_artifact(made_up_cubin(number), nullptr));
          TRY(put_artifact(writer, artifact));
          TRY(put_candidate(writer, made_up_candidate("rmsnorm", number)));
          return {};
        });
        if (!written) {
          const bool right = written.error().code == ErrorCode::disk_full &&
                             written.error().message.find("disk is full") != std::string::npos &&
                             number > 10;
          status = right ? 0 : 3;
          if (!right) {
            std::fprintf(stderr, "after %u: %s\n", number, written.error().message.c_str());
          }
          break;
        }
      }
    }
    // Destructors run: closing on a full disk must not harm either.
    store = core::fail(ErrorCode::cancelled, "");
    _exit(status);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  Store store = must(Store::open(path, {Access::write, false, "check"}));
  CHECK(must(fsck(store)).empty());
  const auto before = must(stats(store)).artifacts;
  CHECK(before > 10);
  put_made_up(store, "rmsnorm", 5000);
  CHECK(must(stats(store)).artifacts == before + 1);
}

TEST_CASE("a store that cannot be made leaves no file") {
  const Scratch scratch;
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{20'000, 20'000};
    int status = 2;
    if (setrlimit(RLIMIT_FSIZE, &limit) == 0) {
      const auto store = Store::open(scratch / "s.db", {Access::write, true, "full disk test"});
      status = !store && store.error().code == ErrorCode::disk_full ? 0 : 3;
    }
    _exit(status);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  CHECK_FALSE(std::filesystem::exists(scratch / "s.db"));
  CHECK_FALSE(std::filesystem::exists(scratch / "s.db-wal"));
}

}  // namespace
}  // namespace cubinary::store
