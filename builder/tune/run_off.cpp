// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <optional>
#include <random>
#include <utility>

#include "builder/tune/job_runner.hpp"
#include "builder/tune/race.hpp"

namespace cubinary::builder {

using core::Result;

namespace {

constexpr std::size_t k_least_finalists = 8;  ///< of those near enough
constexpr std::size_t k_most_finalists = 24;
constexpr double k_near = 1.03;             ///< of the best median of the search
constexpr std::size_t k_least_rounds = 12;  ///< even beyond the deadline
constexpr std::size_t k_most_rounds = 4000;
constexpr double k_request_us = 20'000;
constexpr double k_run_off_us = 2'500'000;
constexpr double k_between_us = 45;  ///< two samples: emptying the cache, launches

std::vector<std::string> names_of(const std::vector<store::Measurement>& runners) {
  std::vector<std::string> names;
  for (const store::Measurement& runner : runners) {
    names.push_back(core::to_json(runner.config));
  }
  return names;
}

/// Sorts the runners by place; which of them are tied.
std::vector<bool> settle(const Race& race, std::vector<store::Measurement>& runners) {
  std::vector<bool> disqualified;
  for (const store::Measurement& runner : runners) {
    disqualified.push_back(runner.suspect);
  }
  std::vector<store::Measurement> sorted;
  std::vector<bool> ties;
  for (const Race::Place& place : race.places(disqualified)) {
    sorted.push_back(std::move(runners[place.runner]));
    ties.push_back(place.tied);
  }
  runners = std::move(sorted);
  return ties;
}

}  // namespace

std::vector<store::Measurement> JobRunner::finalists() const {
  std::vector<store::Measurement> runners;
  for (const auto& [config, measurement] : m_results) {
    if (measurement.status == Status::ok && !measurement.suspect) {
      runners.push_back(measurement);
    }
  }
  std::ranges::sort(runners, [](const auto& a, const auto& b) {
    return std::pair(a.median_us, core::to_json(a.config)) <
           std::pair(b.median_us, core::to_json(b.config));
  });
  if (runners.empty()) {
    return runners;
  }
  // Whoever may be the fastest, given how little the search saw of it; two at least.
  const double bound =
      std::max(runners[0].median_us * k_near, runners[0].median_us + 2 * m_session.tick_us());
  // As many as the least of rounds leave time for; most of them leave the race right after.
  const double each_us = (runners[0].median_us + k_between_us) * double{k_least_rounds};
  const auto most = std::clamp(static_cast<std::size_t>(k_run_off_us / 4 / each_us),
                               k_least_finalists, k_most_finalists);
  std::size_t count = 0;
  while (count < runners.size() && count < most &&
         (count < 2 || runners[count].median_us - runners[count].interval_us <= bound)) {
    ++count;
  }
  const auto baseline = std::ranges::find(runners, m_plan.baseline(), &store::Measurement::config);
  if (baseline != runners.end() && static_cast<std::size_t>(baseline - runners.begin()) >= count) {
    std::swap(runners[count++], *baseline);
  }
  runners.resize(count);
  return runners;
}

Result<void> JobRunner::run_off(Clock::time_point deadline) {
  if (m_results.empty()) {
    m_outcome.why = what_to_suspect();
    return {};  // and an earlier tuning stays in force
  }
  store::Tuning tuning;
  tuning.job = m_plan.job();
  tuning.session = m_session.id;
  tuning.recipe = m_plan.recipe();
  tuning.strategy = strategy_name(strategy());
  // What turned out not to compile is no config, as it is none of the next run's space.
  tuning.configs = m_plan.compilable();
  tuning.measured = m_results.size();
  tuning.failed = static_cast<std::uint64_t>(std::ranges::count_if(
      m_results, [](const auto& each) { return each.second.status != Status::ok; }));
  tuning.complete = m_outcome.complete;

  m_progress.run_off = true;
  std::vector<store::Measurement> runners = finalists();
  std::optional<Race> race;
  std::mt19937_64 random(m_options.seed + 17);
  // Even when the search used the budget up, the best of it deserve a second look.
  const auto end = std::max(deadline, Clock::now() + std::chrono::milliseconds(300));
  for (int attempt = 0; attempt < 4 && !runners.empty(); ++attempt) {
    for (store::Measurement& runner : runners) {
      runner.stage = store::MeasurementStage::run_off;
      runner.session = m_session.id;
      runner.id = 0;
      runner.samples_us.clear();
    }
    TRY(ensure_problem());
    std::optional<std::size_t> bad;
    TRY(commit({}));  // no journal: each of them ran before and was right
    for (std::size_t i = 0; i < runners.size() && !bad; ++i) {
      if (!load(static_cast<std::uint32_t>(i), runners[i])) {
        bad = i;
      }
    }
    // Who is plainly slower leaves; the others' rounds go on without it.
    race.emplace(names_of(runners), m_session.tick_us());
    double spent = 0;
    bool throttled = false;
    while (!m_stopped && !bad && race->rounds() < k_most_rounds && spent < k_run_off_us &&
           (race->rounds() < k_least_rounds || Clock::now() < end)) {
      const std::vector<std::uint32_t>& racing = race->racing();
      double round_us = 0;
      for (const std::uint32_t i : racing) {
        round_us += runners[i].median_us + k_between_us;
      }
      const double most = race->rounds() == 0 ? 4.0 : 10.0;  // who is far behind leaves early
      const auto count = static_cast<std::size_t>(std::clamp(k_request_us / round_us, 1.0, most));
      // A round holds everyone once, in a new order each time.
      std::vector<std::uint32_t> order;
      for (std::size_t i = 0; i < count; ++i) {
        std::vector<std::uint32_t> round = racing;
        std::ranges::shuffle(round, random);
        order.insert(order.end(), round.begin(), round.end());
      }
      TuneReply reply;
      store::Measurement blamed;
      if (!sample(order, reply, blamed)) {
        if (m_stopped) {
          break;
        }
        // Which of them it was shows one by one.
        for (std::size_t i = 0; i < runners.size() && !bad; ++i) {
          TRY(ensure_problem());
          store::Measurement alone = runners[i];
          if (!load(0, alone) || !sample(std::vector<std::uint32_t>(8, 0), reply, alone)) {
            runners[i] = std::move(alone);
            bad = i;
          }
        }
        if (!bad) {
          bad = runners.size();  // it passed: once more with everyone
        }
        break;
      }
      throttled = throttled || blamed.status == Status::throttled;
      for (std::size_t i = 0; i < order.size(); ++i) {
        race->add(order[i], reply.times_us[i]);
        if (reply.clock_mhz > 0) {
          runners[order[i]].clock_mhz = reply.clock_mhz;
        }
      }
      spent += round_us * static_cast<double>(count);
      if (race->look()) {
        break;
      }
      m_progress.seconds_left = std::chrono::duration<double>(end - Clock::now()).count();
      m_observer.progress(m_progress);
    }
    if (m_stopped) {
      return {};
    }
    if (!bad) {
      for (std::uint32_t i = 0; i < runners.size(); ++i) {
        store::Measurement& runner = runners[i];
        runner.samples_us = race->times(i);
        runner.status = throttled ? Status::throttled : Status::ok;
        finish_statistics(runner);
        runner.suspect = below_floor(runner);
      }
      break;
    }
    if (*bad < runners.size()) {
      store::Measurement& loser = runners[*bad];
      loser.samples_us.clear();
      loser.median_us = 0;
      loser.interval_us = 0;
      tell(loser, m_progress);
      ++tuning.failed;
      runners.erase(runners.begin() + static_cast<std::ptrdiff_t>(*bad));
    }
    if (attempt == 3) {
      runners.clear();
    }
  }
  const std::vector<bool> ties = runners.empty() ? std::vector<bool>() : settle(*race, runners);
  std::vector<store::Measurement> pending = std::exchange(m_pending, {});
  pending.insert(pending.end(), runners.begin(), runners.end());
  const std::size_t first = pending.size() - runners.size();
  TRY_ASSIGN(const auto ids, m_ledger.record(pending, {}));
  TuneObserver::JobResult result{tuning, {}, {}};
  for (std::size_t i = 0; i < runners.size(); ++i) {
    runners[i].id = ids.at(first + i);
    if (runners[i].config == m_plan.baseline()) {
      tuning.baseline = runners[i].id;
      result.baseline = runners[i];
    }
  }
  // Only who could win is a finalist; a baseline far behind was there to be compared.
  std::size_t place = 0;
  for (const store::Measurement& runner : runners) {
    if (runner.status == Status::ok && !runner.suspect) {
      tuning.finalists.push_back({runner.id, ties[place]});
      result.finalists.push_back(runner);
    }
    ++place;
  }
  tuning.seconds = std::chrono::duration<double>(Clock::now() - m_begin).count();
  m_outcome.has_winner = !tuning.finalists.empty();
  m_outcome.begun = true;
  if (!m_outcome.has_winner) {
    m_outcome.why = what_to_suspect();
  }
  TRY(m_ledger.finish(tuning));
  m_observer.job_finished(result);
  return {};
}

std::string JobRunner::what_to_suspect() const {
  if (m_results.empty()) {
    return m_outcome.complete ? "none of its configs compiles"
                              : "its share of the budget ended before a config was measured";
  }
  std::array<std::uint64_t, 6> statuses{};
  std::string example;
  std::uint64_t suspects = 0;
  for (const auto& [config, measurement] : m_results) {
    ++statuses.at(static_cast<std::size_t>(measurement.status));
    suspects += measurement.suspect ? 1 : 0;
    if (example.empty() && !measurement.message.empty()) {
      example = core::to_display(measurement.config) + ": " + measurement.message;
    }
  }
  std::string text = "none of " + std::to_string(m_results.size()) + " configs is right (";
  std::string counts;
  for (std::size_t i = 0; i < statuses.size(); ++i) {
    if (statuses[i] != 0) {
      counts += (counts.empty() ? "" : ", ") + std::to_string(statuses[i]) + " " +
                std::string(store::status_name(static_cast<Status>(i)));
    }
  }
  text += counts + ")";
  if (!example.empty()) {
    text += "; for one, " + example;
  }
  const std::uint64_t ran = statuses[static_cast<std::size_t>(Status::wrong)] +
                            statuses[static_cast<std::size_t>(Status::fault)] +
                            statuses[static_cast<std::size_t>(Status::timeout)];
  if (suspects != 0) {
    text += ". Suspect `bytes` and `flops` of the manifest first";
  } else if (ran == m_results.size() && ran != 0) {
    text += ". When all fail, suspect the fills, the initialisation or the reference first";
  }
  return text;
}

}  // namespace cubinary::builder
