// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <functional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "builder/tune/search/search.hpp"

using namespace cubinary;
using builder::ConfigIndex;
using builder::Search;
using builder::SearchOptions;
using builder::SearchOutcome;
using builder::SearchSpace;
using builder::SearchStrategy;
using Catch::Matchers::ContainsSubstring;
using Kind = SearchOutcome::Kind;

namespace {

core::TunableValue whole(std::int64_t value) {
  return value;
}

SearchSpace make_space(const std::vector<std::int64_t>& blocks,
                       const std::vector<std::int64_t>& tiles) {
  std::vector<builder::SearchTunable> tunables(4);
  tunables[0].name = "BLOCK";
  tunables[1].name = "TILE";
  tunables[2].name = "UNROLL";
  tunables[3].name = "MODE";
  std::vector<core::Config> configs;
  for (const std::int64_t block : blocks) {
    for (const std::int64_t tile : tiles) {
      for (const std::int64_t unroll : {1, 2, 3, 4}) {
        for (const char* mode : {"ldg", "async", "tma"}) {
          if (block * tile <= 2048) {
            configs.push_back({{"BLOCK", block},
                               {"TILE", tile},
                               {"UNROLL", unroll},
                               {"MODE", std::string(mode)}});
          }
        }
      }
    }
  }
  for (auto& tunable : tunables) {
    std::set<core::TunableValue> values;
    for (const auto& config : configs) {
      values.insert(config.at(tunable.name));
    }
    tunable.values.assign(values.rbegin(), values.rend());  // the space sorts them
  }
  tunables[0].changes_code = true;
  tunables[3].changes_code = true;
  auto space = SearchSpace::make(std::move(tunables), configs);
  REQUIRE(space.has_value());
  return std::move(*space);
}

/// BLOCK × TILE × UNROLL × MODE, without the largest tiles of large blocks: 396 configs.
SearchSpace make_space() {
  return make_space({256, 32, 48, 64, 96, 128, 192}, {1, 2, 4, 8, 16});
}

/// A part of it, 72 configs: a search that goes to the end of a space costs its size to the fourth.
SearchSpace make_small_space() {
  return make_space({32, 48, 128}, {4, 16});
}

/// A kernel with a best place: BLOCK 128, TILE 4, UNROLL 3, MODE async take 100 µs.
double time_of(const core::Config& config) {
  const auto number = [&](const char* name) {
    return static_cast<double>(std::get<std::int64_t>(config.at(name)));
  };
  const auto& mode = std::get<std::string>(config.at("MODE"));
  const bool aligned = std::get<std::int64_t>(config.at("BLOCK")) % 32 == 0;
  return 100 * std::exp(0.25 * std::pow(std::log2(number("BLOCK") / 128), 2) +
                        0.15 * std::pow(std::log2(number("TILE") / 4), 2) +
                        0.1 * std::abs(number("UNROLL") - 3) +
                        (mode == "async" ? 0
                         : mode == "tma" ? 0.3
                                         : 0.5) +
                        (aligned ? 0 : 0.4));
}

SearchOutcome evaluate(const SearchSpace& space, ConfigIndex config) {
  return {Kind::ok, time_of(space.config(config))};
}

/// Evaluations until the optimum was told; asks `batch` at a time.
std::size_t evaluations(const SearchSpace& space, const SearchOptions& options,
                        std::size_t batch = 1) {
  const auto search = Search::make(space, options);
  std::size_t count = 0;
  while (search->best_time_us() != 100) {
    const auto asked = search->ask(batch);
    REQUIRE_FALSE(asked.empty());
    for (const ConfigIndex config : asked) {
      ++count;
      search->tell(config, evaluate(space, config));
      if (search->best_time_us() == 100) {
        break;
      }
    }
  }
  return count;
}

std::size_t median_evaluations(const SearchSpace& space, SearchOptions options,
                               std::size_t batch = 1) {
  std::vector<std::size_t> counts;
  for (options.seed = 1; options.seed <= 5; ++options.seed) {
    counts.push_back(evaluations(space, options, batch));
  }
  std::sort(counts.begin(), counts.end());
  return counts[2];
}

std::vector<ConfigIndex> first_asks(const SearchSpace& space, const SearchOptions& options,
                                    std::size_t count) {
  const auto search = Search::make(space, options);
  std::vector<ConfigIndex> order;
  for (std::size_t i = 0; i < count; ++i) {
    const auto asked = search->ask(1);
    REQUIRE(asked.size() == 1);
    order.push_back(asked.front());
    search->tell(asked.front(), evaluate(space, asked.front()));
  }
  return order;
}

constexpr SearchStrategy k_all[] = {SearchStrategy::model, SearchStrategy::exhaustive,
                                    SearchStrategy::random, SearchStrategy::local_search};

}  // namespace

