// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "core/base/json.hpp"
#include "store/audit/answer.hpp"
#include "store/audit/audit.hpp"
#include "store/candidates.hpp"
#include "tests/builder/synthetic_store.hpp"

using namespace cubinary;
using namespace cubinary::tests;
using Catch::Approx;
using Catch::Matchers::ContainsSubstring;
using store::Coverage;
using store::Transfer;

namespace {

const std::string k_big = "sm120-s188-l128M-b512-m96G";
const std::string k_small = "sm120-s84-l64M-b256-m16G";

/// `scale` on sm_120 in f32, on a big GPU (tuned at n=1024, loosely measured at 4096) and a small
/// one (tuned at 1024, its budget used up).
class Audited {
 public:
  Audited() : m_store(create_store(m_folder.path() / "audit.db")) {
    fill(m_store, scale_manifest(), {"sm_90", "sm_120"});
    MadeUpMeasurement big;
    big.vec = 4;
    big.median_us = 10;
    big.floor_us = 8;
    const auto winner = measure(m_store, big);
    big.vec = 2;
    big.median_us = 10.4;
    const auto second = measure(m_store, big);
    big.vec = 1;
    big.median_us = 15;
    const auto baseline = measure(m_store, big);
    put_tuning(m_store, big, {winner, second, baseline}, 1, true);
    big.n = 4096;
    big.median_us = 30;
    measure(m_store, big);

    MadeUpMeasurement small;
    small.device_class = k_small;
    small.product = "Little GPU";
    small.driver = "575.2";
    small.vec = 2;
    small.median_us = 20;
    const auto first = measure(m_store, small);
    small.vec = 4;
    small.median_us = 26;
    const auto other = measure(m_store, small);
    put_tuning(m_store, small, {first, other}, 0, false);
  }
  [[nodiscard]] store::Store& store() { return m_store; }
  [[nodiscard]] store::Reader reader() const { return must(m_store.reader()); }

 private:
  Scratch m_folder;
  store::Store m_store;
};

core::DeviceClass device(const std::string& text) {
  return must(core::DeviceClass::parse(text));
}

}  // namespace

TEST_CASE("Winners say how fast, how surely, by how much and since when") {
  const Audited audited;
  const auto winners = must(store::audit_winners(audited.reader(), {}));
  REQUIRE(winners.size() == 3);
  const store::Winner& small = winners[0];  // s84 before s188
  const store::Winner& big = winners[1];
  const store::Winner& loose = winners[2];
  CHECK(small.device_class.text() == k_small);
  CHECK(store::origin(small) == store::WinnerOrigin::budget);
  CHECK_FALSE(store::roofline(small));

  CHECK(big.config == core::Config{{"VEC", std::int64_t{4}}, {"WARPS", std::int64_t{8}}});
  CHECK(store::origin(big) == store::WinnerOrigin::tuned);
  CHECK(store::confidence(big) == Approx(0.01));
  CHECK(*store::roofline(big) == Approx(0.8));
  CHECK(*store::margin(big) == Approx(0.04));
  CHECK(big.ties == 1);
  CHECK(*store::speedup(big) == Approx(1.5));

  CHECK(loose.shape == core::Shape{{"n", 4096}});
  CHECK(store::origin(loose) == store::WinnerOrigin::measured);
  CHECK_FALSE(store::margin(loose));
  CHECK_FALSE(store::speedup(loose));
}

TEST_CASE("A filter names kernels, a target or a device, and what it misnames is told") {
  const Audited audited;
  const store::Reader reader = audited.reader();
  store::AuditFilter filter;
  filter.device_class = device(k_small);
  CHECK(must(store::audit_winners(reader, filter)).size() == 1);
  filter = {};
  filter.target = "sm_90";
  CHECK(must(store::audit_winners(reader, filter)).empty());
  filter = {};
  filter.kernels = "scal";
  const auto wrong = store::audit_winners(reader, filter);
  REQUIRE_FALSE(wrong.has_value());
  CHECK_THAT(wrong.error().message, ContainsSubstring("did you mean \"scale\""));

  CHECK(must(store::find_device_class(reader, "little")).text() == k_small);
  CHECK(must(store::find_device_class(reader, "s188")).text() == k_big);
  CHECK(must(store::find_device_class(reader, k_big)).text() == k_big);
  const auto both = store::find_device_class(reader, "sm120");
  REQUIRE_FALSE(both.has_value());
  CHECK(both.error().code == core::ErrorCode::usage);
  CHECK_THAT(both.error().message, ContainsSubstring(k_big) && ContainsSubstring(k_small));
  const auto none = store::find_device_class(reader, "H200");
  REQUIRE_FALSE(none.has_value());
  CHECK(none.error().code == core::ErrorCode::not_found);
}

TEST_CASE("Compare says what another device's winner costs, and what nobody tried") {
  Audited audited;
  const auto there =
      must(store::audit_compare(audited.reader(), device(k_big), device(k_small), {}));
  REQUIRE(there.jobs.size() == 1);  // 4096 has a winner on one side only
  CHECK(there.jobs[0].transfer == Transfer::slower);
  CHECK(*there.jobs[0].loss == Approx(1.3));
  CHECK(there.kernels[0].needs_tuning());
  CHECK(*there.kernels[0].worst_loss == Approx(1.3));

  const auto back =
      must(store::audit_compare(audited.reader(), device(k_small), device(k_big), {}));
  CHECK(back.jobs[0].transfer == Transfer::good);
  CHECK(*back.jobs[0].loss == Approx(1.04));
  CHECK_FALSE(back.kernels[0].needs_tuning());

  // At 4096 the small one's winner was never tried on the big one.
  MadeUpMeasurement small;
  small.device_class = k_small;
  small.vec = 2;
  small.n = 4096;
  measure(audited.store(), small);
  const auto more =
      must(store::audit_compare(audited.reader(), device(k_small), device(k_big), {}));
  REQUIRE(more.jobs.size() == 2);
  CHECK(more.kernels[0].unmeasured == 1);
  // And now it was, and did not work.
  MadeUpMeasurement broken;
  broken.vec = 2;
  broken.n = 4096;
  broken.status = store::MeasurementStatus::fault;
  measure(audited.store(), broken);
  const auto after =
      must(store::audit_compare(audited.reader(), device(k_small), device(k_big), {}));
  CHECK(after.kernels[0].broken == 1);
  CHECK(after.kernels[0].needs_tuning());
}

