// SPDX-License-Identifier: Apache-2.0
#include "builder/schedule.hpp"

#include <algorithm>
#include <utility>

namespace cubinary::builder {

Schedule::Schedule(const std::vector<ScheduledTask>& tasks, unsigned workers) : m_tasks(tasks) {
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    if (tasks[i].group >= m_groups.size()) {
      m_groups.resize(tasks[i].group + 1);
    }
    Group& group = m_groups[tasks[i].group];
    group.tasks.push_back(i);
    group.known_ms += tasks[i].expected_ms;
    group.unknown += tasks[i].expected_ms == 0 ? 1 : 0;
  }
  for (std::size_t i = 0; i < m_groups.size(); ++i) {
    auto& members = m_groups[i].tasks;
    std::sort(members.begin(), members.end(), [&](std::size_t a, std::size_t b) {
      return std::pair(tasks[a].expected_ms, b) < std::pair(tasks[b].expected_ms, a);
    });
    if (!members.empty()) {
      m_left.push_back(i);
    }
  }
  m_current.assign(workers, m_groups.size());
}

double Schedule::mean_ms(const Group& group) const {
  if (group.measured != 0) {
    return group.measured_ms / static_cast<double>(group.measured);
  }
  return m_measured == 0 ? 1 : m_measured_ms / static_cast<double>(m_measured);
}

double Schedule::left_ms(const Group& group) const {
  return group.known_ms + static_cast<double>(group.unknown) * mean_ms(group);
}

double Schedule::longest_ms(const Group& group) const {
  const double expected = m_tasks[group.tasks.back()].expected_ms;
  return expected == 0 ? mean_ms(group) : expected;
}

std::size_t Schedule::choose(std::size_t current) const {
  double all = 0;
  double longest = 0;
  double most = 0;
  std::size_t with_longest = 0;
  std::size_t with_most = 0;
  for (const std::size_t index : m_left) {
    const Group& group = m_groups[index];
    const double left = left_ms(group);
    const double share = left / (group.workers + 1);
    const double one = longest_ms(group);
    all += left;
    if (one > longest) {
      longest = one;
      with_longest = index;
    }
    if (share > most) {
      most = share;
      with_most = index;
    }
  }
  const bool stay = current < m_groups.size() && !m_groups[current].tasks.empty();
  // Spread over all workers, what is left would take less than the longest task alone.
  if (longest * static_cast<double>(m_current.size()) >= all) {
    return stay && longest_ms(m_groups[current]) >= longest ? current : with_longest;
  }
  return stay ? current : with_most;
}

std::optional<Schedule::Choice> Schedule::next(unsigned worker) {
  std::size_t& current = m_current[worker];
  if (m_left.empty()) {
    return std::nullopt;
  }
  if (const std::size_t chosen = choose(current); chosen != current) {
    if (current < m_groups.size()) {
      --m_groups[current].workers;
    }
    current = chosen;
    ++m_groups[current].workers;
  }
  Group& group = m_groups[current];
  Choice choice;
  choice.task = group.tasks.back();
  group.tasks.pop_back();
  group.known_ms -= m_tasks[choice.task].expected_ms;
  group.unknown -= m_tasks[choice.task].expected_ms == 0 ? 1 : 0;
  constexpr std::size_t k_several = 2;
  choice.many_alike = group.tasks.size() >= k_several * group.workers;
  if (group.tasks.empty()) {
    std::erase(m_left, current);
  }
  return choice;
}

void Schedule::learn(std::size_t task, double ms) {
  Group& group = m_groups[m_tasks[task].group];
  group.measured_ms += ms;
  ++group.measured;
  m_measured_ms += ms;
  ++m_measured;
}

}  // namespace cubinary::builder