TEST_CASE("A space knows its configs, their neighbours and what shares a cubin") {
  const SearchSpace space = make_space();
  CHECK(space.size() == 396);
  CHECK(space.tunables()[0].values.front() == whole(32));
  const core::Config config{{"BLOCK", whole(128)},
                            {"TILE", whole(16)},
                            {"UNROLL", whole(1)},
                            {"MODE", std::string("tma")}};
  const auto index = space.find(config);
  REQUIRE(index);
  CHECK(space.config(*index) == config);
  // 4 blocks of at most 128 besides this one, 4 tiles, 3 unrolls, 2 modes.
  const auto near = space.neighbours(*index);
  CHECK(near.size() == 4 + 4 + 3 + 2);
  for (const ConfigIndex other : near) {
    const core::Config changed = space.config(other);
    CHECK(std::count_if(config.begin(), config.end(), [&](const auto& value) {
            return changed.at(value.first) != value.second;
          }) == 1);
    CHECK((space.code(other) == space.code(*index)) ==
          (changed.at("BLOCK") == config.at("BLOCK") && changed.at("MODE") == config.at("MODE")));
  }
  core::Config missing = config;
  missing["BLOCK"] = whole(256);
  CHECK_FALSE(space.find(missing));
}

TEST_CASE("Every strategy begins with the configs it is given, in their order") {
  const SearchSpace space = make_space();
  const ConfigIndex given[] = {300, 7, 150};
  for (const SearchStrategy strategy : k_all) {
    SearchOptions options;
    options.strategy = strategy;
    for (const ConfigIndex index : given) {
      options.first.push_back(space.config(index));
    }
    options.first.push_back(space.config(7));        // again
    options.first.push_back({{"BLOCK", whole(3)}});  // none of the space
    const auto search = Search::make(space, options);
    for (const ConfigIndex index : given) {
      CAPTURE(builder::strategy_name(strategy), index);
      const auto asked = search->ask(1);
      REQUIRE(asked.size() == 1);
      CHECK(asked.front() == index);
      // No better than its neighbours: else a local search would look at those first.
      search->tell(index, {Kind::failed, 0});
    }
    std::set<ConfigIndex> rest;
    for (auto asked = search->ask(1); !asked.empty(); asked = search->ask(1)) {
      rest.insert(asked.front());
      search->tell(asked.front(), {Kind::failed, 0});
    }
    CHECK(rest.size() == space.size() - std::size(given));
  }
}

TEST_CASE("A space refuses what is no space") {
  builder::SearchTunable vec{"VEC", {whole(1), whole(2)}, true};
  const auto error = [&](const std::vector<core::Config>& configs) {
    const auto made = SearchSpace::make({vec}, configs);
    REQUIRE_FALSE(made.has_value());
    return made.error().message;
  };
  CHECK_THAT(error({}), ContainsSubstring("no config"));
  CHECK_THAT(error({{{"VEC", whole(4)}}}), ContainsSubstring("4 is not among the values of VEC"));
  CHECK_THAT(error({{{"VEX", whole(1)}}}), ContainsSubstring("says nothing of VEC"));
  CHECK_THAT(error({{{"VEC", whole(1)}, {"VEX", whole(1)}}}),
             ContainsSubstring("no tunable VEX (did you mean \"VEC\"?)"));
  const auto twice = SearchSpace::make({vec}, std::vector<core::Config>(2, {{"VEC", whole(1)}}));
  REQUIRE(twice.has_value());
  CHECK(twice->size() == 1);
}

TEST_CASE("Every strategy asks for every config once, however many are outstanding") {
  const SearchSpace space = make_small_space();
  for (const SearchStrategy strategy : k_all) {
    CAPTURE(builder::strategy_name(strategy));
    SearchOptions options;
    options.strategy = strategy;
    options.seed = 7;
    const auto search = Search::make(space, options);
    std::set<ConfigIndex> seen;
    std::vector<ConfigIndex> outstanding;
    while (!search->finished()) {
      const auto asked = search->ask(7);
      for (const ConfigIndex config : asked) {
        CHECK(seen.insert(config).second);
        outstanding.push_back(config);
      }
      REQUIRE_FALSE(outstanding.empty());
      // Told late and out of order; a third of them fail.
      const std::size_t keep = asked.empty() ? 0 : 3;
      while (outstanding.size() > keep) {
        const ConfigIndex config = outstanding.back();
        outstanding.pop_back();
        search->tell(config,
                     config % 3 == 0 ? SearchOutcome{Kind::failed, 0} : evaluate(space, config));
      }
    }
    CHECK(seen.size() == space.size());
    CHECK(search->ask(1).empty());
    CHECK(search->settled());
  }
}

