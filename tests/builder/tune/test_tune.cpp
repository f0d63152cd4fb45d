// SPDX-License-Identifier: Apache-2.0
#include <csignal>
#include <thread>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <sys/eventfd.h>
#include <sys/wait.h>

#include "builder/tune/gpu_lock.hpp"
#include "tests/builder/tune/tune_fixture.hpp"

namespace cubinary::tests {
namespace {

using Catch::Matchers::ContainsSubstring;
using store::MeasurementStatus;

builder::TuneSummary run(TuneFixture& f, const builder::TuneOptions& options, Recorder& recorder) {
  const auto ledger = must(builder::make_store_ledger(f.store));
  return must(builder::tune(*ledger, options, recorder));
}

TEST_CASE("the fastest right candidate wins; each bad one costs itself") {
  TuneFixture f({"us=40", "us=20 near", "us=1 wrong", "us=1 crash", "us=1 hang", "us=1 garbage",
                 "us=1 fault", "us=1 exit", "us=1 truncate", "us=1 invalid", "us=1 sample-crash",
                 "us=30"});
  Recorder recorder;
  const auto summary = run(f, quick_options(), recorder);
  CHECK(summary.jobs == 1);
  CHECK(summary.tuned == 1);
  CHECK(summary.complete == 1);
  CHECK(summary.failed == 0);
  CHECK(summary.measured == 12);
  CHECK(summary.statuses == std::array<std::uint64_t, 6>{3, 1, 6, 1, 1, 0});
  // A fault is told apart from its worker's end; after each a new one starts.
  CHECK(summary.worker_starts == 8);
  CHECK(f.of(2).status == MeasurementStatus::wrong);
  CHECK(f.of(2).message == "3 of 8 elements of y are wrong");
  CHECK(f.of(2).max_error == 7);
  CHECK(f.of(3).status == MeasurementStatus::fault);
  CHECK_THAT(f.of(3).message, ContainsSubstring("crashed (signal 6"));
  CHECK(f.of(4).status == MeasurementStatus::timeout);
  CHECK(f.of(5).status == MeasurementStatus::fault);
  CHECK_THAT(f.of(5).message, ContainsSubstring("is no answer"));
  CHECK_THAT(f.of(6).message, ContainsSubstring("ILLEGAL_ADDRESS"));
  CHECK_THAT(f.of(7).message, ContainsSubstring("status 3): giving up"));
  CHECK(f.of(8).status == MeasurementStatus::fault);
  CHECK(f.of(9).status == MeasurementStatus::invalid);
  CHECK(f.of(10).status == MeasurementStatus::fault);

  const auto winners = f.winners();
  REQUIRE(winners.size() == 1);
  CHECK(winners[0].config == core::Config{{"V", std::int64_t{1}}});
  CHECK(winners[0].median_us > 19);
  CHECK(winners[0].median_us < 21);
  CHECK(winners[0].interval_us < 0.1);
  CHECK(winners[0].samples >= 12);
  CHECK(winners[0].measured == 12);
  CHECK(winners[0].failed == 9);
  CHECK(winners[0].complete);
  CHECK(winners[0].ties == 0);
  CHECK(winners[0].driver == "580.1");
  // V = 0 is the default: what an untuned release would run.
  REQUIRE(winners[0].baseline_us);
  CHECK(*winners[0].baseline_us > 39);
  REQUIRE(winners[0].floor_us);
  CHECK(*winners[0].floor_us > 1.04);  // 8 MiB through an L2 of 8 TB/s, 4 MiB from memory at 4
  CHECK(*winners[0].floor_us < 1.06);
  CHECK(must(store::list_sessions(must(f.store.reader())))[0].facts.at("dram_gbps") == "4000");
}

TEST_CASE("processes that lie about time are not believed") {
  TuneFixture f({"us=30", "us=10 sample-nan", "us=10 sample-few", "us=10 sample-long", "us=0.5",
                 "us=10 sample-wrong"});
  Recorder recorder;
  const auto summary = run(f, quick_options(), recorder);
  CHECK(summary.tuned == 1);
  for (const std::int64_t liar : {1, 2, 3}) {
    CHECK(f.of(liar).status == MeasurementStatus::fault);
    CHECK(f.of(liar).message == "the measuring process reported times that cannot be");
  }
  // Half the time that the bytes need at least: measured twice, kept, flagged, never chosen.
  CHECK(f.of(4).status == MeasurementStatus::ok);
  CHECK(f.of(4).suspect);
  CHECK(f.of(5).status == MeasurementStatus::wrong);
  REQUIRE(f.winners().size() == 1);
  CHECK(f.winners()[0].config == core::Config{{"V", std::int64_t{0}}});
}

TEST_CASE("a candidate that hangs while it is timed, and a slow one, cost a bounded time") {
  TuneFixture f({"us=30", "us=10 sample-hang", "us=200000"});
  Recorder recorder;
  const auto summary = run(f, quick_options(), recorder);
  CHECK(summary.tuned == 1);
  CHECK(f.of(1).status == MeasurementStatus::timeout);
  CHECK(f.of(2).status == MeasurementStatus::ok);
  CHECK(f.of(2).samples_us.size() <= 5);  // of a fifth of a second each
  REQUIRE(f.winners().size() == 1);
  CHECK(f.winners()[0].config == core::Config{{"V", std::int64_t{0}}});
}

TEST_CASE("throttled samples are dropped, and a device that stays throttled is told") {
  TuneFixture f({"us=30", "us=10 sample-hot"});
  Recorder recorder;
  run(f, quick_options(), recorder);
  CHECK(f.of(1).status == MeasurementStatus::throttled);
  CHECK_THAT(f.of(1).message, ContainsSubstring("600 MHz, not at 1980"));
  REQUIRE(f.winners().size() == 1);
  CHECK(f.winners()[0].config == core::Config{{"V", std::int64_t{0}}});
}

TEST_CASE("ties are recorded and go to the smaller config text") {
  TuneFixture f({"us=50", "us=20 near", "us=20 near", "us=20 near", "us=22 near"});
  Recorder recorder;
  run(f, quick_options(), recorder);
  const auto winners = f.winners();
  REQUIRE(winners.size() == 1);
  CHECK(winners[0].config == core::Config{{"V", std::int64_t{1}}});
  CHECK(winners[0].ties == 2);
  REQUIRE(recorder.tunings.size() == 1);
  REQUIRE(recorder.finalists.size() == 4);  // with the default, which is far behind
  CHECK(recorder.tunings[0].finalists[0].tied);
  CHECK(recorder.tunings[0].finalists[2].tied);
  CHECK_FALSE(recorder.tunings[0].finalists[3].tied);
}

TEST_CASE("when nothing is right the message says what to suspect") {
  TuneFixture f({"wrong", "fault", "wrong"});
  Recorder recorder;
  const auto summary = run(f, quick_options(), recorder);
  CHECK(summary.failed == 1);
  CHECK(summary.tuned == 0);
  REQUIRE(recorder.notes.size() == 1);
  CHECK_THAT(recorder.notes[0], ContainsSubstring("none of 3 configs is right (2 wrong, 1 fault)"));
  CHECK_THAT(recorder.notes[0], ContainsSubstring("suspect the fills"));
  CHECK(f.winners().empty());
}

TEST_CASE("what is known is not measured again") {
  TuneFixture f({"us=40", "us=20 near", "us=1 wrong"});
  Recorder first;
  run(f, quick_options(), first);
  Recorder second;
  const auto summary = run(f, quick_options(), second);
  CHECK(summary.known == 1);
  CHECK(summary.measured == 0);
  CHECK(second.measurements.empty());

  builder::TuneOptions again = quick_options();
  again.again = true;
  Recorder third;
  CHECK(run(f, again, third).measured == 3);
}

TEST_CASE("one more config makes no measurement stale, another reference makes all") {
  TuneFixture f({"us=40", "us=20"});
  Recorder first;
  run(f, quick_options(), first);
  f.put({"us=40", "us=20", "us=15"});
  Recorder second;
  auto summary = run(f, quick_options(), second);
  CHECK(summary.tuned == 1);
  CHECK(summary.measured == 1);
  CHECK(f.winners().at(0).config == core::Config{{"V", std::int64_t{2}}});
  f.put({"us=40", "us=20", "us=15"}, "another reference");
  Recorder third;
  CHECK(run(f, quick_options(), third).measured == 3);
}

TEST_CASE("a stop leaves everything measured in place") {
  std::vector<std::string> scripts(20, "us=20");
  scripts[7] = "hang";
  TuneFixture f(scripts);
  builder::TuneOptions options = quick_options();
  options.time_limit = std::chrono::seconds(60);
  options.strategy = builder::SearchStrategy::exhaustive;
  const core::UniqueFd stop(eventfd(0, EFD_CLOEXEC));
  options.worker.stop = stop.get();

  class Stopper final : public Recorder {
   public:
    explicit Stopper(int fd) : m_fd(fd) {}
    ~Stopper() override { m_thread.join(); }
    void progress(const Progress& progress) override {
      if (progress.measured == 7 && !m_thread.joinable()) {
        m_thread = std::thread([this] {  // while the eighth hangs
          std::this_thread::sleep_for(std::chrono::milliseconds(100));
          (void)eventfd_write(m_fd, 1);
        });
      }
    }

   private:
    int m_fd;
    std::thread m_thread;
  };
  {
    Stopper recorder(stop.get());
    const auto summary = run(f, options, recorder);
    CHECK(summary.stopped);
    CHECK(summary.measured == 7);
  }
  CHECK(f.rows().size() == 7);

  options.worker.stop = -1;
  options.time_limit = std::chrono::milliseconds(300);
  Recorder recorder;
  const auto summary = run(f, options, recorder);
  CHECK(summary.tuned == 1);
  CHECK(summary.measured == 13);
  REQUIRE(recorder.started.size() == 1);
  CHECK(recorder.started[0] == std::pair<std::uint64_t, std::uint64_t>{20, 7});
  CHECK(f.of(7).status == MeasurementStatus::timeout);
}

TEST_CASE("a candidate that takes the tuner down with it gets two chances") {
  TuneFixture f({"us=20", "hang"});
  const auto path = f.store.path();
  const builder::TuneOptions patient = [] {
    builder::TuneOptions options = quick_options();
    options.time_limit = std::chrono::seconds(60);
    options.strategy = builder::SearchStrategy::exhaustive;
    return options;
  }();
  store::TuningJob job;
  job.kernel = "scale";
  job.target = "sm_90";
  job.types = {{"T", "f32"}};
  job.shape = {{"n", 1048576}};
  job.device_class = must(core::DeviceClass::parse("sm90-s132-l60M-b6016-m136G"));
  f.store = store::open_read(path);  // gives the lock to the child
  for (unsigned attempt = 1; attempt <= 2; ++attempt) {
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      auto store = store::Store::open(path, {store::Access::write, false, "child"});
      Recorder recorder;
      auto ledger = builder::make_store_ledger(*store);
      (void)builder::tune(**ledger, patient, recorder);
      _exit(0);
    }
    // Until it is in the journal: then the child is inside the hanging candidate.
    for (int i = 0; i < 400; ++i) {
      const auto journal = must(store::list_journal(must(f.store.reader()), job));
      if (!journal.empty() && journal[0].attempts == attempt &&
          journal[0].config == core::Config{{"V", std::int64_t{1}}}) {
        break;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(25));
    }
    ::kill(child, SIGKILL);
    REQUIRE(waitpid(child, nullptr, 0) == child);
  }
  CHECK(f.rows().size() == 1);  // V = 0, before the first kill
  f.store = must(store::Store::open(path, {store::Access::write, false, "test"}));
  Recorder recorder;
  const auto summary = run(f, patient, recorder);
  CHECK(summary.tuned == 1);
  CHECK(f.of(1).status == MeasurementStatus::fault);
  CHECK_THAT(f.of(1).message, ContainsSubstring("went down while it ran, 2 times"));
  CHECK(must(store::list_journal(must(f.store.reader()), job)).empty());
}

TEST_CASE("one GPU serves one tuner at a time") {
  TuneFixture f({"us=20"});
  builder::TuneOptions options = quick_options();
  std::string holder;
  auto lock = must(builder::GpuLock::try_take(getenv("FAKE_UUID"), "somebody else", holder));
  REQUIRE(lock);
  const core::UniqueFd stop(eventfd(1, EFD_CLOEXEC));
  options.worker.stop = stop.get();
  // The lock is seen before the stop is.
  Recorder recorder;
  const auto ledger = must(builder::make_store_ledger(f.store));
  const auto stopped = builder::tune(*ledger, options, recorder);
  CHECK((!stopped || stopped->stopped));

  options.worker.stop = -1;
  class Releaser final : public Recorder {
   public:
    explicit Releaser(std::optional<builder::GpuLock>& held) : m_held(held) {}
    void waiting(const std::string& text) override {
      Recorder::waiting(text);
      m_held.reset();
    }

   private:
    std::optional<builder::GpuLock>& m_held;
  };
  Releaser waited(lock);
  const auto summary = run(f, options, waited);
  CHECK(summary.tuned == 1);
  REQUIRE(waited.holders.size() == 1);
  CHECK_THAT(waited.holders[0], ContainsSubstring("somebody else"));
}

TEST_CASE("a job that another tuner has is left to it") {
  TuneFixture f({"us=20"});
  const auto ledger = must(builder::make_store_ledger(f.store));
  store::TuningJob job;
  job.kernel = "scale";
  job.target = "sm_90";
  job.types = {{"T", "f32"}};
  job.shape = {{"n", 1048576}};
  job.device_class = must(core::DeviceClass::parse("sm90-s132-l60M-b6016-m136G"));
  must(f.store.write([&](store::Writer& writer) -> core::Result<void> {
    TRY_ASSIGN([[maybe_unused]] const auto lease,
               store::acquire_lease(writer, job, "another machine", std::time(nullptr), 100));
    return {};
  }));
  Recorder recorder;
  const auto summary = must(builder::tune(*ledger, quick_options(), recorder));
  CHECK(summary.elsewhere == 1);
  CHECK(summary.measured == 0);
  REQUIRE(recorder.notes.size() == 1);
  CHECK_THAT(recorder.notes[0], ContainsSubstring("another machine is at it"));
}

TEST_CASE("a workload is tuned in its order, each job once, and nothing else") {
  TuneFixture f({"us=20", "us=30"});
  Recorder recorder;
  builder::TuneOptions options = quick_options();
  options.workload = {{"scale", {}, {}, {{"n", 4096}}},
                      {"scale", "sm_90", {{"T", "f32"}}, {}},
                      {"scale", {}, {}, {{"n", 4096}}}};
  const auto summary = run(f, options, recorder);
  CHECK(summary.jobs == 2);
  CHECK(summary.tuned == 2);
  REQUIRE(recorder.tunings.size() == 2);
  CHECK(recorder.tunings[0].job.shape == core::Shape{{"n", 4096}});
  CHECK(recorder.tunings[1].job.shape == core::Shape{{"n", 1048576}});

  const auto ledger = must(builder::make_store_ledger(f.store));
  const auto refusal = [&](const builder::TuneWish& wish) {
    options.workload = {wish};
    return builder::tune(*ledger, options, recorder).error().message;
  };
  CHECK_THAT(refusal({"scall", {}, {}, {}}), ContainsSubstring("did you mean \"scale\"?"));
  CHECK_THAT(refusal({"scale", {}, {}, {{"m", 1}}}), ContainsSubstring("scale has no axis 'm'"));
  CHECK_THAT(refusal({"scale", {}, {{"T", "f16"}}, {}}), ContainsSubstring("T=f16"));
  CHECK_THAT(refusal({"scale", "sm_90a", {}, {}}), ContainsSubstring("scale sm_90a"));
}

TEST_CASE("a small space is measured whole, and whoever may be the fastest runs off") {
  std::vector<std::string> scripts;
  for (int i = 0; i < 40; ++i) {
    scripts.push_back(i == 33 ? "us=19.8 near" : "us=20 near");
  }
  TuneFixture f(scripts);
  Recorder recorder;
  const auto summary = run(f, quick_options(), recorder);
  CHECK(summary.measured == 40);
  REQUIRE(recorder.finalists.size() >= 24);
  CHECK(recorder.finalists[0].config == core::Config{{"V", std::int64_t{33}}});
  // The others left as soon as they were seen to be slower.
  CHECK(recorder.finalists[1].samples_us.size() <= 60);
}

TEST_CASE("what cannot be tuned is refused by name") {
  TuneFixture f({"us=20"});
  Recorder recorder;
  const auto ledger = must(builder::make_store_ledger(f.store));
  builder::TuneOptions options = quick_options();
  options.kernels = "scal";
  CHECK_THAT(builder::tune(*ledger, options, recorder).error().message,
             ContainsSubstring("did you mean \"scale\"?"));
  options.kernels.clear();
  options.shape = {{"m", 1}};
  CHECK_THAT(builder::tune(*ledger, options, recorder).error().message,
             ContainsSubstring("no kernel has an axis 'm'"));
  options.shape.clear();
  options.worker.command = {"/bin/false"};
  const auto none = builder::tune(*ledger, options, recorder);
  CHECK(none.error().code == core::ErrorCode::environment);
}

}  // namespace
}  // namespace cubinary::tests
