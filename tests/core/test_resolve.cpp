// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch_test_macros.hpp>

#include "core/table/resolve.hpp"
#include "tests/core/wire_fixture.hpp"

using namespace cubinary::core;
using namespace cubinary::core::test;

namespace {

constexpr std::string_view k_here = "sm90-s132-l50M-b5120-m144G";
constexpr std::string_view k_near = "sm90-s114-l50M-b5120-m80G";
constexpr std::string_view k_far = "sm90-s20-l4M-b128-m8G";

TableEntry tuned(std::string_view device, std::int64_t rows, std::int64_t cols, double time,
                 std::int64_t vec = 8) {
  TableEntry entry = row_entry("f16", vec, 1, 4);
  entry.origin = Origin::tuned;
  entry.device_class = device;
  entry.shape = {{"rows", rows}, {"cols", cols}};
  entry.time_us = time;
  return entry;
}

TableEntry fallback(int rank, std::int64_t vec) {
  TableEntry entry = row_entry("f16", vec, 1, 4);
  entry.rank = rank;
  return entry;
}

KernelTable table_of(std::vector<TableEntry> entries) {
  KernelTable table = row_table();
  table.entries = std::move(entries);
  return table;
}

ResolveQuery query(std::int64_t rows, std::int64_t cols) {
  ResolveQuery q;
  q.types = {{"T", "f16"}};
  q.shape = {{"rows", rows}, {"cols", cols}};
  q.alignments = {{"x", 256}, {"y", 256}, {"w", 256}};
  q.device = DeviceClass::parse(k_here).value();
  q.facts = {132, 232'448};
  return q;
}

Result<Choice> ask(const KernelTable& table, const ResolveQuery& q, bool with_trace = false) {
  return resolve(std::vector<ResolveTable>{{target("sm_90"), &table}}, q, with_trace);
}

std::string refused(const KernelTable& table, const ResolveQuery& q, ErrorCode code) {
  const auto choice = ask(table, q);
  REQUIRE_FALSE(choice);
  CHECK(choice.error().code == code);
  return choice.error().message;
}

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("match levels have names") {
  CHECK(match_name(Match::exact) == "exact");
  CHECK(match_name(Match::fallback) == "default");
  CHECK(parse_match("nearest-shape").value() == Match::nearest_shape);
  CHECK(parse_match("other-class").value() == Match::other_class);
  CHECK(contains(parse_match("exakt").error().message, "did you mean \"exact\"?"));
}

TEST_CASE("the cascade goes from exact to the manifest's own choice") {
  KernelTable table = table_of({fallback(0, 4), fallback(1, 1), tuned(k_far, 64, 4096, 1),
                                tuned(k_near, 2, 4096, 1), tuned(k_here, 64, 4096, 9),
                                tuned(k_here, 4096, 4096, 99)});
  const ResolveQuery q = query(64, 4096);
  auto choice = ask(table, q).value();
  CHECK(choice.match == Match::exact);
  CHECK(choice.entry == &table.entries[4]);
  CHECK(contains(choice.how, "this very shape"));

  table.entries.erase(table.entries.begin() + 4);
  choice = ask(table, q).value();
  CHECK(choice.match == Match::nearest_shape);
  CHECK(choice.entry->shape.at("rows") == 4096);
  CHECK(contains(choice.how, "nearest shape, cols=4096 rows=4096"));

  table.entries.pop_back();
  choice = ask(table, q).value();
  CHECK(choice.match == Match::other_class);
  CHECK(choice.entry->device_class == k_near);  // nearer class before nearer shape

  table.entries.pop_back();
  CHECK(ask(table, q).value().entry->device_class == k_far);
  table.entries.pop_back();
  choice = ask(table, q).value();
  CHECK(choice.match == Match::fallback);
  CHECK(choice.entry->rank == 0);
  CHECK(ask(table, query(64, 4095)).value().entry->rank == 1);  // 4095 % 4
}

TEST_CASE("an exact axis serves its own value only") {
  const KernelTable table = table_of({tuned(k_here, 64, 4096, 1), tuned(k_here, 64, 1024, 1)});
  CHECK(ask(table, query(1, 1024)).value().entry->shape.at("cols") == 1024);
  CHECK(contains(refused(table, query(64, 2048), ErrorCode::no_match),
                 "measured for cols=1024 only, measured for cols=4096 only"));
}

TEST_CASE("a compile axis must be the compiled value") {
  KernelTable table = table_of({fallback(0, 1), fallback(0, 1)});
  table.axes.push_back({"dim", {64, 128}, Bucket::log2, true, {}});
  table.entries[0].shape = {{"dim", 64}};
  table.entries[1].shape = {{"dim", 128}};
  ResolveQuery q = query(1, 8);
  q.shape["dim"] = 128;
  CHECK(ask(table, q).value().entry == &table.entries[1]);
  q.shape["dim"] = 96;
  CHECK(contains(refused(table, q, ErrorCode::no_match),
                 "compiled for dim=128 only, compiled for dim=64 only"));
}

TEST_CASE("equally near shapes: the larger serves") {
  // 3 lies between 1 and 7: (3+1)/(1+1) = (7+1)/(3+1).
  const KernelTable table = table_of({tuned(k_here, 1, 4096, 1), tuned(k_here, 7, 4096, 5)});
  CHECK(ask(table, query(3, 4096)).value().entry->shape.at("rows") == 7);
  CHECK(ask(table, query(2, 4096)).value().entry->shape.at("rows") == 1);
  const KernelTable reversed = table_of({tuned(k_here, 7, 4096, 5), tuned(k_here, 1, 4096, 1)});
  CHECK(ask(reversed, query(3, 4096)).value().entry->shape.at("rows") == 7);
}

TEST_CASE("rules are judged for the query's own shape and alignment") {
  const KernelTable table =
      table_of({tuned(k_here, 64, 4096, 1, 8), tuned(k_here, 1, 4096, 1, 2), fallback(0, 1)});
  ResolveQuery q = query(64, 4096);
  q.alignments["x"] = 4;
  auto choice = ask(table, q, true).value();
  CHECK(choice.match == Match::nearest_shape);
  CHECK(std::get<std::int64_t>(choice.entry->config.at("VEC")) == 2);
  REQUIRE(choice.trace.size() == 3);
  CHECK_FALSE(choice.trace[0].accepted);
  CHECK(contains(choice.trace[0].reason, "align(x) % 16 == 0"));
  CHECK(choice.trace[1].accepted);
  CHECK(choice.trace[1].shape_distance > 5);
  CHECK(choice.trace[1].entry == choice.entry);
  CHECK(contains(choice.trace[2].reason, "further away"));
  q.alignments["x"] = 2;
  CHECK(ask(table, q).value().match == Match::fallback);
}

TEST_CASE("an entry whose launch the device cannot do is passed over") {
  KernelTable table = table_of({fallback(0, 1), fallback(1, 1)});
  table.steps[0].launch.smem = expr("WARPS * 50000");
  table.entries[1].config["WARPS"] = std::int64_t{1};
  ResolveQuery q = query(1, 1);
  CHECK(ask(table, q).value().entry->rank == 0);
  q.facts.smem_optin = 101'376;
  CHECK(ask(table, q).value().entry->rank == 1);
  q.facts.smem_optin = 40'000;
  CHECK(contains(refused(table, q, ErrorCode::no_match), "200000 bytes of dynamic"));
}

TEST_CASE("require is a bound, and a refusal says what there would be") {
  const KernelTable table =
      table_of({tuned(k_here, 64, 4096, 1), tuned(k_near, 3, 1024, 1), fallback(0, 1)});
  ResolveQuery q = query(64, 4096);
  q.require = Match::exact;
  CHECK(ask(table, q).value().match == Match::exact);
  q.shape["rows"] = 65;
  CHECK(contains(refused(table, q, ErrorCode::no_match),
                 "require=exact refuses it: config ROWS=1 VEC=8 WARPS=4 of sm_90, the winner on "
                 "this device class at the nearest shape"));
  q.require = Match::nearest_shape;
  CHECK(ask(table, q).value().match == Match::nearest_shape);
  q.shape["cols"] = 1024;
  CHECK_FALSE(ask(table, q));
  q.require = Match::other_class;
  CHECK(ask(table, q).value().match == Match::other_class);
  q.shape["cols"] = 8;
  CHECK_FALSE(ask(table, q));
  q.require = Match::fallback;
  CHECK(ask(table, q).value().match == Match::fallback);
}

TEST_CASE("targets that cannot run are skipped, and among those that can the order is fixed") {
  const KernelTable slow = table_of({fallback(0, 1), tuned(k_here, 64, 4096, 9)});
  const KernelTable fast = table_of({fallback(0, 1), tuned(k_here, 64, 4096, 3)});
  const KernelTable untuned = table_of({fallback(0, 1)});
  const ResolveQuery q = query(64, 4096);
  const auto pick = [&](std::vector<ResolveTable> tables, const ResolveQuery& at) {
    return resolve(tables, at).value().target.text();
  };
  CHECK(pick({{target("sm_90"), &slow}, {target("sm_90a"), &fast}}, q) == "sm_90a");
  CHECK(pick({{target("sm_90"), &fast}, {target("sm_90a"), &slow}}, q) == "sm_90");
  CHECK(pick({{target("sm_90"), &slow}, {target("sm_90a"), &untuned}}, q) == "sm_90");
  CHECK(pick({{target("sm_90"), &untuned}, {target("sm_90a"), &untuned}}, q) == "sm_90a");
  CHECK(pick({{target("sm_120"), &fast}, {target("sm_90"), &untuned}}, q) == "sm_90");
  ResolveQuery blackwell = q;
  blackwell.device = DeviceClass::parse("sm120-s188-l128M-b512-m96G").value();
  CHECK(pick({{target("sm_120"), &untuned}, {target("sm_120f"), &untuned}}, blackwell) ==
        "sm_120f");

  const auto none = resolve(std::vector<ResolveTable>{{target("sm_120"), &fast}}, q);
  REQUIRE_FALSE(none);
  CHECK(none.error().code == ErrorCode::no_match);
  CHECK(contains(none.error().message, "capability 9.0: it has sm_120"));
  CHECK(resolve({}, q).error().code == ErrorCode::no_match);
}

TEST_CASE("a fallback for one device class serves no other") {
  KernelTable table = table_of({fallback(0, 8), fallback(1, 1)});
  table.entries[0].device_class = k_far;
  CHECK(ask(table, query(64, 4096)).value().entry->rank == 1);
  table.entries[0].device_class = k_here;
  CHECK(ask(table, query(64, 4096)).value().entry->rank == 0);
}

TEST_CASE("wrong names are usage errors with the nearest correct one") {
  const KernelTable table = table_of({fallback(0, 1)});
  ResolveQuery q = query(1, 1);
  q.types = {{"U", "f16"}};
  CHECK(contains(refused(table, q, ErrorCode::usage), "unknown type \"U\""));
  q.types = {{"T", "half"}};
  CHECK(contains(refused(table, q, ErrorCode::usage), "unknown dtype \"half\""));
  q.types = {{"T", "f64"}};
  CHECK(contains(refused(table, q, ErrorCode::no_match),
                 "no entry for T=f64: the release has (T=f16)"));
  q = query(1, 1);
  q.shape = {{"rows", 1}, {"colls", 1}};
  CHECK(contains(refused(table, q, ErrorCode::usage), "did you mean \"cols\"?"));
  q = query(1, 1);
  q.alignments = {{"z", 16}};
  CHECK(contains(refused(table, q, ErrorCode::usage), "unknown pointer argument \"z\""));
}

TEST_CASE("the nearest miss is told with its rule") {
  const KernelTable table = table_of({tuned(k_here, 64, 4096, 1, 8), fallback(0, 4)});
  ResolveQuery q = query(64, 4096);
  q.alignments = {};
  const std::string message = refused(table, q, ErrorCode::no_match);
  CHECK(contains(message,
                 "kernel rows: no entry serves cols=4096 rows=64; the nearest miss is: "
                 "config ROWS=1 VEC=8 WARPS=4"));
  CHECK(contains(message, "align(y) % 16 == 0"));
}