TEST_CASE("Nothing works: a search ends without a best config") {
  const SearchSpace space = make_small_space();
  for (const SearchStrategy strategy : k_all) {
    SearchOptions options;
    options.strategy = strategy;
    const auto search = Search::make(space, options);
    while (!search->finished()) {
      const auto asked = search->ask(1);
      REQUIRE(asked.size() == 1);
      search->tell(asked.front(), {Kind::compile_failed, 0});
    }
    CHECK_FALSE(search->best());
  }
}

TEST_CASE("The same seed asks the same, another one something else") {
  const SearchSpace space = make_space();
  for (const SearchStrategy strategy :
       {SearchStrategy::model, SearchStrategy::random, SearchStrategy::local_search}) {
    SearchOptions options;
    options.strategy = strategy;
    options.seed = 3;
    const auto once = first_asks(space, options, 40);
    CHECK(first_asks(space, options, 40) == once);
    options.seed = 4;
    CHECK(first_asks(space, options, 40) != once);
  }
}

TEST_CASE("What was withdrawn is asked again, what is told twice counts once") {
  const SearchSpace space = make_small_space();
  for (const SearchStrategy strategy : k_all) {
    SearchOptions options;
    options.strategy = strategy;
    const auto search = Search::make(space, options);
    const ConfigIndex lost = search->ask(1).front();
    search->tell(lost, {Kind::withdrawn, 0});
    CHECK(search->told() == 0);
    std::set<ConfigIndex> seen;
    while (!search->finished()) {
      const ConfigIndex config = search->ask(1).front();
      seen.insert(config);
      search->tell(config, evaluate(space, config));
    }
    CHECK(seen.contains(lost));
    const ConfigIndex best = *search->best();
    search->tell(best, {Kind::failed, 0});
    CHECK(search->told() == space.size());
    CHECK(search->best() != best);
    search->tell(best, {Kind::ok, 50});
    CHECK(search->best() == best);
    CHECK(search->best_time_us() == 50);
  }
}

TEST_CASE("The first configs are the caller's, in order") {
  const SearchSpace space = make_space();
  SearchOptions options;
  options.first = {space.config(17), space.config(5)};
  const auto asked = first_asks(space, options, 2);
  CHECK(asked == std::vector<ConfigIndex>{17, 5});
}

TEST_CASE("A clearly slower config is dropped early, a near one is not") {
  const SearchSpace space = make_space();
  const auto search = Search::make(space);
  const std::vector<double> slow(3, 150);
  CHECK(search->worth_more(slow));  // nothing to compare with
  search->tell(0, {Kind::ok, 100});
  CHECK_FALSE(search->worth_more(slow));
  CHECK(search->worth_more(std::vector<double>(2, 500)));
  CHECK(search->worth_more(std::vector<double>{160, 170, 130}));
  CHECK_FALSE(search->worth_more(std::vector<double>(8, 120)));
  CHECK(search->worth_more(std::vector<double>(100, 110)));
}

TEST_CASE("The model finds the optimum with far fewer evaluations than the others") {
  const SearchSpace space = make_space();
  SearchOptions options;
  const std::size_t model = median_evaluations(space, options);
  const std::size_t in_batches = median_evaluations(space, options, 8);
  options.strategy = SearchStrategy::random;
  const std::size_t random = median_evaluations(space, options);
  options.strategy = SearchStrategy::local_search;
  const std::size_t local = median_evaluations(space, options);
  CAPTURE(model, in_batches, local, random);
  CHECK(model * 3 <= random);
  CHECK(model <= local);
  CHECK(in_batches * 2 <= random);
}

