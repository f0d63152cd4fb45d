// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <functional>
#include <random>

#include <catch2/catch_test_macros.hpp>

#include "core/table/resolve.hpp"
#include "tests/core/wire_fixture.hpp"

using namespace cubinary::core;
using namespace cubinary::core::test;

namespace {

// One entry of one table, as the oracle sees it.
struct Answer {
  Target target;
  const KernelTable* table;
  const TableEntry* entry;
  Match match;
};

double shape_distance(const KernelTable& table, const TableEntry& entry, const Shape& shape) {
  double sum = 0;
  if (entry.origin == Origin::tuned) {
    for (const Axis& axis : table.axes) {
      sum += std::fabs(std::log2((static_cast<double>(entry.shape.at(axis.name)) + 1) /
                                 (static_cast<double>(shape.at(axis.name)) + 1)));
    }
  }
  return sum;
}

double size_of(const TableEntry& entry) {
  double sum = 0;
  for (const auto& [axis, value] : entry.shape) {
    sum += std::log2(static_cast<double>(value) + 1);
  }
  return sum;
}

bool may_serve(const Answer& answer, const ResolveQuery& query) {
  const TableEntry& entry = *answer.entry;
  if (!answer.target.runs_on(query.device.capability) || entry.types != query.types ||
      answer.match > query.require) {
    return false;
  }
  for (const Axis& axis : answer.table->axes) {
    const auto at = entry.shape.find(axis.name);
    if (at != entry.shape.end() && at->second != query.shape.at(axis.name) &&
        (axis.compile || axis.bucket == Bucket::exact)) {
      return false;
    }
  }
  const LaunchScope scope = LaunchScope::make(*answer.table, entry.types, entry.config, query.shape,
                                              query.alignments, answer.target, query.facts)
                                .value();
  return check_rules(scope).ok;
}

Match match_of(const TableEntry& entry, const ResolveQuery& query) {
  if (entry.origin == Origin::fallback) {
    return Match::fallback;
  }
  if (entry.device_class != query.device.text()) {
    return Match::other_class;
  }
  return entry.shape == query.shape ? Match::exact : Match::nearest_shape;
}

// Narrows the answers by one criterion after the other, as the header lists them.
std::vector<Answer> oracle(std::span<const ResolveTable> tables, const ResolveQuery& query) {
  std::vector<Answer> answers;
  for (const ResolveTable& source : tables) {
    for (const TableEntry& entry : source.table->entries) {
      const Answer answer{source.target, source.table, &entry, match_of(entry, query)};
      if (may_serve(answer, query)) {
        answers.push_back(answer);
      }
    }
  }
  const std::vector<std::function<double(const Answer&)>> criteria = {
      [](const Answer& a) { return static_cast<double>(a.match); },
      [&](const Answer& a) {
        return a.match == Match::other_class
                   ? distance(DeviceClass::parse(a.entry->device_class).value(), query.device)
                   : 0;
      },
      [&](const Answer& a) { return shape_distance(*a.table, *a.entry, query.shape); },
      [](const Answer& a) { return -size_of(*a.entry); },
      [](const Answer& a) {
        return a.match == Match::fallback ? 0 : a.entry->time_us.value_or(HUGE_VAL);
      },
      [](const Answer& a) {
        return a.target.suffix() == TargetSuffix::architecture ? 0.0
               : a.target.suffix() == TargetSuffix::family     ? 1.0
                                                               : 2.0;
      },
      [](const Answer& a) { return static_cast<double>(-a.target.cc()); },
      [](const Answer& a) { return static_cast<double>(a.entry->rank); },
  };
  for (const auto& criterion : criteria) {
    double best = HUGE_VAL;
    for (const Answer& answer : answers) {
      best = std::min(best, criterion(answer));
    }
    std::erase_if(answers, [&](const Answer& answer) {
      const double value = criterion(answer);
      return value != best && !(std::fabs(value - best) < 1e-8);
    });
  }
  return answers;
}

class World {
 public:
  explicit World(unsigned seed) : m_random(seed) {}

  std::int64_t pick(std::initializer_list<std::int64_t> values) {
    return values.begin()[m_random() % values.size()];
  }
  std::string device() {
    const std::string_view classes[] = {"sm90-s132-l50M-b5120-m144G", "sm90-s114-l50M-b5120-m80G",
                                        "sm90-s100-l50M-b5120-m80G", "sm120-s188-l128M-b512-m96G",
                                        "sm120-s170-l96M-b512-m32G"};
    return std::string(classes[m_random() % std::size(classes)]);
  }
  Shape shape() {
    return {{"rows", pick({0, 1, 3, 7, 15, 63, 64, 4096})},
            {"cols", pick({8, 1001, 4096})},
            {"depth", pick({0, 1, 2, 5, 11, 31})}};
  }
  std::string dtype() { return pick({0, 1}) == 0 ? "f16" : "f32"; }

