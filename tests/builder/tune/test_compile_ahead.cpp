// SPDX-License-Identifier: Apache-2.0
#include <fstream>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "builder/tune/compile_ahead.hpp"
#include "store/candidates.hpp"
#include "tests/builder/tune/tune_fixture.hpp"

namespace cubinary::tests {
namespace {

using Catch::Matchers::ContainsSubstring;
using store::CandidateStatus;

const char* const k_source = R"cu(
template <typename T, int V>
__global__ void scale(T* y, const T* x, long long n) {
  static_assert(V != 3, "three is out");
  const long long i = blockIdx.x * 256LL + threadIdx.x;
  if (i < n) y[i] = 2 * x[i] + 0 * V;
}
template <typename T>
__global__ void scale_ref(T* y, const T* x, long long n) {
  const long long i = blockIdx.x * 256LL + threadIdx.x;
  if (i < n) y[i] = 2 * x[i];
}
)cu";

/// A folder with a kernel of so many candidates, an empty store, a real compiler and a device that
/// is none: V = 6 is the fastest, V = 3 does not compile.
struct Workshop {
  store::Scratch scratch;
  store::Store store = store::open_new(scratch / "s.db");
  builder::CompileAheadOptions options;

  explicit Workshop(std::size_t values) {
    std::filesystem::create_directory(scratch / "scale");
    std::ofstream(scratch / "scale" / "scale.cu") << k_source;
    std::ofstream(scratch / "scale" / "kernel.toml") << tuned_manifest(values);
    options.folders = {scratch / "scale"};
    options.worker.command = {CUBINARY_FAKE_WORKER, "worker"};
    options.worker.memory_limit = 0;  // a sanitizer reserves more than any machine has
    options.jobs = 2;
  }
  builder::TuneSummary tune(bool compile, Recorder& recorder,
                            builder::TuneOptions tuning = quick_options()) {
    const auto ledger = must(builder::make_store_ledger(store));
    std::unique_ptr<builder::CompileAhead> ahead;
    if (compile) {
      ahead = must(builder::CompileAhead::make(store, options));
      tuning.compile = ahead.get();
    }
    tuning.budget = std::chrono::minutes(2);
    return must(builder::tune(*ledger, tuning, recorder));
  }
  [[nodiscard]] std::size_t current(CandidateStatus status) const {
    std::size_t count = 0;
    must(store::for_each_candidate(must(store.reader()), {}, false,
                                   [&](const store::Candidate& candidate) -> core::Result<void> {
                                     count += candidate.status == status ? 1 : 0;
                                     return {};
                                   }));
    return count;
  }
  [[nodiscard]] core::Config winner() const {
    const auto winners = must(store::winners(must(store.reader()), "scale", "sm_90"));
    return winners.empty() ? core::Config{} : winners.front().config;
  }
};

bool no_toolkit() {
  return !builder::find_toolkit(core::Backend::nvrtc, {}).has_value();
}

}  // namespace

TEST_CASE("a search gets what it asks for compiled, and what does not compile is a failure") {
  if (no_toolkit()) {
    SKIP("no CUDA toolkit to compile with");
  }
  Workshop shop(9);
  Recorder first;
  auto summary = shop.tune(true, first);
  CHECK(summary.tuned == 1);
  CHECK(summary.measured == 8);
  CHECK(summary.statuses[0] == 8);
  CHECK(summary.compiled.compiled == 10);  // with the reference
  CHECK(summary.compiled.failed == 1);
  REQUIRE(first.notes.size() == 1);
  CHECK_THAT(first.notes[0], ContainsSubstring("V=3: does not compile"));
  CHECK_THAT(first.notes[0], ContainsSubstring("three is out"));
  CHECK(shop.winner() == core::Config{{"V", std::int64_t{6}}});
  CHECK(shop.current(CandidateStatus::ok) == 9);
  CHECK(shop.current(CandidateStatus::failed) == 1);
  REQUIRE(first.tunings.size() == 1);
  CHECK(first.tunings[0].configs == 8);
  CHECK(first.tunings[0].complete);

  // Known, to tuners with and without a compiler.
  for (const bool compile : {true, false}) {
    Recorder again;
    summary = shop.tune(compile, again);
    CHECK(summary.known == 1);
    CHECK(summary.measured == 0);
    CHECK(summary.compiled.compiled == 0);
  }
}

TEST_CASE("only what the search asks for is compiled, and what a release needs") {
  if (no_toolkit()) {
    SKIP("no CUDA toolkit to compile with");
  }
  constexpr std::size_t k_values = 120;
  Workshop shop(k_values);
  Recorder recorder;
  builder::TuneOptions tuning = quick_options();
  tuning.whole = 60;
  const auto summary = shop.tune(true, recorder, tuning);
  CHECK(summary.tuned == 1);
  CHECK(summary.complete == 1);
  CHECK(summary.compiled.compiled < k_values);
  CHECK(shop.winner() == core::Config{{"V", std::int64_t{6}}});
  // The search saw the whole space, so its answer holds for the part of it that was compiled.
  REQUIRE(recorder.tunings.size() == 1);
  CHECK(recorder.tunings[0].configs >= k_values - 1);
  Recorder again;
  CHECK(shop.tune(false, again).known == 1);
  // The default is V = 0: a release can be made.
  bool found = false;
  must(store::for_each_candidate(must(shop.store.reader()), {}, false,
                                 [&](const store::Candidate& candidate) -> core::Result<void> {
                                   found = found || (candidate.config ==
                                                         core::Config{{"V", std::int64_t{0}}} &&
                                                     candidate.artifact.has_value());
                                   return {};
                                 }));
  CHECK(found);
}

TEST_CASE("a small space is compiled and measured whole") {
  if (no_toolkit()) {
    SKIP("no CUDA toolkit to compile with");
  }
  Workshop shop(120);
  Recorder recorder;
  const auto summary = shop.tune(true, recorder);
  CHECK(summary.complete == 1);
  CHECK(summary.compiled.compiled == 121);  // with the reference
  CHECK(summary.measured == 119);           // V = 3 does not compile
  CHECK(shop.winner() == core::Config{{"V", std::int64_t{6}}});
}

TEST_CASE("a compiler that cannot work at all ends the tune, and says so") {
  Workshop shop(2);
  if (no_toolkit()) {
    SKIP("no CUDA toolkit to compile with");
  }
  auto ahead = must(builder::CompileAhead::make(shop.store, shop.options));
  builder::TuneOptions tuning = quick_options();
  shop.options.worker.command = {"/bin/false"};
  ahead = must(builder::CompileAhead::make(shop.store, shop.options));
  tuning.compile = ahead.get();
  const auto ledger = must(builder::make_store_ledger(shop.store));
  Recorder recorder;
  const auto summary = builder::tune(*ledger, tuning, recorder);
  // Every candidate crashes its compiler: the reference too, so that nothing can be checked.
  REQUIRE(summary.has_value());
  CHECK(summary->failed == 1);
  REQUIRE_FALSE(recorder.notes.empty());
  CHECK_THAT(recorder.notes[0], ContainsSubstring("its reference kernel is not in the store"));
}

}  // namespace cubinary::tests
