// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include <catch2/catch_test_macros.hpp>

#include "store/measurements.hpp"
#include "tests/store/scratch.hpp"

namespace cubinary::store {
namespace {

using core::ErrorCode;

struct Fixture {
  Scratch scratch;
  Store store = open_new(scratch / "s.db");
  std::vector<CandidateId> candidates;
  SessionId h200 = 0;
  SessionId rtx = 0;

  Fixture() {
    for (unsigned i = 0; i < 4; ++i) {
      candidates.push_back(put_made_up(store, "rmsnorm", 2 * i));  // all of T = f32
    }
    must(store.write([&](Writer& writer) -> core::Result<void> {
      TRY(set_current(writer, "rmsnorm", "sm_90", candidates));
      DeviceSession session;
      TRY_ASSIGN(session.device_class, core::DeviceClass::parse("sm90-s132-l60M-b6144-m144G"));
      session.product = "H200";
      session.driver = "580.159.04";
      session.facts = {{"clock", "1980"}, {"dram_gbs", "4200"}};
      TRY_ASSIGN(h200, put_session(writer, session));
      TRY_ASSIGN(session.device_class, core::DeviceClass::parse("sm120-s188-l128M-b512-m96G"));
      session.product = "RTX";
      TRY_ASSIGN(rtx, put_session(writer, session));
      return {};
    }));
  }

  core::Result<void> put(const Measurement& measurement) {
    return store.write([&](Writer& writer) -> core::Result<void> {
      TRY(put_measurement(writer, measurement));
      return {};
    });
  }
  [[nodiscard]] Measurement make(std::size_t candidate, SessionId session, std::int64_t rows,
                                 double median) const {
    Measurement measurement;
    measurement.candidate = candidates[candidate];
    measurement.session = session;
    measurement.config = {{"ID", static_cast<std::int64_t>(candidate)}};
    measurement.shape = {{"rows", rows}, {"cols", 4096}};
    measurement.samples_us = {median, median * 1.5};
    measurement.median_us = median;
    measurement.interval_us = 0.25;
    measurement.max_error = 0.5;
    return measurement;
  }
};

TEST_CASE("the fastest checked measurement of current candidates wins") {
  Fixture f;
  must(f.put(f.make(0, f.h200, 64, 10)));
  must(f.put(f.make(1, f.h200, 64, 8)));
  must(f.put(f.make(2, f.h200, 64, 9)));
  Measurement faster = f.make(2, f.h200, 64, 1);
  SECTION("a wrong one is never a winner") {
    faster.status = MeasurementStatus::wrong;
  }
  SECTION("nor one beyond the tolerance") {
    faster.max_error = 1.5;
  }
  SECTION("nor one whose error is no number") {
    faster.max_error = std::nan("");
  }
  SECTION("nor a throttled one") {
    faster.status = MeasurementStatus::throttled;
  }
  must(f.put(faster));
  must(f.put(f.make(0, f.h200, 1, 2)));
  must(f.put(f.make(3, f.rtx, 64, 5)));

  const auto found = must(winners(must(f.store.reader()), "rmsnorm", "sm_90"));
  REQUIRE(found.size() == 3);
  // Sorted by shape text: rows 1 before rows 64; then by class.
  CHECK(found[0].shape == core::Shape{{"rows", 1}, {"cols", 4096}});
  CHECK(found[0].candidate == f.candidates[0]);
  CHECK(found[1].device_class.text() == "sm120-s188-l128M-b512-m96G");
  CHECK(found[1].product == "RTX");
  CHECK(found[2].kernel == "rmsnorm");
  CHECK(found[2].types == core::Types{{"T", "f32"}});
  CHECK(found[2].candidate == f.candidates[1]);
  CHECK(found[2].config == core::Config{{"ID", std::int64_t{1}}});
  CHECK(found[2].median_us == 8);
  CHECK(found[2].interval_us == 0.25);
  CHECK(found[2].driver == "580.159.04");
  CHECK(must(winners(must(f.store.reader()), "rmsnorm", "sm_120")).empty());
  CHECK(must(winners(must(f.store.reader()), "l2norm", "sm_90")).empty());
}

TEST_CASE("ties go to the smaller config text") {
  Fixture f;
  must(f.put(f.make(3, f.h200, 64, 8)));
  must(f.put(f.make(1, f.h200, 64, 8)));
  must(f.put(f.make(2, f.h200, 64, 8)));
  const auto found = must(winners(must(f.store.reader()), "rmsnorm", "sm_90"));
  REQUIRE(found.size() == 1);
  CHECK(found[0].candidate == f.candidates[1]);
}

TEST_CASE("candidates no longer current do not win") {
  Fixture f;
  must(f.put(f.make(0, f.h200, 64, 1)));
  must(f.put(f.make(1, f.h200, 64, 2)));
  must(f.store.write([&](Writer& writer) {
    return set_current(writer, "rmsnorm", "sm_90", std::span(&f.candidates[1], 1));
  }));
  const auto found = must(winners(must(f.store.reader()), "rmsnorm", "sm_90"));
  REQUIRE(found.size() == 1);
  CHECK(found[0].candidate == f.candidates[1]);
}

TEST_CASE("a measurement needs a candidate, a session and numbers") {
  Fixture f;
  Measurement measurement = f.make(0, f.h200, 64, 1);
  measurement.candidate = 9999;
  CHECK(code_of(f.put(measurement)) == ErrorCode::not_found);
  measurement = f.make(0, 9999, 64, 1);
  CHECK(code_of(f.put(measurement)) == ErrorCode::not_found);
  measurement = f.make(0, f.h200, 64, std::nan(""));
  CHECK(code_of(f.put(measurement)) == ErrorCode::usage);
}

TEST_CASE("device classes are listed once") {
  Fixture f;
  const auto classes = must(device_classes(must(f.store.reader())));
  REQUIRE(classes.size() == 2);
  CHECK(classes[0].text() == "sm120-s188-l128M-b512-m96G");
  CHECK(status_name(MeasurementStatus::throttled) == "throttled");
}

}  // namespace
}  // namespace cubinary::store
