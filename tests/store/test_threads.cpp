// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <thread>
#include <vector>

#include <catch2/catch_test_macros.hpp>

#include "store/maintenance.hpp"
#include "tests/store/scratch.hpp"

namespace cubinary::store {
namespace {

/// Puts artifact `number` and its candidate without Catch2, which only one thread may use.
core::Result<void> put(Store& store, unsigned number) {
  return store.write([&](Writer& writer) -> core::Result<void> {
    TRY_ASSIGN(const PreparedArtifact artifact, prepare_artifact(made_up_cubin(number), nullptr));
    TRY(put_artifact(writer, artifact));
    TRY(put_candidate(writer, made_up_candidate("rmsnorm", number)));
    return {};
  });
}

/// Every candidate a snapshot shows must have its artifact in the same snapshot.
core::Result<unsigned> read_all(const Store& store) {
  TRY_ASSIGN(const Reader reader, store.reader());
  unsigned seen = 0;
  TRY(for_each_candidate(reader, {"rmsnorm", "", {}, false}, false,
                         [&](const Candidate& candidate) -> core::Result<void> {
                           TRY_ASSIGN(const core::Bytes raw,
                                      read_artifact(reader, *candidate.artifact));
                           ++seen;
                           return {};
                         }));
  return seen;
}

TEST_CASE("many readers and writers share a store") {
  constexpr unsigned k_writers = 3;
  constexpr unsigned k_each = 12;
  constexpr unsigned k_readers = 6;
  const Scratch scratch;
  Store store = open_new(scratch / "s.db");
  put_made_up(store, "rmsnorm", 1000);

  std::atomic<unsigned> failures = 0;
  std::atomic<unsigned> writing = k_writers;
  std::vector<std::thread> threads;
  for (unsigned writer = 0; writer < k_writers; ++writer) {
    threads.emplace_back([&, writer] {
      for (unsigned i = 0; i < k_each; ++i) {
        failures += put(store, writer * k_each + i) ? 0 : 1;
      }
      --writing;
    });
  }
  for (unsigned reader = 0; reader < k_readers; ++reader) {
    threads.emplace_back([&] {
      unsigned last = 0;
      do {
        const auto seen = read_all(store);
        failures += seen && *seen >= last ? 0 : 1;
        last = seen.value_or(0);
      } while (writing != 0);
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  CHECK(failures == 0);
  CHECK(must(read_all(store)) == k_writers * k_each + 1);
  CHECK(must(fsck(store)).empty());
}

}  // namespace
}  // namespace cubinary::store
