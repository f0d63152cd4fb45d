// SPDX-License-Identifier: Apache-2.0
// search FILE.csv.gz... [--seed-from FILE] [--strategy S] [--seeds N] [--samples N] [--limit N]
// [--json]
//
// Replays recorded tuning spaces: how many evaluations, failures included, a search strategy needs
// until the config it would choose, the fastest measured, is in truth within 5% and 1% of the
// optimum; beside it the same for random search. Medians over seeds; geometric means over spaces
// last.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "bench/recorded_space.hpp"
#include "core/base/json.hpp"

namespace {

using namespace cubinary;
using core::Result;

struct Arguments {
  std::vector<std::string> files;
  std::string seed_from;
  builder::SearchStrategy strategy = builder::SearchStrategy::model;
  std::uint64_t seeds = 61;
  std::uint64_t samples = 7;  ///< single measurements an evaluation
  std::uint64_t limit = 500;  ///< evaluations a run of a strategy other than random
  bool json = false;
};

Result<std::uint64_t> whole(std::string_view option, std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value == 0) {
    return core::fail(core::ErrorCode::usage,
                      std::string(option) + " takes a whole number of at least 1");
  }
  return value;
}

Result<Arguments> parse(const std::vector<std::string>& words) {
  Arguments arguments;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (word == "--json") {
      arguments.json = true;
      continue;
    }
    if (!word.starts_with("--")) {
      arguments.files.push_back(word);
      continue;
    }
    if (i + 1 == words.size()) {
      return core::fail(core::ErrorCode::usage, "nothing follows " + word);
    }
    const std::string& value = words[++i];
    if (word == "--seed-from") {
      arguments.seed_from = value;
    } else if (word == "--strategy") {
      TRY_ASSIGN(arguments.strategy, builder::parse_strategy(value));
    } else if (word == "--seeds") {
      TRY_ASSIGN(arguments.seeds, whole(word, value));
    } else if (word == "--samples") {
      TRY_ASSIGN(arguments.samples, whole(word, value));
    } else if (word == "--limit") {
      TRY_ASSIGN(arguments.limit, whole(word, value));
    } else {
      return core::fail(core::ErrorCode::usage, "there is no option " + word);
    }
  }
  if (arguments.files.empty()) {
    return core::fail(
        core::ErrorCode::usage,
        "usage: search FILE.csv.gz... [--seed-from FILE] [--strategy model|exhaustive|"
        "random|local-search] [--seeds N] [--samples N] [--limit N] [--json]");
  }
  return arguments;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

struct Medians {
  double within_5 = 0;
  double within_1 = 0;
  double ask_ms = 0;  ///< mean time of an ask and its tell
};

Medians run(const bench::RecordedSpace& recorded, const Arguments& arguments,
            builder::SearchStrategy strategy, const std::vector<builder::SearchPrior>& priors) {
  std::vector<double> within_5;
  std::vector<double> within_1;
  double asks = 0;
  double seconds = 0;
  for (std::uint64_t seed = 1; seed <= arguments.seeds; ++seed) {
    builder::SearchOptions options;
    options.strategy = strategy;
    options.seed = seed;
    options.priors = priors;
    const std::uint64_t limit = strategy == builder::SearchStrategy::random ||
                                        strategy == builder::SearchStrategy::exhaustive
                                    ? recorded.space.size()
                                    : arguments.limit;
    const bench::Replay one = bench::replay(recorded, options, arguments.samples, limit);
    within_5.push_back(one.within_5);
    within_1.push_back(one.within_1);
    asks += one.asks;
    seconds += one.seconds;
  }
  return {median(within_5), median(within_1), 1000 * seconds / asks};
}

/// A geometric mean in the making.
class Mean {
 public:
  void add(double value) {
    m_log_sum += std::log(value);
    ++m_count;
  }
  [[nodiscard]] double value() const { return std::exp(m_log_sum / m_count); }

