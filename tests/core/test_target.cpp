// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>
#include <vector>

#include <catch2/catch_test_macros.hpp>

#include "core/model/target.hpp"

using namespace cubinary::core;

namespace {

Target target(const std::string& name) {
  auto parsed = Target::parse(name);
  REQUIRE(parsed.has_value());
  return *parsed;
}

bool runs(const char* name, int major, int minor) {
  return target(name).runs_on({major, minor});
}

}  // namespace

TEST_CASE("every known target parses to itself, in ascending order") {
  const std::vector<std::string> names(known_targets().begin(), known_targets().end());
  const std::vector<std::string> expected = {
      "sm_75",   "sm_80",   "sm_86",   "sm_87",   "sm_88",   "sm_89",   "sm_90",
      "sm_90a",  "sm_100",  "sm_100f", "sm_100a", "sm_101",  "sm_101f", "sm_101a",
      "sm_103",  "sm_103f", "sm_103a", "sm_110",  "sm_110f", "sm_110a", "sm_120",
      "sm_120f", "sm_120a", "sm_121",  "sm_121f", "sm_121a"};
  CHECK(names == expected);
  std::vector<Target> targets;
  for (const std::string& name : names) {
    targets.push_back(target(name));
    CHECK(targets.back().text() == name);
  }
  CHECK(std::ranges::is_sorted(targets));
}

TEST_CASE("an unknown target names the nearest") {
  const auto wrong = Target::parse("sm_121b");
  REQUIRE_FALSE(wrong.has_value());
  CHECK(wrong.error().code == ErrorCode::target);
  CHECK(wrong.error().message == "unknown target \"sm_121b\" (did you mean \"sm_121\"?)");
  for (const char* text : {"", "sm_", "120", "SM_120", "sm_90f", "sm_80a", "sm_120 ", "sm_0120",
                           "compute_90", "sm_70"}) {
    INFO(text);
    CHECK_FALSE(Target::parse(text).has_value());
  }
}

TEST_CASE("base code runs on later minors of its major, desktop and embedded apart") {
  CHECK(runs("sm_80", 8, 0));
  CHECK(runs("sm_80", 8, 6));
  CHECK(runs("sm_80", 8, 9));
  CHECK_FALSE(runs("sm_80", 8, 7));
  CHECK_FALSE(runs("sm_80", 8, 8));
  CHECK_FALSE(runs("sm_80", 9, 0));
  CHECK(runs("sm_86", 8, 9));
  CHECK_FALSE(runs("sm_86", 8, 0));
  CHECK(runs("sm_87", 8, 7));
  CHECK_FALSE(runs("sm_87", 8, 9));
  CHECK_FALSE(runs("sm_89", 8, 6));
  CHECK(runs("sm_90", 9, 0));
  CHECK(runs("sm_100", 10, 3));
  CHECK_FALSE(runs("sm_100", 10, 1));
  CHECK_FALSE(runs("sm_100", 12, 0));
  CHECK_FALSE(runs("sm_101", 11, 0));
  CHECK(runs("sm_110", 11, 0));
  CHECK(runs("sm_120", 12, 1));
  CHECK_FALSE(runs("sm_121", 12, 0));
  CHECK(runs("sm_120", 12, 5));  // a minor not yet known
  CHECK_FALSE(runs("sm_120", 13, 0));
}

TEST_CASE("`a` code runs on exactly its capability") {
  CHECK(runs("sm_90a", 9, 0));
  CHECK(runs("sm_120a", 12, 0));
  CHECK_FALSE(runs("sm_120a", 12, 1));
  CHECK_FALSE(runs("sm_100a", 10, 3));
  CHECK(runs("sm_121a", 12, 1));
}

TEST_CASE("`f` code runs on its family's later members") {
  CHECK(runs("sm_100f", 10, 0));
  CHECK(runs("sm_100f", 10, 3));
  CHECK_FALSE(runs("sm_100f", 10, 1));
  CHECK_FALSE(runs("sm_103f", 10, 0));
  CHECK(runs("sm_120f", 12, 1));
  CHECK_FALSE(runs("sm_121f", 12, 0));
  CHECK(runs("sm_121f", 12, 1));
  CHECK_FALSE(runs("sm_120f", 12, 5));  // whether it is of the family is not known
  CHECK_FALSE(runs("sm_120f", 10, 0));
}

TEST_CASE("a wider suffix never runs where the base does not") {
  for (const std::string& name : known_targets()) {
    const Target with = target(name);
    const Target base = target("sm_" + std::to_string(with.cc()));
    for (int major = 7; major <= 13; ++major) {
      for (int minor = 0; minor <= 9; ++minor) {
        if (with.runs_on({major, minor})) {
          INFO(name << " on " << major << "." << minor);
          CHECK(base.runs_on({major, minor}));
        }
      }
    }
  }
}

TEST_CASE("limits of the silicon") {
  struct Row {
    const char* name;
    std::int64_t smem_optin;
    std::int64_t threads_per_sm;
  };
  const Row rows[] = {{"sm_75", 65536, 1024},   {"sm_80", 166912, 2048},   {"sm_86", 101376, 1536},
                      {"sm_87", 166912, 1536},  {"sm_89", 101376, 1536},   {"sm_90a", 232448, 2048},
                      {"sm_100", 232448, 2048}, {"sm_103f", 232448, 2048}, {"sm_110", 232448, 1536},
                      {"sm_120", 101376, 1536}, {"sm_121a", 101376, 1536}};
  for (const Row& row : rows) {
    INFO(row.name);
    CHECK(target(row.name).limits().smem_optin == row.smem_optin);
    CHECK(target(row.name).limits().max_threads_per_sm == row.threads_per_sm);
    CHECK(target(row.name).limits().max_threads == 1024);
    CHECK(target(row.name).limits().regs == 65536);
  }
  CHECK(target("sm_120a").cc() == 120);
  CHECK(target("sm_90").cc() == 90);
}

TEST_CASE("toolkits and drivers") {
  CHECK(first_toolkit(target("sm_89")) == ToolkitVersion{11, 8});
  CHECK(first_toolkit(target("sm_90")) == ToolkitVersion{11, 8});
  CHECK(first_toolkit(target("sm_90a")) == ToolkitVersion{12, 0});
  CHECK(first_toolkit(target("sm_120")) == ToolkitVersion{12, 8});
  CHECK(first_toolkit(target("sm_120a")) == ToolkitVersion{12, 8});
  CHECK(first_toolkit(target("sm_120f")) == ToolkitVersion{12, 9});
  CHECK(first_toolkit(target("sm_103")) == ToolkitVersion{12, 9});
  CHECK(first_toolkit(target("sm_110f")) == ToolkitVersion{13, 0});
  CHECK(last_toolkit(target("sm_101a")) == ToolkitVersion{12, 9});
  CHECK(last_toolkit(target("sm_120")) == std::nullopt);
  CHECK(ToolkitVersion{13, 0}.text() == "13.0");

  CHECK(minimum_driver({12, 9}, target("sm_90")) == 525);
  CHECK(minimum_driver({12, 8}, target("sm_120")) == 570);
  CHECK(minimum_driver({12, 9}, target("sm_121")) == 575);
  CHECK(minimum_driver({13, 0}, target("sm_80")) == 580);
  CHECK(minimum_driver({13, 1}, target("sm_120")) == 580);
  CHECK(minimum_driver({13, 0}, target("sm_110")) == 580);
}
