// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include <poll.h>

#include "builder/tune/job_runner.hpp"

namespace cubinary::builder {

using core::Result;
using std::chrono::milliseconds;

namespace {

constexpr double k_recent = 0.3;  // weight of the newest of a mean's terms
constexpr milliseconds k_look{50};

void average(double& mean, double value) {
  mean = mean == 0 ? value : mean + k_recent * (value - mean);
}

}  // namespace

bool JobRunner::is_stopped() {
  pollfd stop{m_options.worker.stop, POLLIN, 0};
  m_stopped = m_stopped || (stop.fd >= 0 && poll(&stop, 1, 0) > 0);
  return m_stopped;
}

/// Compilations to have under way, so that the device never waits for one: no more, since what is
/// asked for early is chosen with less knowledge.
std::size_t JobRunner::compilations_ahead() const {
  if (m_options.compile == nullptr || m_plan.uncompiled() == 0) {
    return 0;
  }
  const std::size_t most = m_options.compile->jobs();
  if (m_measuring_ms == 0 || m_compiling_ms == 0) {
    return most;
  }
  const double wanted = std::ceil(m_compiling_ms / m_measuring_ms) + 1;
  return wanted >= static_cast<double>(most) ? most : static_cast<std::size_t>(wanted);
}

/// Whether a search that expects nothing more goes on until it has seen everything.
bool JobRunner::is_measured_whole(Clock::time_point end) const {
  if (m_plan.space().size() > m_options.whole) {
    return false;
  }
  if (m_plan.uncompiled() == 0) {
    return true;
  }
  // Half of a space more is no better than a search that ended by itself: begun only if it fits.
  const std::chrono::duration<double, std::milli> left = end - Clock::now();
  return m_compiling_ms * static_cast<double>(m_plan.uncompiled()) / m_options.compile->jobs() <=
         left.count();
}

void JobRunner::place(Search& search, ConfigIndex config) {
  const store::Candidate& candidate = *m_plan.candidate(m_plan.space().config(config));
  if (candidate.status != store::CandidateStatus::ok) {
    search.tell(config, {SearchOutcome::Kind::compile_failed, 0});
  } else if (candidate.id != 0) {
    m_ready.push_back(config);
  } else {
    m_compiling.push_back(config);
    m_options.compile->want(candidate.build_key);
  }
}

Result<void> JobRunner::collect(Search& search, milliseconds patience) {
  if (m_options.compile == nullptr) {
    return {};
  }
  TRY_ASSIGN(const auto made, m_options.compile->take(patience));
  for (const store::Candidate& candidate : made) {
    if (candidate.kernel != m_plan.job().kernel || candidate.target != m_plan.job().target) {
      continue;
    }
    m_plan.compiled(candidate);
    if (candidate.compile_ms > 0) {
      average(m_compiling_ms, candidate.compile_ms);
    }
    if (candidate.status != store::CandidateStatus::ok && candidate.types == m_plan.job().types) {
      m_observer.note("  " + core::to_display(candidate.config) +
                      ": does not compile: " + candidate.message);
    }
  }
  if (!made.empty()) {
    for (const ConfigIndex config : std::exchange(m_compiling, {})) {
      const store::Candidate& candidate = *m_plan.candidate(m_plan.space().config(config));
      if (candidate.id == 0) {
        m_compiling.push_back(config);
      } else {
        place(search, config);
      }
    }
  }
  return {};
}

/// Whether the search ended by itself, and not by `end`.
Result<bool> JobRunner::explore(Search& search, Clock::time_point end) {
  const auto ended = explore_until(search, end);
  if (m_options.compile != nullptr) {
    m_options.compile->drop_wanted();
  }
  return ended;
}

Result<bool> JobRunner::explore_until(Search& search, Clock::time_point end) {
  while (!m_stopped) {
    TRY(collect(search, milliseconds(0)));
    if (search.finished() || (search.settled() && !is_measured_whole(end))) {
      return true;
    }
    if (Clock::now() >= end) {
      return false;
    }
    const std::size_t ahead = compilations_ahead();
    while (m_ready.size() + m_compiling.size() < ahead + 1 &&
           (m_ready.empty() || m_compiling.size() < ahead)) {
      const auto asked = search.ask(1);
      if (asked.empty()) {
        break;
      }
      place(search, asked.front());
    }
    if (!m_ready.empty()) {
      const ConfigIndex config = m_ready.front();
      m_ready.pop_front();
      const auto begin = Clock::now();
      TRY(evaluate(search, config));
      average(m_measuring_ms,
              std::chrono::duration<double, std::milli>(Clock::now() - begin).count());
    } else if (!m_compiling.empty()) {
      TRY(collect(search, k_look));
      TRY(renew_lease());
      if (is_stopped()) {
        return false;
      }
    } else if (!search.finished()) {
      return true;  // nothing more to ask for, and nothing outstanding
    }
    m_progress.best_us.reset();
    if (const auto best = search.best()) {
      m_progress.best_us = search.best_time_us();
      m_progress.best = m_plan.space().config(*best);
    }
    m_progress.seconds_left = std::chrono::duration<double>(m_deadline - Clock::now()).count();
    m_observer.progress(m_progress);
  }
  return false;
}

}  // namespace cubinary::builder
