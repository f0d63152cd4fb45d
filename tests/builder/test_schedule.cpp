// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <functional>
#include <queue>
#include <random>

#include <catch2/catch_test_macros.hpp>

#include "builder/schedule.hpp"

using cubinary::builder::Schedule;
using cubinary::builder::ScheduledTask;

namespace {

struct Simulation {
  double makespan = 0;
  std::size_t switches = 0;  ///< of a worker from one group to another
  std::vector<int> given;    ///< how often, a task each
};

/// Runs the tasks as workers would whose tasks take `ms`.
Simulation simulate(const std::vector<ScheduledTask>& tasks, const std::vector<double>& ms,
                    unsigned workers) {
  Schedule schedule(tasks, workers);
  Simulation result;
  result.given.resize(tasks.size());
  std::vector<std::optional<std::size_t>> group(workers);
  using Free = std::pair<double, unsigned>;
  std::priority_queue<Free, std::vector<Free>, std::greater<>> free;
  for (unsigned i = 0; i < workers; ++i) {
    free.emplace(0, i);
  }
  while (!schedule.empty()) {
    const auto [now, worker] = free.top();
    free.pop();
    const auto choice = schedule.next(worker);
    REQUIRE(choice.has_value());
    ++result.given[choice->task];
    const std::size_t in = tasks[choice->task].group;
    result.switches += group[worker] && *group[worker] != in ? 1 : 0;
    group[worker] = in;
    schedule.learn(choice->task, ms[choice->task]);
    free.emplace(now + ms[choice->task], worker);
    result.makespan = std::max(result.makespan, now + ms[choice->task]);
  }
  CHECK_FALSE(schedule.next(0).has_value());
  return result;
}

}  // namespace

TEST_CASE("a worker stays with the headers it has while there is work for them") {
  std::vector<ScheduledTask> tasks;
  for (std::size_t i = 0; i < 400; ++i) {
    tasks.push_back({i % 4, 0});
  }
  const Simulation run = simulate(tasks, std::vector<double>(tasks.size(), 10), 4);
  CHECK(std::all_of(run.given.begin(), run.given.end(), [](int times) { return times == 1; }));
  CHECK(run.makespan == 1000);
  CHECK(run.switches <= 4);
}

TEST_CASE("a task that would be the last to end is begun in time") {
  // Two groups of short ones keep both workers busy; one long task is alone in a third.
  std::vector<ScheduledTask> tasks;
  std::vector<double> ms;
  for (std::size_t i = 0; i < 180; ++i) {
    tasks.push_back({i < 100 ? 0U : 1U, 1});
    ms.push_back(1);
  }
  tasks.push_back({2, 60});
  ms.push_back(60);
  CHECK(simulate(tasks, ms, 2).makespan <= 121);
  // Long ones of a group come first.
  std::vector<ScheduledTask> mixed = {{0, 1}, {0, 1}, {0, 10}, {0, 1}};
  Schedule schedule(mixed, 1);
  CHECK(schedule.next(0)->task == 2);
  CHECK(schedule.next(0)->task == 0);
}

TEST_CASE("what was measured stands for what nobody knows") {
  // Group 1 turns out to be slow: who is done with group 2 helps there, not in group 0.
  const std::vector<ScheduledTask> tasks = {{0, 0}, {1, 0}, {1, 0}, {1, 0}, {1, 0}, {1, 0}, {2, 0},
                                            {2, 0}, {2, 0}, {2, 0}, {2, 0}, {2, 0}, {0, 0}};
  Schedule schedule(tasks, 2);
  const auto first = schedule.next(0);
  const auto second = schedule.next(1);
  CHECK(tasks[first->task].group == 2);  // most tasks
  CHECK(tasks[second->task].group == 1);
  CHECK(first->many_alike);
  schedule.learn(first->task, 1);
  schedule.learn(second->task, 100);
  for (std::size_t i = 0; i < 6; ++i) {
    const auto more = schedule.next(0);
    CHECK(tasks[more->task].group == (i < 5 ? 2U : 1U));
    schedule.learn(more->task, 1);
  }
}

TEST_CASE("any tasks, any workers: each once, and never far from the best") {
  std::mt19937 random(7);
  for (int round = 0; round < 60; ++round) {
    const unsigned workers = 1 + static_cast<unsigned>(random() % 16);
    std::vector<ScheduledTask> tasks(1 + random() % 300);
    std::vector<double> ms;
    double sum = 0;
    double longest = 0;
    const bool known = round % 2 == 0;
    for (ScheduledTask& task : tasks) {
      ms.push_back(static_cast<double>(1 + random() % (random() % 20 == 0 ? 500U : 50U)));
      task = {random() % 12, known ? ms.back() : 0};
      sum += ms.back();
      longest = std::max(longest, ms.back());
    }
    const Simulation run = simulate(tasks, ms, workers);
    CHECK(std::all_of(run.given.begin(), run.given.end(), [](int times) { return times == 1; }));
    const double least = std::max(longest, sum / workers);
    // Greedy lists end within the longest task of the best; with known times much closer.
    CHECK(run.makespan <= sum / workers + longest);
    if (known) {
      CHECK(run.makespan <= 1.34 * least);
    }
  }
}
