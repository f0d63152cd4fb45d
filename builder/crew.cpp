// SPDX-License-Identifier: Apache-2.0
#include "builder/crew.hpp"

#include <algorithm>

#include <sys/eventfd.h>
#include <unistd.h>

#include "builder/compile/precompiled.hpp"

namespace cubinary::builder {

using core::Result;
using std::chrono::steady_clock;

namespace {

/// Tasks that a worker's headers serve alike: one kernel's, with the same sources and options.
std::vector<ScheduledTask> scheduled(const Crew::Setup& setup) {
  std::map<std::string, std::size_t> groups;
  std::vector<ScheduledTask> tasks;
  for (const CompileTask& task : setup.tasks) {
    const PlannedCandidate& planned = setup.plan.candidates[task.candidates.front()];
    std::string key = std::to_string(planned.kernel) + '\0' + planned.target + '\0';
    for (const std::string& source :
         sources_of(setup.plan.kernels[planned.kernel].manifest, planned.variant.role)) {
      key += source + '\0';
    }
    for (const std::string& option : planned.special.options) {
      key += option + '\0';
    }
    const auto group = groups.emplace(std::move(key), groups.size()).first;
    tasks.push_back({group->second, task.expected_ms});
  }
  return tasks;
}

}  // namespace

Crew::Crew(const Setup& setup)
    : m_setup(setup), m_halt(eventfd(0, EFD_CLOEXEC)), m_schedule(scheduled(setup), setup.jobs) {
  m_running = setup.jobs;
  for (unsigned i = 0; i < setup.jobs; ++i) {
    m_threads.emplace_back([this, i] { work(i); });
  }
}

Crew::~Crew() {
  halt();
  for (std::thread& thread : m_threads) {
    thread.join();
  }
  PrecompiledHeaders::sweep();  // workers are killed, not asked to leave
}

Crew::Batch Crew::take(std::chrono::milliseconds patience, std::size_t enough) {
  std::unique_lock lock(m_mutex);
  m_changed.wait_for(lock, patience, [&] {
    return m_results.size() >= enough || (!m_closed && is_compiled()) || m_running == 0;
  });
  Batch batch{std::move(m_results), is_compiled(), m_running == 0};
  m_results.clear();
  m_changed.notify_all();
  return batch;
}

void Crew::repack(Place place) {
  const std::scoped_lock lock(m_mutex);
  m_repacks.push_back(std::move(place));
  m_changed.notify_all();
}

void Crew::close() {
  const std::scoped_lock lock(m_mutex);
  m_closed = true;
  m_changed.notify_all();
}

void Crew::halt() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(m_halt.get(), &one, sizeof one);
  const std::scoped_lock lock(m_mutex);
  m_halted = true;
  m_changed.notify_all();
}

std::optional<core::Error> Crew::error() {
  const std::scoped_lock lock(m_mutex);
  return m_error;
}

double Crew::busy_seconds() {
  const std::scoped_lock lock(m_mutex);
  return m_busy_seconds;
}

void Crew::work(unsigned worker) {
  TaskRunner runner(m_setup.options.worker, m_setup.options.time_limit, m_halt.get());
  std::unique_lock lock(m_mutex);
  while (!is_over()) {
    if (!m_repacks.empty()) {
      repack_one(lock);
    } else if (const auto choice = m_schedule.next(worker)) {
      compile(runner, *choice, lock);
    } else if (m_closed) {
      break;
    } else {
      m_changed.wait(lock);
    }
  }
  --m_running;
  m_changed.notify_all();
}

void Crew::compile(TaskRunner& runner, const Schedule::Choice& choice,
                   std::unique_lock<std::mutex>& lock) {
  ++m_compiling;
  lock.unlock();
  const auto began = steady_clock::now();
  const PlannedCandidate& planned =
      m_setup.plan.candidates[m_setup.tasks[choice.task].candidates.front()];
  const PlannedKernel& kernel = m_setup.plan.kernels[planned.kernel];
  const auto dictionary = m_setup.dictionaries.find({kernel.manifest.name, planned.target});
  auto result = runner.run(kernel, planned,
                           dictionary == m_setup.dictionaries.end() ? nullptr : &dictionary->second,
                           choice.many_alike ? HeaderUse::many : HeaderUse::few);
  const double seconds = std::chrono::duration<double>(steady_clock::now() - began).count();
  lock.lock();
  m_busy_seconds += seconds;
  if (!result) {
    m_error = m_error.value_or(result.error());
  } else if (*result) {
    (*result)->task = choice.task;
    m_schedule.learn(choice.task, (*result)->candidate.compile_ms);
    m_changed.wait(lock, [&] { return m_results.size() < k_most_waiting || m_halted; });
    m_results.push_back(std::move(**result));
  }
  --m_compiling;
  m_changed.notify_all();
}

void Crew::repack_one(std::unique_lock<std::mutex>& lock) {
  const Place place = std::move(m_repacks.front());
  m_repacks.pop_front();
  ++m_repacking;
  // Once nothing is left to compile, the cores of those that wait are free.
  const auto at_work = static_cast<unsigned>(m_repacking + m_repacks.size());
  store::RepackOptions options;
  options.threads = is_compiled() ? std::max(1U, m_setup.jobs / at_work) : 1;
  options.shrink = false;  // once, at the end: what is given back now would be taken again
  lock.unlock();
  const auto began = steady_clock::now();
  const auto saved = store::repack_artifacts(m_setup.store, place.first, place.second, options);
  const double seconds = std::chrono::duration<double>(steady_clock::now() - began).count();
  lock.lock();
  m_busy_seconds += seconds;
  if (!saved) {
    m_error = m_error.value_or(saved.error());
  }
  --m_repacking;
  m_changed.notify_all();
}

}  // namespace cubinary::builder
