// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

namespace cubinary::builder {

struct ScheduledTask {
  std::size_t group = 0;   ///< tasks of one group share what a worker keeps: its headers
  double expected_ms = 0;  ///< how long it may take; 0: nobody knows
};

/// Which task a worker takes next. It stays in its group, for whose headers it has paid, until the
/// group is done or some other task is so long that begun any later it would be the last to end;
/// then it goes where most is left for each who works there. How long tasks of a group take is
/// learned from those that are done. Not thread-safe.
class Schedule {
 public:
  Schedule(const std::vector<ScheduledTask>& tasks, unsigned workers);

  struct Choice {
    std::size_t task = 0;
    bool many_alike = false;  ///< this worker may expect several more of the group
  };
  /// Nothing: all tasks are given out.
  [[nodiscard]] std::optional<Choice> next(unsigned worker);
  /// A task is done and took so long.
  void learn(std::size_t task, double ms);

  [[nodiscard]] bool empty() const { return m_left.empty(); }

 private:
  struct Group {
    std::vector<std::size_t> tasks;  ///< the longest last; those given out are gone
    double known_ms = 0;             ///< of tasks left
    std::size_t unknown = 0;         ///< tasks left of which nobody knows
    double measured_ms = 0;
    std::size_t measured = 0;
    unsigned workers = 0;
  };
  [[nodiscard]] double mean_ms(const Group& group) const;
  [[nodiscard]] double left_ms(const Group& group) const;
  [[nodiscard]] double longest_ms(const Group& group) const;
  [[nodiscard]] std::size_t choose(std::size_t current) const;

  std::vector<ScheduledTask> m_tasks;
  std::vector<Group> m_groups;
  std::vector<std::size_t> m_left;     ///< groups that have tasks left
  std::vector<std::size_t> m_current;  ///< a worker each; m_groups.size(): none yet
  double m_measured_ms = 0;
  std::size_t m_measured = 0;
};

}  // namespace cubinary::builder