  KernelTable table() {
    KernelTable table = row_table();
    table.axes.push_back({"depth", {1}, Bucket::log2, false, {}});
    const std::int64_t count = pick({0, 1, 3, 8, 30});
    for (std::int64_t i = 0; i < count; ++i) {
      TableEntry entry = row_entry(dtype(), pick({1, 2, 4, 8}), pick({1, 2}), pick({1, 4, 32}));
      if (pick({0, 1, 2}) != 0) {
        entry.origin = Origin::tuned;
        entry.device_class = device();
        entry.shape = shape();
        if (pick({0, 1, 2, 3}) != 0) {
          entry.time_us = static_cast<double>(pick({1, 2, 3}));
        }
      } else {
        entry.rank = static_cast<int>(pick({0, 1, 2}));
      }
      table.entries.push_back(entry);
    }
    return table;
  }

  ResolveQuery query() {
    ResolveQuery q;
    q.types = {{"T", dtype()}};
    q.shape = shape();
    for (const std::string name : {"x", "y"}) {
      q.alignments[name] = pick({4, 8, 16, 256});
    }
    q.device = DeviceClass::parse(device()).value();
    q.facts = {100, 100'000};
    q.require = static_cast<Match>(pick({0, 1, 2, 3, 3, 3}));
    return q;
  }

 private:
  std::mt19937 m_random;
};

}  // namespace

TEST_CASE("resolve agrees with narrowing all entries one criterion after the other") {
  int answered = 0;
  std::array<int, 4> matches{};
  for (unsigned seed = 0; seed < 400; ++seed) {
    World world(seed);
    const std::vector<KernelTable> tables = {world.table(), world.table(), world.table(),
                                             world.table()};
    const std::vector<ResolveTable> sources = {{target("sm_90"), &tables[0]},
                                               {target("sm_90a"), &tables[1]},
                                               {target("sm_120"), &tables[2]},
                                               {target("sm_120f"), &tables[3]}};
    for (int round = 0; round < 5; ++round) {
      const ResolveQuery q = world.query();
      const std::vector<Answer> expected = oracle(sources, q);
      const auto choice = resolve(sources, q);
      INFO("seed " << seed << " round " << round);
      REQUIRE(choice.has_value() == !expected.empty());
      if (!choice) {
        CHECK(choice.error().code == ErrorCode::no_match);
        continue;
      }
      ++answered;
      ++matches[static_cast<std::size_t>(choice->match)];
      CHECK(choice->target.runs_on(q.device.capability));
      CHECK(choice->match <= q.require);
      CHECK(std::ranges::any_of(expected, [&](const Answer& answer) {
        return answer.entry == choice->entry && answer.target == choice->target &&
               answer.match == choice->match;
      }));
      // The planned launch of an answer is possible.
      CHECK(plan_launch(*choice->table, *choice->entry, q.shape, q.alignments, choice->target,
                        q.facts));
    }
  }
  // The worlds are no trivial ones. Compilers draw them in different orders: on Arm they are
  // others.
  CHECK(answered > 500);
  CHECK(*std::ranges::min_element(matches) > 2);
}

TEST_CASE("the answer depends neither on the order of entries nor on that of tables") {
  for (unsigned seed = 0; seed < 100; ++seed) {
    World world(seed);
    std::vector<KernelTable> tables = {world.table(), world.table()};
    const ResolveQuery q = world.query();
    const auto key = [&](bool swapped) {
      std::vector<ResolveTable> sources = {{target("sm_90"), &tables[0]},
                                           {target("sm_90a"), &tables[1]}};
      if (swapped) {
        std::ranges::reverse(sources);
      }
      const auto choice = resolve(sources, q);
      return choice ? choice->target.text() + " " + to_json(choice->entry->config) +
                          to_json(choice->entry->shape) + choice->entry->device_class
                    : choice.error().message.substr(0, 20);
    };
    const std::string before = key(false);
    for (KernelTable& table : tables) {
      std::ranges::reverse(table.entries);
    }
    CHECK(key(true) == before);
  }
}