TEST_CASE("Coverage says what a client would be served for every tuned shape") {
  Audited audited;
  MadeUpMeasurement doubtful;  // faster than the hardware can be: never selected
  doubtful.device_class = k_small;
  doubtful.type = "f16";
  doubtful.suspect = true;
  measure(audited.store(), doubtful);
  const auto jobs = must(store::audit_coverage(audited.reader(), {}));
  // f32 and f16, n of 1024 and 4096, two devices; nothing runs sm_90.
  REQUIRE(jobs.size() == 8);
  const auto of = [&](const std::string& device_text, const char* type, std::int64_t n) {
    const auto found = std::find_if(jobs.begin(), jobs.end(), [&](const auto& job) {
      return job.device_class.text() == device_text && job.types.at("T") == type &&
             job.shape.at("n") == n;
    });
    REQUIRE(found != jobs.end());
    return found->coverage;
  };
  CHECK(of(k_big, "f32", 1024) == Coverage::tuned);
  CHECK(of(k_big, "f32", 4096) == Coverage::measured);
  CHECK(of(k_small, "f32", 1024) == Coverage::budget);
  CHECK(of(k_small, "f32", 4096) == Coverage::nearest_shape);
  CHECK(of(k_small, "f16", 1024) == Coverage::unverified);
  CHECK(of(k_small, "f16", 4096) == Coverage::untuned);
  CHECK(of(k_big, "f16", 1024) == Coverage::untuned);

  MadeUpMeasurement half;
  half.type = "f16";
  measure(audited.store(), half);
  const auto after = must(store::audit_coverage(audited.reader(), {}));
  const auto transferred = std::count_if(after.begin(), after.end(), [](const auto& job) {
    return job.coverage == Coverage::other_class;
  });
  CHECK(transferred == 1);  // the small device's f16 at 4096; at 1024 it has a doubtful result
}

TEST_CASE("Stale winners: another driver, another source") {
  Audited audited;
  CHECK(must(store::audit_stale(audited.reader(), {}, {})).empty());
  const auto driver = must(store::audit_stale(audited.reader(), {}, {"580.1"}));
  REQUIRE(driver.size() == 1);
  CHECK(driver[0].driver == "575.2 -> 580.1");
  CHECK(driver[0].source.empty());

  // A newer session of the class is what "now" is.
  MadeUpMeasurement later;
  later.driver = "590.3";
  later.type = "f16";
  measure(audited.store(), later);
  const auto since = must(store::audit_stale(audited.reader(), {}, {}));
  REQUIRE(since.size() == 2);
  CHECK(since[0].driver == "580.1 -> 590.3");

  // The source changes: no candidate is current any more.
  const auto forget = [](store::Writer& writer) {
    return store::set_current(writer, "scale", "sm_120", {});
  };
  must(audited.store().write(forget));
  const auto source = must(store::audit_stale(audited.reader(), {}, {}));
  REQUIRE(source.size() == 4);
  CHECK(std::all_of(source.begin(), source.end(),
                    [](const auto& row) { return !row.source.empty() && row.target == "sm_120"; }));
}

TEST_CASE("The answers as JSON and CSV") {
  const Audited audited;
  const store::Reader reader = audited.reader();
  const auto winners = must(store::audit(reader, "winners", {{"device_class", "s188"}}));
  const std::string csv = store::audit_csv(winners);
  CHECK_THAT(csv, Catch::Matchers::StartsWith(
                      "kernel,target,types,shape,device_class,product,config,time_us,"));
  CHECK_THAT(csv, ContainsSubstring("\nscale,sm_120,T=f32,n=1024," + k_big +
                                    ",Made-up GPU,VEC=4 WARPS=8,10,0.01,1,0.8,0.04"));
  CHECK(std::count(csv.begin(), csv.end(), '\n') == 3);

  const auto coverage = must(store::audit(reader, "coverage", {}));
  const core::json::Node top(coverage, "coverage");
  const core::json::Node list = must(top.at("kernels"));
  const auto kernels = must(list.elements());
  REQUIRE(kernels.size() == 2);
  CHECK(must(kernels[0].integer("jobs", 0, 100)) == 4);
  CHECK(must(kernels[0].integer("budget", 0, 100)) == 1);

  const auto refused = [&](std::string_view query,
                           const std::map<std::string, std::string>& parameters) {
    const auto answer = store::audit(reader, query, parameters);
    REQUIRE_FALSE(answer.has_value());
    CHECK(answer.error().code == core::ErrorCode::usage);
    return answer.error().message;
  };
  CHECK_THAT(refused("winner", {}), ContainsSubstring("did you mean \"winners\""));
  CHECK_THAT(refused("winners", {{"kernels", "x"}}), ContainsSubstring("did you mean \"kernel\""));
  CHECK_THAT(refused("compare", {{"a", k_big}}), ContainsSubstring("two device classes"));
  CHECK(store::audit_csv(core::json::Value("text")).empty());
}