TEST_CASE("A prior that is right is followed, one that is wrong is dropped") {
  const SearchSpace space = make_space();
  SearchOptions plain;
  const std::size_t unseeded = median_evaluations(space, plain);
  const auto seeded = [&](const std::function<double(double)>& change) {
    SearchOptions options;
    options.priors.push_back({"another GPU", {}});
    for (ConfigIndex config = 0; config < space.size(); ++config) {
      const core::Config values = space.config(config);
      options.priors.front().points.push_back({values, true, change(time_of(values))});
    }
    return options;
  };
  CHECK(median_evaluations(space, seeded([](double time) { return 3 * time; })) == 1);
  const std::size_t misled = median_evaluations(space, seeded([](double t) { return 1e4 / t; }));
  CAPTURE(unseeded, misled);
  CHECK(misled <= 2 * unseeded + 6);

  // Winners alone are starting points.
  SearchOptions winner;
  winner.priors.push_back({"a winner", {{space.config(200), true, 9}}});
  CHECK(first_asks(space, winner, 1).front() == 200);

  // A prior of something else says nothing at all.
  SearchOptions other;
  other.priors.push_back({"another kernel", {{{{"STAGES", whole(2)}}, true, 5}}});
  CHECK(first_asks(space, other, 30) == first_asks(space, plain, 30));

  // Nor does one that shares only some of its tunables.
  SearchOptions partly;
  partly.priors.push_back({"another kernel", {}});
  for (ConfigIndex config = 0; config < space.size(); ++config) {
    core::Config values = space.config(config);
    const double time = time_of(values);
    values.erase("MODE");
    values.erase("UNROLL");
    values.emplace("STAGES", std::int64_t{2});
    partly.priors.front().points.push_back({values, true, time});
  }
  CHECK(first_asks(space, partly, 30) == first_asks(space, plain, 30));
}

TEST_CASE("After a prior's best, each tunable is tried at another value where the prior was fast") {
  const SearchSpace space = make_space();
  SearchOptions options;
  options.priors.push_back({"another GPU", {}});
  for (ConfigIndex config = 0; config < space.size(); ++config) {
    const core::Config values = space.config(config);
    options.priors.front().points.push_back({values, true, time_of(values)});
  }
  const auto asked = first_asks(space, options, 3 + 4);
  const core::Config best = space.config(asked.front());
  for (const auto& [name, value] : best) {
    CAPTURE(name);
    CHECK(std::ranges::any_of(
        asked, [&](ConfigIndex config) { return space.config(config).at(name) != value; }));
  }
}

TEST_CASE("Spaces without a shape: flat, a needle, noise, most of it failing, two configs, many") {
  const SearchSpace space = make_space();
  const auto run = [](const SearchSpace& over, std::size_t most, const auto& outcome) {
    const auto search = Search::make(over);
    for (std::size_t i = 0; i < most && !search->finished(); ++i) {
      const auto asked = search->ask(1);
      REQUIRE(asked.size() == 1);
      search->tell(asked.front(), outcome(asked.front()));
    }
    REQUIRE(search->best());
    return std::pair(*search->best(), search->settled());
  };
  // Flat: nothing to find, and that is seen.
  CHECK(run(space, 100, [](ConfigIndex) { return SearchOutcome{Kind::ok, 10}; }).second);
  // A needle nobody could guess is found when all was seen, not missed.
  const SearchSpace small = make_small_space();
  CHECK(run(small, small.size(), [](ConfigIndex config) {
          return SearchOutcome{Kind::ok, config == 41 ? 1.0 : 100.0};
        }).first == 41);
  // A fifth of noise: the choice is still one of the good ones.
  std::mt19937_64 random(3);
  const auto noisy = run(space, 90, [&](ConfigIndex config) {
    const double unit = static_cast<double>(random() >> 11U) * 0x1p-53;
    return SearchOutcome{Kind::ok, time_of(space.config(config)) * (0.8 + 0.4 * unit)};
  });
  CHECK(time_of(space.config(noisy.first)) <= 130);
  // Three of five fail.
  const auto failing = run(space, 120, [&](ConfigIndex config) {
    return config * 7 % 5 < 3 ? SearchOutcome{Kind::failed, 0}
                              : SearchOutcome{Kind::ok, time_of(space.config(config))};
  });
  CHECK(time_of(space.config(failing.first)) <= 130);
  // Two configs.
  const auto two =
      SearchSpace::make({{"V", {whole(1), whole(2)}, true}},
                        std::vector<core::Config>{{{"V", whole(1)}}, {{"V", whole(2)}}});
  REQUIRE(two.has_value());
  CHECK(run(*two, 2, [](ConfigIndex config) {
          return SearchOutcome{Kind::ok, config == 1 ? 1.0 : 2.0};
        }).first == 1);
  // 160,000 configs of which a handful is looked at.
  std::vector<builder::SearchTunable> tunables;
  for (const char* name : {"A", "B", "C", "D"}) {
    tunables.push_back({name, {}, true});
    for (std::int64_t value = 0; value < 20; ++value) {
      tunables.back().values.push_back(whole(value));
    }
  }
  std::vector<core::Config> configs;
  for (std::int64_t i = 0; i < 160'000; ++i) {
    configs.push_back({{"A", whole(i % 20)},
                       {"B", whole(i / 20 % 20)},
                       {"C", whole(i / 400 % 20)},
                       {"D", whole(i / 8000)}});
  }
  const auto many = SearchSpace::make(std::move(tunables), configs);
  REQUIRE(many.has_value());
  const auto distance = [&](ConfigIndex config) {
    double sum = 0;
    for (const auto value : many->point(config)) {
      sum += std::abs(static_cast<double>(value) - 12) / 20;
    }
    return 100 * (1 + sum);
  };
  const auto found =
      run(*many, 60, [&](ConfigIndex config) { return SearchOutcome{Kind::ok, distance(config)}; });
  CHECK(distance(found.first) <= 125);
}

