// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <functional>

#include <catch2/catch_test_macros.hpp>

#include "core/base/json.hpp"
#include "core/table/catalogue_reader.hpp"
#include "core/table/kernel_table.hpp"
#include "tests/core/wire_fixture.hpp"

using namespace cubinary::core;
using namespace cubinary::core::test;

namespace {

std::string refused(const Catalogue& catalogue) {
  const auto read = catalogue_from_json(catalogue_to_json(catalogue));
  REQUIRE_FALSE(read);
  CHECK(read.error().code == ErrorCode::corrupt);
  return read.error().message;
}

// The golden catalogue with one piece of text changed.
Error refused_text(std::string_view from, std::string_view to) {
  std::string text = golden("catalogue.v1.json");
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  auto read = catalogue_from_json(text.replace(at, from.size(), to));
  REQUIRE_FALSE(read);
  return std::move(read).error();
}

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("the catalogue has the bytes of its golden file, in whatever order it was made") {
  Catalogue catalogue = sample_catalogue();
  CHECK(catalogue_to_json(catalogue) == golden("catalogue.v1.json"));
  std::ranges::reverse(catalogue.kernels[0].entries);
  CHECK(catalogue_to_json(catalogue) == golden("catalogue.v1.json"));
}

TEST_CASE("the golden catalogue is read whole") {
  const Catalogue catalogue = catalogue_from_json(golden("catalogue.v1.json")).value();
  CHECK(catalogue.release == "r1");
  CHECK(catalogue.target == target("sm_90"));
  CHECK(catalogue.toolkit == ToolkitVersion{13, 0});
  CHECK(catalogue.minimum_driver == 580);
  REQUIRE(catalogue.kernels.size() == 1);
  const KernelTable& table = catalogue.kernels[0];
  CHECK(table.name == "rows");
  CHECK(table.types.at(0).values == std::vector<std::string>{"f32", "f16", "bf16"});
  CHECK(table.axes.at(0).bucket == Bucket::log2);
  CHECK(table.axes.at(1).tune == std::vector<std::int64_t>{1024, 4096});
  CHECK(table.lets.at(0).second.expression.text() == "32 * WARPS");
  CHECK(table.arguments.at(0).kind == ArgumentKind::out);
  CHECK(table.arguments.at(1).vector->expression.text() == "VEC");
  CHECK(table.arguments.at(5).default_value == 1e-6);
  CHECK(table.steps.at(0).arguments == std::vector<std::size_t>{0, 1, 2, 3, 4, 5});
  CHECK(table.steps.at(0).launch.block.at(1).expression.text() == "ROWS");
  CHECK(table.pack == sha256("pack"));
  REQUIRE(table.entries.size() == 3);
  const TableEntry& tuned = table.entries[1];
  CHECK(tuned.origin == Origin::tuned);
  CHECK(tuned.shape == Shape{{"cols", 4096}, {"rows", 64}});
  CHECK(std::get<std::int64_t>(tuned.config.at("VEC")) == 8);
  CHECK(tuned.time_us == 4.25);
  CHECK(tuned.confidence == 0.0078125);
  CHECK(tuned.offset == 100);
  CHECK(tuned.symbols.at(0).max_threads == 1024);
  CHECK(tuned.provenance.at("driver") == "580.95.05");
  CHECK_FALSE(table.entries[0].time_us);
  CHECK(catalogue_to_json(catalogue) == golden("catalogue.v1.json"));
}

TEST_CASE("every kind of argument, step and value comes back") {
  KernelTable table = row_table();
  Argument scratch;
  scratch.name = "scratch";
  scratch.kind = ArgumentKind::workspace;
  scratch.type = "f32";
  scratch.length = expr("rows * 2");
  scratch.zeroed = true;
  Argument blob;
  blob.name = "blob";
  blob.kind = ArgumentKind::bytes;
  blob.byte_size = 128;
  blob.byte_align = 64;
  Argument map;
  map.name = "map";
  map.kind = ArgumentKind::handle;
  map.byte_size = 8;
  Argument mask;
  mask.name = "mask";
  mask.kind = ArgumentKind::inout;
  mask.type = "u8";
  mask.nullable = true;
  table.arguments.insert(table.arguments.end(), {scratch, blob, map, mask});
  table.interface = sha256(interface_text(table.arguments));
  table.axes.push_back({"head_dim", {64, 128}, Bucket::exact, true, {}});
  Step second = table.steps[0];
  second.name = "finish";
  second.launch.cooperative = true;
  second.launch.smem.reset();
  second.launch.cluster = {expr("2"), expr("1"), expr("1")};
  second.arguments = {6, 7, 8, 9};
  table.steps.push_back(second);
  TableEntry entry = row_entry("bf16", 1, 1, 1);
  entry.shape = {{"head_dim", 64}};
  entry.config["MODE"] = std::string("fast \"é\"");
  entry.config["UNROLL"] = true;
  entry.symbols.push_back(entry.symbols[0]);
  entry.rank = 3;
  table.entries = {entry};
  table.pack_raw_size = 100;

  const std::string json = table_to_json(table);
  const KernelTable read = table_from_json(json).value();
  CHECK(table_to_json(read) == json);
  CHECK(read.arguments[6].zeroed);
  CHECK(read.arguments[6].length->expression.text() == "rows * 2");
  CHECK(read.arguments[7].byte_size == 128);
  CHECK(read.arguments[7].byte_align == 64);
  CHECK(read.arguments[8].kind == ArgumentKind::handle);
  CHECK(read.arguments[8].byte_size == 8);
  CHECK(read.arguments[9].nullable);
  CHECK(read.axes[2].compile);
  CHECK(read.steps[1].launch.cooperative);
  CHECK(read.steps[1].launch.cluster.size() == 3);
  CHECK_FALSE(read.steps[1].launch.smem);
  CHECK(read.entries[0].config == entry.config);
  CHECK(read.entries[0].rank == 3);
}

TEST_CASE("a table alone may have no entries yet") {
  const KernelTable read = table_from_json(table_to_json(row_table())).value();
  CHECK(read.entries.empty());
  CHECK(read.rules.size() == 2);
}

TEST_CASE("a later version says that a newer program is needed") {
  const Error error = refused_text("\"catalogue\":1", "\"catalogue\":2");
  CHECK(error.code == ErrorCode::newer_format);
  CHECK(contains(error.message, "version 2"));
}

TEST_CASE("errors name the path of the member") {
  CHECK(refused_text("\"offset\":100", "\"offset\":-1").message ==
        "the catalogue: kernels[0].entries[1].offset: -1 is not between 0 and "
        "9223372036854775807");
  CHECK(contains(refused_text("\"kind\":\"out\"", "\"kind\":\"outt\"").message,
                 "kernels[0].arguments[0].kind: must be one of in, out, inout"));
  CHECK(contains(refused_text("\"32 * WARPS\"", "\"32 * * WARPS\"").message,
                 "kernels[0].lets[0].is: "));
  CHECK(contains(
      refused_text("\"sm_90\",\"toolkit\":\"13.0\"", "\"sm_90\",\"toolkit\":\"13\"").message,
      "toolkit"));
  CHECK(contains(refused_text("\"target\":\"sm_90\"", "\"target\":\"sm_9000\"").message,
                 "the catalogue: target"));
  CHECK(contains(refused_text("\"minimum_driver\":580", "\"minimum_driver\":1e99").message,
                 "minimum_driver"));
  CHECK(contains(refused_text("\"rank\":0,", "").message, "\"rank\" is missing"));
}

TEST_CASE("what a hostile catalogue could break is refused by place") {
  struct Case {
    std::function<void(KernelTable&)> change;
    std::string_view place;
  };
  constexpr std::uint64_t k_huge = (std::uint64_t{1} << 63U) - 1;
  const Case cases[] = {
      {[](KernelTable& t) { t.entries[0].offset = 101; }, "entries[0].offset"},
      {[](KernelTable& t) { t.entries[0].offset = k_huge; }, "entries[0].offset"},
      {[](KernelTable& t) { t.entries[0].size = k_huge; }, "entries[0].offset"},
      {[](KernelTable& t) { t.entries[0].size = 0; }, "entries[0].offset"},
      {[](KernelTable& t) { t.entries[0].symbols.clear(); }, "entries[0].symbols"},
      {[](KernelTable& t) { t.entries[0].symbols[0].symbol.clear(); }, "entries[0].symbols"},
      {[](KernelTable& t) { t.entries[0].symbols[0].symbol.assign("a\0b", 3); },
       "entries[0].symbols"},
      {[](KernelTable& t) { t.entries[0].symbols[0].max_threads = 4096; }, "entries[0].symbols"},
      {[](KernelTable& t) { t.steps[0].arguments.push_back(6); }, "steps[0].arguments"},
      {[](KernelTable& t) { t.steps[0].launch.grid.clear(); }, "steps[0].grid"},
      {[](KernelTable& t) { t.steps[0].launch.block.assign(4, expr("1")); }, "steps[0].block"},
      {[](KernelTable& t) { t.steps.clear(); }, "steps"},
      {[](KernelTable& t) { t.rules.push_back(expr("colls > 0")); }, "did you mean \"cols\"?"},
      {[](KernelTable& t) { t.rules.push_back(expr("align(n_rows) > 0")); }, "rules[2]"},
      {[](KernelTable& t) { t.rules.push_back(expr("sizeof(U) > 0")); }, "rules[2]"},
      {[](KernelTable& t) { t.rules.push_back(expr("target.nothing > 0")); }, "rules[2]"},
      {[](KernelTable& t) { t.lets.insert(t.lets.begin(), {"a", expr("threads")}); }, "lets[0].is"},
      {[](KernelTable& t) { t.lets.push_back({"rows", expr("1")}); }, "lets[1]"},
      {[](KernelTable& t) { t.lets.push_back({"WARPS", expr("1")}); }, "lets[1]"},
      {[](KernelTable& t) { t.axes[1].name = "rows"; }, "axes[1]"},
      {[](KernelTable& t) { t.types[0].values = {"f33"}; }, "types[0].values"},
      {[](KernelTable& t) { t.types[0].values.clear(); }, "types[0].values"},
      {[](KernelTable& t) { t.entries[0].types["T"] = "f64"; }, "].types"},
      {[](KernelTable& t) { t.entries[0].types["U"] = "f32"; }, "].types"},
      {[](KernelTable& t) { t.entries[0].shape["rows"] = 1; }, "].shape"},
      {[](KernelTable& t) { t.entries[1].shape.erase("rows"); }, "entries[1].shape"},
      {[](KernelTable& t) { t.entries[1].device_class = "H200"; }, "entries[1].device_class"},
      {[](KernelTable& t) { t.entries[1].device_class.clear(); }, "device_class"},
      {[](KernelTable& t) { t.entries[1].config.erase("VEC"); }, "entries[1].config"},
      {[](KernelTable& t) { t.entries[1].config["VEC"] = true; }, "entries[1].config"},
      {[](KernelTable& t) { t.entries[1].time_us = -1; }, "entries[1].time_us"},
      {[](KernelTable& t) { t.entries[1].confidence = -0.5; }, "entries[1].confidence"},
      {[](KernelTable& t) { t.name = "../x"; }, "name"},
      {[](KernelTable& t) { std::swap(t.arguments[0], t.arguments[2]); }, "interface"},
      {[](KernelTable& t) { t.arguments[2].type = "f16"; }, "interface"},
      {[](KernelTable& t) { t.arguments[3].name = "n cols"; }, "arguments[3].name"},
      {[](KernelTable& t) { t.arguments[4].name = "n_rows"; }, "arguments[4].name"},
      {[](KernelTable& t) { t.arguments[3].type = "V"; }, "arguments[3].type"},
      {[](KernelTable& t) { t.arguments[0].default_value = 1; }, "arguments[0]"},
      {[](KernelTable& t) { t.arguments[3].length = expr("1"); }, "arguments[3]"},
      {[](KernelTable& t) { t.arguments[5].default_value = 1e300; }, "arguments[5].default"},
  };
  for (const Case& hostile : cases) {
    Catalogue catalogue = sample_catalogue();
    hostile.change(catalogue.kernels[0]);
    const std::string message = refused(catalogue);
    INFO(message);
    CHECK(contains(message, "the catalogue: kernels[0]: "));
    CHECK(contains(message, hostile.place));
  }
}

TEST_CASE("kernels stand once each, in order") {
  Catalogue catalogue = sample_catalogue();
  catalogue.kernels.push_back(catalogue.kernels[0]);
  CHECK(contains(refused(catalogue), "sorted by name"));
  catalogue.kernels[1].name = "another";
  const Catalogue read = catalogue_from_json(catalogue_to_json(catalogue)).value();
  CHECK(read.kernels.at(0).name == "another");
}

TEST_CASE("the launch part of a manifest becomes a table") {
  constexpr std::string_view k_manifest = R"toml(manifest = 1
name = "scale"
summary = "y = a x"
source = "scale.cu"
entry = "scale<{T}>"
targets = ["sm_90"]
types.T = { values = ["f32"], macro = "TYPE" }
[axes]
n = { tune = [1024], bucket = "log2" }
[tunables]
WARPS = { values = [4, 8], default = 4, as = "launch" }
[launch]
grid = ["ceil_div(n, 32 * WARPS)"]
block = ["32 * WARPS"]
args = [
  { name = "y", out = "T", len = "n" },
  { name = "x", in = "T", len = "n", fill = "normal(0, 1)" },
  { name = "n", scalar = "i64", is = "n" },
  { name = "a", scalar = "T" },
]
[check]
reference = { entry = "scale_ref<{T}>", grid = ["n"], block = [1] }
tolerance = { f32 = [1e-5, 1e-6] }
)toml";
  const Manifest manifest = parse_manifest(k_manifest, "scale/kernel.toml").value();
  const KernelTable table = table_from_manifest(manifest);
  CHECK(table.interface == interface_digest(manifest));
  CHECK(table.steps.at(0).entry == "scale<{T}>");
  CHECK_FALSE(table.types.at(0).macro);
  CHECK(table.arguments.at(1).fill.empty());
  CHECK(table_to_json(table_from_json(table_to_json(table)).value()) == table_to_json(table));
}

