// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include <catch2/catch_test_macros.hpp>

#include "core/launch/launch.hpp"
#include "tests/core/wire_fixture.hpp"

using namespace cubinary::core;
using namespace cubinary::core::test;

namespace {

using From = ParameterSource::From;
using Dimensions = std::array<std::uint32_t, 3>;

const Alignments k_aligned = {{"x", 256}, {"y", 256}, {"w", 256}};

Shape shape(std::int64_t rows, std::int64_t cols) {
  return {{"rows", rows}, {"cols", cols}};
}

Result<LaunchPlan> plan(const KernelTable& table, const TableEntry& entry, const Shape& at,
                        const Alignments& alignments = k_aligned) {
  return plan_launch(table, entry, at, alignments, target("sm_90"), {132, 232'448});
}

Error refused(const KernelTable& table, const TableEntry& entry, const Shape& at,
              const Alignments& alignments = k_aligned) {
  auto planned = plan(table, entry, at, alignments);
  REQUIRE_FALSE(planned);
  return std::move(planned).error();
}

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

template <typename T>
T value_of(const ParameterSource& source) {
  T value{};
  REQUIRE(source.from == From::constant);
  REQUIRE(source.size == sizeof(T));
  std::memcpy(&value, source.value.data(), sizeof(T));
  return value;
}

Argument argument(std::string name, ArgumentKind kind, std::string type = "") {
  Argument result;
  result.name = std::move(name);
  result.kind = kind;
  result.type = std::move(type);
  return result;
}

}  // namespace

TEST_CASE("a launch is planned from the table's expressions") {
  const LaunchPlan p = plan(row_table(), row_entry("f16", 8, 2, 4), shape(5, 4096)).value();
  REQUIRE(p.steps.size() == 1);
  const StepPlan& step = p.steps[0];
  CHECK(step.grid == Dimensions{3, 1, 1});
  CHECK(step.block == Dimensions{128, 2, 1});
  CHECK(step.cluster == Dimensions{0, 0, 0});
  CHECK(step.dynamic_smem == 32);
  CHECK_FALSE(step.empty);
  REQUIRE(step.parameters.size() == 6);
  CHECK(step.parameters[0].from == From::caller_pointer);
  CHECK(step.parameters[0].index == 0);
  CHECK(step.parameters[2].index == 2);
  CHECK(value_of<std::int32_t>(step.parameters[3]) == 5);
  CHECK(value_of<std::int32_t>(step.parameters[4]) == 4096);
  CHECK(step.parameters[5].from == From::caller_value);
  CHECK(step.parameters[5].index == 3);
  CHECK(step.parameters[5].size == 4);

  REQUIRE(p.arguments.size() == 4);
  CHECK(p.arguments[0].name == "y");
  CHECK(p.arguments[0].kind == ArgumentKind::out);
  CHECK(p.arguments[0].dtype == "f16");
  CHECK(p.arguments[0].buffer_bytes == 5 * 4096 * 2);
  CHECK(p.arguments[0].alignment == 256);
  CHECK(p.arguments[2].buffer_bytes == 4096 * 2);
  CHECK(p.arguments[3].dtype == "f32");
  float eps = 0;
  REQUIRE(p.arguments[3].default_value);
  std::memcpy(&eps, p.arguments[3].default_value->data(), sizeof(eps));
  CHECK(eps == 1e-6F);
  CHECK(p.workspace_bytes == 0);
}

TEST_CASE("an empty grid is a success without a launch") {
  const LaunchPlan p = plan(row_table(), row_entry("f32", 1, 1, 4), shape(0, 4096)).value();
  CHECK(p.steps.at(0).empty);
  CHECK(p.arguments.at(0).buffer_bytes == 0);
}

TEST_CASE("a rule that does not hold is named") {
  const Error error = refused(row_table(), row_entry("f16", 8, 1, 4), shape(3, 1001));
  CHECK(error.code == ErrorCode::no_match);
  CHECK(contains(error.message, "\"cols % VEC == 0\""));
  CHECK(contains(error.message, "cols=1001"));
  CHECK(contains(refused(row_table(), row_entry("f16", 1, 64, 32), shape(3, 1001)).message,
                 "threads * ROWS <= 1024"));
}

TEST_CASE("a vectorised pointer needs its alignment") {
  const TableEntry entry = row_entry("f16", 8, 1, 4);
  CHECK(contains(refused(row_table(), entry, shape(1, 64), {}).message, "align(y) % 16 == 0"));
  CHECK(contains(refused(row_table(), entry, shape(1, 64), {{"y", 16}, {"x", 8}, {"w", 2}}).message,
                 "align(x) % 16 == 0"));
  CHECK(plan(row_table(), entry, shape(1, 64), {{"y", 16}, {"x", 16}}));
  // Unstated means the element size, which serves VEC = 1.
  CHECK(plan(row_table(), row_entry("f16", 1, 1, 4), shape(1, 63), {})
            .value()
            .arguments[1]
            .alignment == 2);
}

TEST_CASE("shapes, types and alignments are checked by name") {
  const KernelTable table = row_table();
  const TableEntry entry = row_entry("f32", 1, 1, 4);
  const Error negative = refused(table, entry, shape(-1, 4));
  CHECK(negative.code == ErrorCode::usage);
  CHECK(contains(negative.message, "axis rows is -1"));
  CHECK(contains(refused(table, entry, {{"rows", 1}}).message, "cols"));
  CHECK(contains(refused(table, entry, {{"rows", 1}, {"cols", 1}, {"clos", 1}}).message,
                 "\"clos\" (did you mean \"cols\"?)"));
  CHECK(
      contains(refused(table, entry, shape(1, 4), {{"xx", 16}}).message, "(did you mean \"x\"?)"));
  CHECK(contains(refused(table, entry, shape(1, 4), {{"eps", 16}}).message, "\"eps\""));
  CHECK(contains(refused(table, entry, shape(1, 4), {{"x", 2}}).message, "argument x"));
  CHECK(contains(refused(table, entry, shape(1, 4), {{"x", 24}}).message, "power of two"));
  TableEntry other = entry;
  other.types = {{"T", "float16"}};
  CHECK(contains(refused(table, other, shape(1, 4)).message,
                 "unknown dtype \"float16\"; known are f64 f32 f16"));
}

TEST_CASE("values that do not fit are refused") {
  const TableEntry entry = row_entry("f32", 1, 1, 4);
  const Error rows = refused(row_table(), entry, shape(std::int64_t{1} << 31, 1));
  CHECK(contains(rows.message, "argument n_rows = rows: 2147483648 does not fit i32"));
  CHECK(refused(row_table(), entry, shape(std::int64_t{1} << 40, std::int64_t{1} << 40)).code ==
        ErrorCode::expression);
  KernelTable table = row_table();
  table.arguments[0].length = expr("9223372036854775807");
  CHECK(refused(table, entry, shape(1, 1)).code == ErrorCode::too_large);
  table.arguments[0].length = expr("rows - 2");
  CHECK(contains(refused(table, entry, shape(1, 1)).message, "len of y is -1"));
}

TEST_CASE("CUDA's limits hold in every dimension") {
  struct Case {
    std::vector<std::string_view> grid;
    std::vector<std::string_view> block;
    std::string_view message;  // empty: fits
  };
  const Case cases[] = {
      {{"2147483647"}, {"1"}, ""},
      {{"2147483648"}, {"1"}, "grid.x = 2147483648"},
      {{"1", "65535", "65535"}, {"1"}, ""},
      {{"1", "65536"}, {"1"}, "grid.y"},
      {{"1", "1", "65536"}, {"1"}, "grid.z"},
      {{"0 - 1"}, {"1"}, "grid.x = 0 - 1 = -1"},
      {{"1"}, {"1024"}, ""},
      {{"1"}, {"1025"}, "block.x"},
      {{"1"}, {"1", "1", "64"}, ""},
      {{"1"}, {"1", "1", "65"}, "block.z"},
      {{"1"}, {"32", "32", "2"}, "2048 threads is more than the 1024"},
      {{"1"}, {"0"}, "block.x = 0"},
      {{"0"}, {"0"}, ""},
  };
  for (const Case& limit : cases) {
    KernelTable table = row_table();
    table.steps[0].launch = {};
    for (const std::string_view text : limit.grid) {
      table.steps[0].launch.grid.push_back(expr(text));
    }
    for (const std::string_view text : limit.block) {
      table.steps[0].launch.block.push_back(expr(text));
    }
    const auto planned = plan(table, row_entry("f32", 1, 1, 1), shape(1, 1));
    INFO(limit.message);
    CHECK(planned.has_value() == limit.message.empty());
    if (!planned) {
      CHECK(planned.error().code == ErrorCode::unsupported);
      CHECK(contains(planned.error().message, limit.message));
    }
  }
}

TEST_CASE("the function's own limits hold") {
  TableEntry entry = row_entry("f32", 1, 1, 32);
  entry.symbols[0].max_threads = 512;
  CHECK(contains(refused(row_table(), entry, shape(1, 1)).message,
                 "1024 threads is more than the 512"));

  KernelTable table = row_table();
  table.steps[0].launch.smem = expr("target.smem_optin");
  entry.symbols[0] = {"k", 1024, 32, 0, 0};
  CHECK(plan(table, entry, shape(1, 1)).value().steps[0].dynamic_smem == 232'448);
  entry.symbols[0].static_smem = 16;
  CHECK(contains(refused(table, entry, shape(1, 1)).message, "16 of static shared memory"));
  table.steps[0].launch.smem = expr("0 - 4");
  CHECK(refused(table, entry, shape(1, 1)).code == ErrorCode::unsupported);
}

TEST_CASE("clusters divide the grid and need the silicon") {
  KernelTable table = row_table();
  table.steps[0].launch.cluster = {expr("2"), expr("1"), expr("1")};
  const TableEntry entry = row_entry("f32", 1, 1, 1);
  CHECK(plan(table, entry, shape(4, 1)).value().steps[0].cluster == Dimensions{2, 1, 1});
  CHECK(contains(refused(table, entry, shape(5, 1)).message, "cannot be divided"));
  CHECK(plan(table, entry, shape(0, 1)).value().steps[0].empty);
  const auto old = plan_launch(table, entry, shape(4, 1), {}, target("sm_80"), {});
  REQUIRE_FALSE(old);
  CHECK(contains(old.error().message, "sm_90 or later"));
  table.steps[0].launch.cluster = {expr("32")};
  CHECK_FALSE(plan(table, entry, shape(32, 1)));
  table.steps[0].launch.cluster = {expr("1"), expr("1")};
  const auto alone = plan_launch(table, entry, shape(5, 1), {}, target("sm_80"), {});
  CHECK(alone.value().steps[0].cluster == Dimensions{0, 0, 0});
}

TEST_CASE("workspace parts are packed, aligned and cleared as asked") {
  KernelTable table = row_table();
  Argument counts = argument("counts", ArgumentKind::workspace, "i32");
  counts.length = expr("rows");
  counts.zeroed = true;
  Argument partial = argument("partial", ArgumentKind::workspace, "f32");
  partial.length = expr("rows * cols");
  Argument none = argument("none", ArgumentKind::workspace, "f32");
  none.length = expr("0");
  none.zeroed = true;
  Argument last = argument("last", ArgumentKind::workspace, "T");
  last.length = expr("1");
  last.zeroed = true;
  table.arguments.insert(table.arguments.begin() + 1, {counts, partial, none, last});
  table.steps[0].arguments = {0, 1, 2, 3, 4, 5};
  const LaunchPlan p = plan(table, row_entry("f16", 1, 1, 1), shape(3, 65)).value();
  const auto& parameters = p.steps[0].parameters;
  CHECK(parameters[1].from == From::workspace);
  CHECK(parameters[1].offset == 0);
  CHECK(parameters[2].offset == 256);
  CHECK(parameters[3].offset == 1280);  // 256 + 780 rounded up
  CHECK(parameters[4].offset == 1280);
  CHECK(p.workspace_bytes == 1536);
  CHECK(p.zeroed == std::vector<std::pair<std::uint64_t, std::uint64_t>>{{0, 12}, {1280, 2}});
  // Workspace is not the caller's: x is still its second argument.
  CHECK(parameters[5].index == 1);
  CHECK(p.arguments.size() == 4);

  table.arguments[2].length = expr("9223372036854775807 / 4");
  CHECK(refused(table, row_entry("f16", 1, 1, 1), shape(3, 65)).code == ErrorCode::too_large);
}

TEST_CASE("several steps share arguments and workspace") {
  KernelTable table = row_table();
  Argument partial = argument("partial", ArgumentKind::workspace, "f32");
  partial.length = expr("rows");
  table.arguments.push_back(partial);
  table.steps[0].arguments = {6, 1};
  Step second = table.steps[0];
  second.name = "finish";
  second.launch.grid = {expr("cols")};
  second.launch.smem.reset();
  second.arguments = {0, 6, 5};
  table.steps.push_back(second);
  TableEntry entry = row_entry("f32", 1, 1, 1);
  entry.symbols.push_back({"finish", 16, 8, 0, 0});
  CHECK(contains(refused(table, entry, shape(2, 7)).message, "step finish: "));
  entry.symbols[1].max_threads = 32;
  const LaunchPlan p = plan(table, entry, shape(2, 7)).value();
  REQUIRE(p.steps.size() == 2);
  CHECK(p.steps[1].step == 1);
  CHECK(p.steps[1].grid == Dimensions{7, 1, 1});
  CHECK(p.steps[0].parameters[0].from == From::workspace);
  CHECK(p.steps[1].parameters[0].index == 0);
  CHECK(p.steps[1].parameters[2].index == 3);
  // Only the first has nothing to do.
  const LaunchPlan none = plan(table, entry, shape(0, 7)).value();
  CHECK(none.steps[0].empty);
  CHECK_FALSE(none.steps[1].empty);
  entry.symbols.pop_back();
  CHECK(refused(table, entry, shape(2, 7)).code == ErrorCode::corrupt);
}

TEST_CASE("structs and handles are passed by value") {
  KernelTable table = row_table();
  Argument blob = argument("params", ArgumentKind::bytes);
  blob.byte_size = 24;
  table.arguments = {blob, argument("map", ArgumentKind::handle),
                     argument("alpha", ArgumentKind::scalar, "T")};
  table.arguments[2].default_value = 0.5;
  table.steps[0].arguments = {0, 1, 2};
  const LaunchPlan p = plan(table, row_entry("bf16", 1, 1, 1), shape(1, 1), {}).value();
  CHECK(p.arguments[0].size == 24);
  CHECK(p.arguments[0].dtype.empty());
  CHECK(p.arguments[1].size == 8);
  CHECK(p.arguments[2].size == 2);
  CHECK(p.arguments[2].dtype == "bf16");
  CHECK(p.arguments[2].default_value == std::array<std::byte, 8>{std::byte{0x00}, std::byte{0x3F}});
  CHECK(p.steps[0].parameters[0].from == From::caller_value);
  CHECK(p.steps[0].parameters[0].size == 24);
}

TEST_CASE("expressions see target and device, when the device is known") {
  KernelTable table = row_table();
  table.steps[0].launch.grid = {expr("device.sm_count * 2")};
  const TableEntry entry = row_entry("f32", 1, 1, 1);
  CHECK(plan(table, entry, shape(1, 1)).value().steps[0].grid[0] == 264);
  const auto unknown = plan_launch(table, entry, shape(1, 1), {}, target("sm_90"), {});
  REQUIRE_FALSE(unknown);
  CHECK(contains(unknown.error().message, "number of SMs"));
  table.steps[0].launch.grid = {expr("target.cc")};
  CHECK(plan(table, entry, shape(1, 1)).value().steps[0].grid[0] == 90);
  table.rules = {expr("target.smem_optin >= 200000 && target.max_threads == 1024")};
  CHECK(plan_launch(table, entry, shape(1, 1), {}, target("sm_90"), {}));
}

TEST_CASE("a scope knows every name, and another config's values once it uses that") {
  const KernelTable table = row_table();
  const Types types = {{"T", "f16"}};
  const Shape at = shape(3, 1000);
  const Alignments aligned = {{"x", 16}};
  const Target sm90a = target("sm_90a");
  const TableEntry one = row_entry("f16", 8, 1, 4);
  const TableEntry other = row_entry("f16", 2, 4, 16);
  LaunchScope scope = LaunchScope::make(table, types, at, aligned, sm90a, {132, 232'448}).value();
  CHECK_FALSE(scope.find("VEC"));
  CHECK_FALSE(scope.find("threads"));
  REQUIRE(scope.use(one.config));
  CHECK(scope.find("VEC") == 8);
  CHECK(scope.find("threads") == 128);
  CHECK(check_rules(scope).broken == "align(y) % 16 == 0");
  REQUIRE(scope.use(other.config));
  CHECK(scope.find("VEC") == 2);
  CHECK(scope.find("threads") == 512);
  CHECK(check_rules(scope).broken == "threads * ROWS <= 1024");
  CHECK(scope.find("rows") == 3);
  CHECK(scope.find("sizeof(T)") == 2);
  CHECK(scope.find("sizeof(f64)") == 8);
  CHECK(scope.find("align(x)") == 16);
  CHECK(scope.find("align(w)") == 2);
  CHECK(scope.find("device.sm_count") == 132);
  CHECK(scope.find("target.smem_optin") == 232'448);
  CHECK(scope.find("target.cc") == 90);
  CHECK(scope.find("target.specific") == 1);
  for (const char* name :
       {"sizeof(U)", "align(rows)", "align(n_rows)", "target.x", "sizeof(T", "x"}) {
    CHECK_FALSE(scope.find(name));
  }
}

TEST_CASE("an error in a rule counts as not holding, one in a let names it") {
  KernelTable table = row_table();
  table.rules = {expr("cols / rows > 0")};
  const TableEntry entry = row_entry("f32", 1, 1, 1);
  CHECK(contains(refused(table, entry, shape(0, 1)).message, "cols / rows > 0"));
  table.lets = {{"bad", expr("1 / rows")}, {"threads", expr("32")}};
  CHECK(contains(refused(table, entry, shape(0, 1)).message, "let bad: "));
}

TEST_CASE("caller arguments are known without a shape") {
  const std::vector<CallerArgument> arguments = caller_arguments(row_table(), {{"T", "f16"}});
  REQUIRE(arguments.size() == 4);
  CHECK(arguments[1].name == "x");
  CHECK(arguments[1].dtype == "f16");
  CHECK(arguments[1].alignment == 2);
  CHECK(arguments[1].buffer_bytes == 0);
  CHECK(arguments[3].kind == ArgumentKind::scalar);
}