TEST_CASE("A search that has seen the best settles long before it has seen everything") {
  const SearchSpace space = make_space();
  const auto search = Search::make(space);
  std::size_t count = 0;
  while (!search->settled()) {
    const ConfigIndex config = search->ask(1).front();
    search->tell(config, evaluate(space, config));
    ++count;
  }
  CHECK(search->best_time_us() == 100);
  CHECK(count < space.size());
}

TEST_CASE("One config, and tunables without a choice") {
  const auto space = SearchSpace::make({{"VEC", {whole(4)}, true}},
                                       std::vector<core::Config>{{{"VEC", whole(4)}}});
  REQUIRE(space.has_value());
  for (const SearchStrategy strategy : k_all) {
    SearchOptions options;
    options.strategy = strategy;
    const auto search = Search::make(*space, options);
    CHECK(search->ask(4) == std::vector<ConfigIndex>{0});
    CHECK(search->ask(1).empty());
    search->tell(0, {Kind::ok, 1});
    CHECK(search->finished());
  }
}

TEST_CASE("Strategies have names") {
  for (const SearchStrategy strategy : k_all) {
    CHECK(builder::parse_strategy(builder::strategy_name(strategy)) == strategy);
  }
  const auto wrong = builder::parse_strategy("local");
  REQUIRE_FALSE(wrong.has_value());
  CHECK_THAT(wrong.error().message, ContainsSubstring("local-search"));
}

TEST_CASE("Two configs, alike configs and times that are no numbers are borne") {
  const auto two =
      SearchSpace::make({{"VEC", {whole(1), whole(2)}, true}},
                        std::vector<core::Config>{{{"VEC", whole(1)}}, {{"VEC", whole(2)}}});
  REQUIRE(two.has_value());
  const SearchSpace small = make_small_space();
  for (const SearchStrategy strategy : k_all) {
    CAPTURE(builder::strategy_name(strategy));
    SearchOptions options;
    options.strategy = strategy;
    const auto pair = Search::make(*two, options);
    while (!pair->finished()) {
      const ConfigIndex config = pair->ask(1).at(0);
      pair->tell(config, {Kind::ok, config == 0 ? 2.0 : 1.0});
    }
    CHECK(pair->best() == 1);

    // Every time the same: nothing to learn, and still each config once.
    const auto flat = Search::make(small, options);
    std::set<ConfigIndex> seen;
    for (std::size_t i = 0; i < 40; ++i) {
      const ConfigIndex config = flat->ask(1).at(0);
      CHECK(seen.insert(config).second);
      flat->tell(config, {Kind::ok, 7.0});
    }
    CHECK(flat->best_time_us() == 7.0);

    // What is no time is a failure: it can neither win nor spoil a model.
    const auto odd = Search::make(small, options);
    const double no_times[] = {std::nan(""), -1, 0, INFINITY};
    for (std::size_t i = 0; i < 40; ++i) {
      const ConfigIndex config = odd->ask(1).at(0);
      odd->tell(config, i % 3 == 0 ? SearchOutcome{Kind::ok, no_times[i / 3 % 4]}
                                   : evaluate(small, config));
    }
    REQUIRE(odd->best());
    CHECK(odd->best_time_us() >= 100);
    CHECK(odd->told() == 40);
  }
}