TEST_CASE("a reader knows the kernels at once and reads the table that is asked for") {
  Catalogue catalogue = sample_catalogue();
  KernelTable other = catalogue.kernels[0];
  other.name = "zeros";
  other.entries.clear();
  catalogue.kernels.push_back(other);
  const std::string text = catalogue_to_json(catalogue);
  const auto reader = CatalogueReader::open(to_bytes(text)).value();
  CHECK(reader.release() == catalogue.release);
  CHECK(reader.target() == catalogue.target);
  CHECK(reader.toolkit() == catalogue.toolkit);
  CHECK(reader.minimum_driver() == catalogue.minimum_driver);
  REQUIRE(reader.kernels().size() == 2);
  for (std::size_t i = 0; i < 2; ++i) {
    const KernelTable& table = catalogue.kernels[i];
    CHECK(reader.kernels()[i].name == table.name);
    CHECK(reader.kernels()[i].pack == table.pack);
    CHECK(reader.kernels()[i].pack_size == table.pack_size);
    CHECK(reader.kernels()[i].empty == table.entries.empty());
    CHECK(table_to_json(reader.table(i).value()) == table_to_json(table));
  }
}

TEST_CASE("what is wrong with one table is told when it is read, as from the whole catalogue") {
  Catalogue catalogue = sample_catalogue();
  KernelTable other = catalogue.kernels[0];
  other.name = "zeros";
  catalogue.kernels.push_back(other);
  const std::string good = catalogue_to_json(catalogue);
  const auto changed = [&](std::string_view from, std::string_view to) {
    std::string text = good;
    text.replace(text.rfind(from), from.size(), to);
    return text;
  };
  for (const std::string& text :
       {changed("\"rank\":0", "\"rank\":-1"), changed("\"rank\":0", "\"rank\":00"),
        changed("\"rank\":0", "\"rank\":[}"), changed("\"rank\":0", "\"rank\":0,\"rank\":0")}) {
    const auto reader = CatalogueReader::open(to_bytes(text)).value();
    CHECK(reader.table(0));
    const auto bad = reader.table(1);
    const auto whole = catalogue_from_json(text);
    REQUIRE_FALSE(bad);
    REQUIRE_FALSE(whole);
    CHECK(bad.error().message == whole.error().message);
    CHECK(contains(bad.error().message, "kernels[1].entries["));
  }
  // Cut off inside a table: there is no catalogue at all.
  const auto cut = CatalogueReader::open(to_bytes(good.substr(0, good.size() / 4)));
  REQUIRE_FALSE(cut);
  CHECK(contains(cut.error().message, "kernels[0].entries["));
}
