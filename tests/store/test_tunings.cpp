// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch_test_macros.hpp>

#include "store/leases.hpp"
#include "store/measurements.hpp"
#include "store/tunings.hpp"
#include "tests/store/scratch.hpp"

namespace cubinary::store {
namespace {

using core::ErrorCode;

struct Fixture {
  Scratch scratch;
  Store store = open_new(scratch / "s.db");
  std::vector<CandidateId> candidates;
  SessionId session = 0;
  TuningJob job;

  Fixture() {
    for (unsigned i = 0; i < 3; ++i) {
      candidates.push_back(put_made_up(store, "rmsnorm", 2 * i));  // all of T = f32
    }
    job.kernel = "rmsnorm";
    job.target = "sm_90";
    job.types = {{"T", "f32"}};
    job.shape = {{"rows", 64}, {"cols", 4096}};
    job.device_class = must(core::DeviceClass::parse("sm90-s132-l60M-b6144-m144G"));
    must(store.write([&](Writer& writer) -> core::Result<void> {
      TRY(set_current(writer, "rmsnorm", "sm_90", candidates));
      DeviceSession row;
      row.device_class = job.device_class;
      row.facts = {{"dram_gbps", "4200"}};
      TRY_ASSIGN(session, put_session(writer, row));
      return put_session_facts(writer, session, {{"dram_gbps", "4300"}, {"tick_us", "0.032"}});
    }));
  }
  [[nodiscard]] Measurement make(std::size_t candidate, double median) const {
    Measurement measurement;
    measurement.candidate = candidates[candidate];
    measurement.session = session;
    measurement.config = {{"ID", static_cast<std::int64_t>(candidate)}};
    measurement.shape = job.shape;
    measurement.samples_us = {median, median + 1};
    measurement.median_us = median;
    measurement.interval_us = 0.25;
    measurement.max_error = 0.5;
    return measurement;
  }
  MeasurementId put(const Measurement& measurement) {
    MeasurementId id = 0;
    must(store.write([&](Writer& writer) -> core::Result<void> {
      TRY_ASSIGN(id, put_measurement(writer, measurement));
      return {};
    }));
    return id;
  }
  Winner winner() {
    const auto found = must(winners(must(store.reader()), "rmsnorm", "sm_90"));
    REQUIRE(found.size() == 1);
    return found[0];
  }
};

TEST_CASE("the newest tuning's winner stands before faster measurements") {
  Fixture f;
  const MeasurementId quick = f.put(f.make(0, 7));  // a lucky sample of the search
  Measurement final = f.make(1, 8);
  final.stage = MeasurementStage::run_off;
  final.floor_us = 4;
  const MeasurementId first = f.put(final);
  const MeasurementId second = f.put(f.make(2, 8.5));
  CHECK(f.winner().measurement == quick);
  CHECK(f.winner().tuning == 0);

  Tuning tuning;
  tuning.job = f.job;
  tuning.session = f.session;
  tuning.recipe = core::sha256("recipe");
  tuning.strategy = "exhaustive";
  tuning.configs = 3;
  tuning.measured = 3;
  tuning.failed = 1;
  tuning.complete = true;
  tuning.baseline = second;
  tuning.finalists = {{first, false}, {second, true}};
  must(f.store.write([&](Writer& writer) -> core::Result<void> {
    TRY(put_tuning(writer, tuning));
    return {};
  }));
  Winner winner = f.winner();
  CHECK(winner.measurement == first);
  CHECK(winner.complete);
  CHECK(winner.measured == 3);
  CHECK(winner.failed == 1);
  CHECK(winner.ties == 1);
  CHECK(winner.runner_up_us == 8.5);
  CHECK(winner.baseline_us == 8.5);
  CHECK(winner.baseline == core::Config{{"ID", std::int64_t{2}}});
  CHECK(winner.floor_us == 4);
  CHECK(winner.samples == 2);

  const auto found = must(find_tuning(must(f.store.reader()), f.job));
  REQUIRE(found);
  CHECK(found->recipe == tuning.recipe);
  REQUIRE(found->finalists.size() == 2);
  CHECK(found->finalists[1].tied);
  TuningJob other = f.job;
  other.shape["rows"] = 65;
  CHECK_FALSE(must(find_tuning(must(f.store.reader()), other)));

  // A winner whose source changed since leaves the rest.
  must(f.store.write([&](Writer& writer) {
    return set_current(writer, "rmsnorm", "sm_90", std::span(f.candidates.data(), 1));
  }));
  CHECK(f.winner().measurement == quick);
}

TEST_CASE("a suspect measurement is kept and never selected") {
  Fixture f;
  Measurement fast = f.make(0, 1);
  fast.suspect = true;
  f.put(fast);
  const MeasurementId honest = f.put(f.make(1, 9));
  CHECK(f.winner().measurement == honest);
}

TEST_CASE("measurements are read back as they were put") {
  Fixture f;
  Measurement put = f.make(0, 7);
  put.recipe = core::sha256("recipe");
  put.clock_mhz = 1980;
  f.put(put);
  Measurement wrong = f.make(1, 0);
  wrong.status = MeasurementStatus::wrong;
  wrong.message = "3 of 12 outputs are wrong";
  wrong.samples_us.clear();
  f.put(wrong);
  std::vector<MeasurementRow> rows;
  MeasurementFilter filter;
  filter.kernel = "rmsnorm";
  filter.shape = f.job.shape;
  filter.device_class = f.job.device_class;
  filter.with_samples = true;
  const auto collect = [&](const MeasurementRow& row) -> core::Result<void> {
    rows.push_back(row);
    return {};
  };
  must(for_each_measurement(must(f.store.reader()), filter, collect));
  REQUIRE(rows.size() == 2);
  CHECK(rows[0].measurement.samples_us == std::vector<double>{7, 8});
  CHECK(rows[0].measurement.recipe == put.recipe);
  CHECK(rows[0].measurement.clock_mhz == 1980);
  CHECK(rows[0].target == "sm_90");
  CHECK(rows[0].types == f.job.types);
  CHECK(rows[1].measurement.status == MeasurementStatus::wrong);
  CHECK(rows[1].measurement.message == "3 of 12 outputs are wrong");
  rows.clear();
  filter.types = core::Types{{"T", "f16"}};
  must(for_each_measurement(must(f.store.reader()), filter, collect));
  CHECK(rows.empty());
  const auto sessions = must(list_sessions(must(f.store.reader())));
  REQUIRE(sessions.size() == 1);
  CHECK(sessions[0].facts ==
        std::map<std::string, std::string>{{"dram_gbps", "4300"}, {"tick_us", "0.032"}});
}

TEST_CASE("one job has one lease") {
  Fixture f;
  LeaseAnswer mine;
  const auto acquire = [&](const TuningJob& job, std::string_view owner, std::int64_t now) {
    LeaseAnswer answer;
    must(f.store.write([&](Writer& writer) -> core::Result<void> {
      TRY_ASSIGN(answer, acquire_lease(writer, job, owner, now, 60));
      return {};
    }));
    return answer;
  };
  mine = acquire(f.job, "a", 1000);
  CHECK(mine.granted);
  CHECK(mine.lease.expires == 1060);
  const LeaseAnswer refused = acquire(f.job, "b", 1010);
  CHECK_FALSE(refused.granted);
  CHECK(refused.lease.owner == "a");
  TuningJob other = f.job;
  other.shape["rows"] = 1;
  CHECK(acquire(other, "b", 1010).granted);
  CHECK(must(list_leases(must(f.store.reader()), 1010)).size() == 2);
  CHECK(must(list_leases(must(f.store.reader()), 1010))[0].job == f.job);
  CHECK(acquire(f.job, "a", 1020).lease.id == mine.lease.id);

  // It runs out at 1080; then b may have it, and a is told.
  CHECK(acquire(f.job, "b", 1080).granted);
  CHECK_FALSE(must(holds_lease(must(f.store.reader()), mine.lease.id, "a", 1081)));
  CHECK(code_of(f.store.write([&](Writer& writer) {
          return renew_lease(writer, mine.lease.id, "a", 1081, 60);
        })) == ErrorCode::not_found);
  must(f.store.write([&](Writer& writer) { return release_lease(writer, mine.lease.id, "a"); }));
  CHECK_FALSE(acquire(f.job, "a", 1082).granted);
  other.kernel = "nothing";
  CHECK(code_of(f.store.write([&](Writer& writer) -> core::Result<void> {
          TRY(acquire_lease(writer, other, "a", 1, 1));
          return {};
        })) == ErrorCode::not_found);
}

TEST_CASE("the journal holds what ran when the tuner went down") {
  Fixture f;
  JournalEntry entry;
  entry.candidate = f.candidates[0];
  entry.shape = f.job.shape;
  entry.config = {{"ID", std::int64_t{0}}};
  entry.device_class = f.job.device_class;
  const auto put = [&] {
    must(f.store.write([&](Writer& writer) { return put_journal(writer, entry); }));
  };
  put();
  put();
  auto left = must(list_journal(must(f.store.reader()), f.job));
  REQUIRE(left.size() == 1);
  CHECK(left[0].attempts == 2);
  CHECK(left[0].config == entry.config);
  f.put(f.make(0, 5));
  CHECK(must(list_journal(must(f.store.reader()), f.job)).empty());
  put();
  must(f.store.write([&](Writer& writer) { return drop_journal(writer, entry); }));
  CHECK(must(list_journal(must(f.store.reader()), f.job)).empty());
}

}  // namespace
}  // namespace cubinary::store