 private:
  double m_log_sum = 0;
  double m_count = 0;
};

/// What never came within the bound in half of the runs shows as more than the limit.
std::string count(double value, double beyond) {
  char text[32];
  std::snprintf(text, sizeof text, value >= beyond ? ">%.0f" : "%.0f",
                value >= beyond ? beyond : value);
  return text;
}

Result<void> main_part(const Arguments& arguments) {
  std::vector<builder::SearchPrior> priors;
  if (!arguments.seed_from.empty()) {
    TRY_ASSIGN(const auto other, bench::RecordedSpace::read(arguments.seed_from));
    priors.push_back(other.as_prior());
  }
  const std::string strategy(builder::strategy_name(arguments.strategy));
  if (!arguments.json) {
    std::printf("%s%s%s, medians of %llu seeds, %llu samples an evaluation\n", strategy.c_str(),
                priors.empty() ? "" : " seeded from ",
                priors.empty() ? "" : priors.front().origin.c_str(),
                static_cast<unsigned long long>(arguments.seeds),
                static_cast<unsigned long long>(arguments.samples));
    std::printf("%-28s %8s  %8s %8s  %9s %9s  %7s\n", "space", "configs", "to 5%", "to 1%",
                "random 5%", "random 1%", "ms/ask");
  }
  Mean mean_5;
  Mean mean_1;
  Mean random_5;
  Mean random_1;
  for (const std::string& file : arguments.files) {
    TRY_ASSIGN(const auto recorded, bench::RecordedSpace::read(file));
    const Medians ours = run(recorded, arguments, arguments.strategy, priors);
    const Medians random = run(recorded, arguments, builder::SearchStrategy::random, {});
    mean_5.add(ours.within_5);
    mean_1.add(ours.within_1);
    random_5.add(random.within_5);
    random_1.add(random.within_1);
    if (arguments.json) {
      const core::json::Object line{
          {"space", recorded.name},         {"configs", recorded.space.size()},
          {"strategy", strategy},           {"seeds", arguments.seeds},
          {"5pct", ours.within_5},          {"1pct", ours.within_1},
          {"random_5pct", random.within_5}, {"random_1pct", random.within_1},
          {"ask_ms", ours.ask_ms}};
      std::printf("%s\n", core::json::to_text(line).c_str());
    } else {
      const bool limited = arguments.strategy == builder::SearchStrategy::model ||
                           arguments.strategy == builder::SearchStrategy::local_search;
      const double all = static_cast<double>(recorded.space.size());
      const double most = limited ? std::min(all, static_cast<double>(arguments.limit) + 1) : all;
      std::printf("%-28s %8zu  %8s %8s  %9s %9s  %7.2f\n", recorded.name.c_str(),
                  recorded.space.size(), count(ours.within_5, most).c_str(),
                  count(ours.within_1, most).c_str(), count(random.within_5, all).c_str(),
                  count(random.within_1, all).c_str(), ours.ask_ms);
    }
    std::fflush(stdout);
  }
  if (arguments.json) {
    const core::json::Object last{
        {"geomean", core::json::Object{{"5pct", mean_5.value()}, {"1pct", mean_1.value()}}},
        {"random", core::json::Object{{"5pct", random_5.value()}, {"1pct", random_1.value()}}}};
    std::printf("%s\n", core::json::to_text(last).c_str());
  } else {
    std::printf("%-28s %8s  %8.1f %8.1f  %9.1f %9.1f\n", "geometric mean", "", mean_5.value(),
                mean_1.value(), random_5.value(), random_1.value());
  }
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  const auto arguments = parse({argv + 1, argv + argc});
  const auto done = arguments ? main_part(*arguments) : Result<void>(core::fail(arguments.error()));
  if (!done) {
    std::fprintf(stderr, "search: %s\n", done.error().message.c_str());
    return core::error_info(done.error().code).exit_status;
  }
  return 0;
}
