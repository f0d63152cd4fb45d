// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "builder/tune/search/space.hpp"
#include "core/base/result.hpp"

namespace cubinary::builder {

/// What an evaluation of one config came to.
struct SearchOutcome {
  enum class Kind : std::uint8_t {
    ok,
    compile_failed,
    failed,    ///< ran and was wrong, faulted, hung, or could not be launched
    withdrawn  ///< never evaluated (a lease was lost, a machine left): may be asked again
  };
  Kind kind = Kind::ok;
  double time_us = 0;  ///< median; > 0 when ok, or it counts as failed. Fewer samples of a dropped
                       ///< config are fine
};

/// What is known of the same kernel elsewhere: another device class, an earlier driver, a near
/// shape. All of its measurements are welcome, not only the best; the search finds out by itself
/// whether they mean anything here.
struct SearchPrior {
  std::string origin;  ///< for messages: "sm80-s108-…"
  struct Point {
    core::Config config;  ///< need not be in the space
    bool ok = true;
    double time_us = 0;
  };
  std::vector<Point> points;
};

enum class SearchStrategy : std::uint8_t {
  model,         ///< the default: a Gaussian process over log time and feasibility
  exhaustive,    ///< every config once, in the space's order
  random,        ///< every config once, in random order
  local_search,  ///< multi-start first-improvement
};
/// `model exhaustive random local-search`.
[[nodiscard]] std::string_view strategy_name(SearchStrategy strategy);
[[nodiscard]] core::Result<SearchStrategy> parse_strategy(std::string_view name);

struct SearchOptions {
  SearchStrategy strategy = SearchStrategy::model;
  std::uint64_t seed = 0;
  std::vector<SearchPrior> priors;
  /// Configs that every strategy begins with, in this order: the manifest's `prefer` ones and its
  /// default, so that what an untuned release runs is measured however short the time is.
  std::vector<core::Config> first;
};

/// Chooses which configs to try. An ask/tell machine without threads, clocks or I/O: the caller
/// compiles and measures. The same seed and the same tells give the same asks. Not thread-safe; the
/// space must outlive it.
///
/// ```
/// while (budget left && !search.finished()) {
///   for (ConfigIndex config : search.ask(free_slots)) { compile and measure, some time }
///   for (each result that came in) search.tell(config, outcome);
/// }
/// ```
class Search {
 public:
  [[nodiscard]] static std::unique_ptr<Search> make(const SearchSpace& space,
                                                    const SearchOptions& options = {});
  virtual ~Search() = default;
  Search(const Search&) = delete;
  Search& operator=(const Search&) = delete;

  /// Up to `count` configs to try next, never one that was asked or told before (unless
  /// withdrawn). Asking for several at once lets compilations overlap measurements; fewer come
  /// back when only the outstanding tells can say more, none when the space is used up.
  [[nodiscard]] std::vector<ConfigIndex> ask(std::size_t count);
  /// In any order; a config that was never asked for is welcome (a resumed session, a rival's).
  /// A second outcome of one config replaces the first.
  void tell(ConfigIndex config, const SearchOutcome& outcome);

  /// For the measurer, between samples: false when the config is clearly slower than the best one
  /// told so far, so that further samples are a waste.
  [[nodiscard]] bool worth_more(std::span<const double> samples_us) const;

  /// Every config was told.
  [[nodiscard]] bool finished() const { return m_told == m_space.size(); }
  /// True once nothing suggests that more evaluations would find a notably better config. A
  /// caller without a budget stops here.
  [[nodiscard]] virtual bool settled() const { return finished(); }

  [[nodiscard]] const SearchSpace& space() const { return m_space; }
  [[nodiscard]] std::size_t told() const { return m_told; }
  /// The fastest told so far, ties to the smaller index; none before the first ok.
  [[nodiscard]] std::optional<ConfigIndex> best() const { return m_best; }
  [[nodiscard]] double best_time_us() const { return m_best_time; }

 protected:
  enum class State : std::uint8_t { open, asked, ok, failed };
  explicit Search(const SearchSpace& space);

  /// One open config, or none when only outstanding tells can say more.
  [[nodiscard]] virtual std::optional<ConfigIndex> next() = 0;
  virtual void learn(ConfigIndex config, const SearchOutcome& outcome) = 0;

  [[nodiscard]] State state(ConfigIndex config) const { return m_state[config]; }
  [[nodiscard]] double time_us(ConfigIndex config) const { return m_times[config]; }

 private:
  void find_best();

  const SearchSpace& m_space;
  std::vector<State> m_state;
  std::vector<double> m_times;
  std::size_t m_told = 0;
  std::optional<ConfigIndex> m_best;
  double m_best_time = 0;
};

}  // namespace cubinary::builder
