// SPDX-License-Identifier: Apache-2.0
#include "builder/build.hpp"

#include <algorithm>
#include <ctime>
#include <map>
#include <set>
#include <thread>
#include <unordered_map>

#include <poll.h>
#include <sys/resource.h>
#include <unistd.h>

#include "builder/compile/compile_task.hpp"
#include "builder/crew.hpp"
#include "builder/key/explain.hpp"
#include "core/base/file.hpp"
#include "store/changes.hpp"
#include "store/shrink.hpp"

namespace cubinary::builder {

using core::fail;
using core::Result;
using std::chrono::steady_clock;
using store::CandidateStatus;

namespace {

double seconds_since(steady_clock::time_point then) {
  return std::chrono::duration<double>(steady_clock::now() - then).count();
}

double cpu_seconds(int who) {
  rusage usage{};
  getrusage(who, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

double thread_cpu_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9;
}

bool is_readable(int fd) {
  pollfd watched{fd, POLLIN, 0};
  return fd >= 0 && poll(&watched, 1, 0) > 0 && (watched.revents & POLLIN) != 0;
}

class Build {
 public:
  Build(store::Store& store, const BuildOptions& options, BuildObserver& observer)
      : m_store(store), m_options(options), m_observer(observer) {}

  Result<BuildSummary> run() {
    const auto began = steady_clock::now();
    const double cpu_before = thread_cpu_seconds();
    TRY_ASSIGN(std::vector<core::Manifest> manifests,
               load_manifests(m_options.folders, m_options.kernels));
    TRY_ASSIGN(m_plan, make_plan(m_store, std::move(manifests),
                                 {m_options.targets, m_options.toolkit, m_options.worker}));
    m_ids.resize(m_plan.candidates.size());
    TRY(ask_elsewhere());
    TRY(load_records());
    choose();
    if (m_options.explain) {
      explain_all();
    }
    TRY(expect_times());
    const unsigned most =
        m_options.jobs != 0 ? m_options.jobs : std::max(1U, std::thread::hardware_concurrency());
    const auto jobs =
        static_cast<unsigned>(std::min<std::size_t>(most, m_tasks.size() + m_new_artifacts.size()));
    m_observer.planned(m_plan.candidates.size(), m_to_compile, jobs);
    if (jobs != 0) {
      TRY(compile(jobs));
    }
    if (!m_summary.stopped) {
      TRY(finish());
      TRY(report_known_failures());
    }
    summarise(began);
    m_summary.serial_seconds = thread_cpu_seconds() - cpu_before + m_alone_cpu;
    return std::move(m_summary);
  }

 private:
  const PlannedKernel& kernel_of(const PlannedCandidate& planned) const {
    return m_plan.kernels[planned.kernel];
  }

  Place place_of(const PlannedCandidate& planned) const {
    return {kernel_of(planned).manifest.name, planned.target};
  }

  /// What another store has needs no id here: nothing in this one is made of it.
  Result<void> ask_elsewhere() {
    if (!m_options.elsewhere) {
      return {};
    }
    std::vector<core::Digest> keys;
    for (const PlannedCandidate& planned : m_plan.candidates) {
      if (!planned.known) {
        keys.push_back(planned.key);
      }
    }
    TRY_ASSIGN(const auto known, m_options.elsewhere(keys));
    for (PlannedCandidate& planned : m_plan.candidates) {
      const auto found = known.find(planned.key);
      if (!planned.known && found != known.end()) {
        planned.known = store::CandidateState{0, found->second, true};
      }
    }
    return {};
  }

  Result<void> load_records() {
    TRY_ASSIGN(const store::Reader reader, m_store.reader());
    for (const PlannedKernel& kernel : m_plan.kernels) {
      TRY_ASSIGN(std::optional<store::Kernel> known,
                 store::find_kernel(reader, kernel.manifest.name));
      m_records.push_back(known ? record_from_json(known->inputs) : std::nullopt);
      if (!known) {
        m_new_kernels.push_back(&kernel);
      }
    }
    return {};
  }

  /// Groups what has to be compiled by code key.
  void choose() {
    std::unordered_map<core::Digest, std::size_t> task_of;
    for (std::size_t i = 0; i < m_plan.candidates.size(); ++i) {
      const PlannedCandidate& planned = m_plan.candidates[i];
      if (planned.known &&
          (planned.known->status == CandidateStatus::ok || !m_options.retry_failed)) {
        if (planned.known->status == CandidateStatus::ok) {
          if (planned.variant.role == store::CandidateRole::kernel) {
            m_usable.insert(place_of(planned));
          }
          // The build that made it never ended, and may not have packed it.
          if (!planned.known->current) {
            m_new_artifacts.insert(place_of(planned));
          }
        }
        m_ids[i] = planned.known->id;
        ++m_summary.skipped;
        ++(planned.known->status == CandidateStatus::ok ? m_summary.ok : m_summary.failed);
        continue;
      }
      ++m_to_compile;
      const auto [task, added] = task_of.try_emplace(planned.code, m_tasks.size());
      if (added) {
        m_tasks.emplace_back();
      }
      m_tasks[task->second].candidates.push_back(i);
    }
  }

  void explain_all() {
    for (const PlannedCandidate& planned : m_plan.candidates) {
      const PlannedKernel& kernel = kernel_of(planned);
      m_observer.explained(
          candidate_of(kernel, planned),
          explain(kernel, planned, m_records[planned.kernel], m_options.retry_failed));
    }
  }

  /// Tells the tasks how long the same candidates took last time.
  Result<void> expect_times() {
    if (m_tasks.size() < 2) {
      return {};
    }
    std::map<std::string, double> took;
    const auto name_of = [](const store::Candidate& candidate) {
      return candidate.kernel + " " + candidate.target + " " +
             std::string(store::role_name(candidate.role)) + core::to_json(candidate.types) +
             core::to_json(candidate.compile_axes) + core::to_json(candidate.config);
    };
    TRY_ASSIGN(const store::Reader reader, m_store.reader());
    for (const PlannedKernel& kernel : m_plan.kernels) {
      store::CandidateFilter filter;
      filter.kernel = kernel.manifest.name;
      TRY(store::for_each_candidate(reader, filter, false,
                                    [&](const store::Candidate& candidate) -> Result<void> {
                                      took[name_of(candidate)] = candidate.compile_ms;
                                      return {};
                                    }));
    }
    for (CompileTask& task : m_tasks) {
      const PlannedCandidate& planned = m_plan.candidates[task.candidates.front()];
      const auto known = took.find(name_of(candidate_of(kernel_of(planned), planned)));
      task.expected_ms = known == took.end() ? 0 : known->second;
    }
    return {};
  }

  Result<void> compile(unsigned jobs) {
    TRY(put_new_kernels());
    std::map<Place, store::Dictionary> dictionaries;
    {
      TRY_ASSIGN(const store::Reader reader, m_store.reader());
      for (const PlannedKernel& kernel : m_plan.kernels) {
        for (const core::Target& target : kernel.targets) {
          TRY_ASSIGN(store::Dictionary dictionary,
                     store::current_dictionary(reader, kernel.manifest.name, target.text()));
          if (dictionary.id != 0) {
            dictionaries.emplace(Place(kernel.manifest.name, target.text()), std::move(dictionary));
          }
        }
      }
    }
    for (const CompileTask& task : m_tasks) {
      for (const std::size_t index : task.candidates) {
        ++m_outstanding[place_of(m_plan.candidates[index])];
      }
    }
    m_alone_cpu = thread_cpu_seconds();
    const auto began = steady_clock::now();
    Crew crew({m_store, m_plan, m_tasks, dictionaries, jobs, m_options});
    for (const Place& place : m_new_artifacts) {
      if (!m_outstanding.contains(place)) {
        crew.repack(place);
      }
    }
    BuildProgress progress;
    progress.total = m_to_compile;
    std::vector<TaskResult> waiting;
    auto committed = steady_clock::now();
    bool closed = false;
    constexpr std::size_t k_group = 64;
    constexpr std::chrono::milliseconds k_longest_wait{250};
    for (bool ended = false; !ended;) {
      Crew::Batch batch = crew.take(std::chrono::milliseconds(100), k_group);
      ended = batch.ended;
      std::move(batch.results.begin(), batch.results.end(), std::back_inserter(waiting));
      if (batch.compiled || waiting.size() >= k_group ||
          steady_clock::now() - committed >= k_longest_wait) {
        TRY(commit(waiting, progress, crew));
        waiting.clear();
        committed = steady_clock::now();
      }
      if (batch.compiled && !closed) {
        closed = true;
        crew.close();
      }
      progress.seconds = seconds_since(began);
      m_observer.progress(progress);
      if (!m_summary.stopped && is_readable(m_options.stop)) {
        m_summary.stopped = true;
        crew.halt();
      }
    }
    m_summary.idle_seconds = seconds_since(began) * jobs - crew.busy_seconds();
    m_alone_cpu -= thread_cpu_seconds();
    if (const auto error = crew.error()) {
      return fail(*error);
    }
    m_summary.stopped = m_summary.stopped && progress.done < progress.total;
    return {};
  }

  /// A kernel's row must exist before its candidates; one that does is left as it is until the end,
  /// so that a build that stops half-way leaves the last finished one in force.
  Result<void> put_new_kernels() {
    if (m_new_kernels.empty()) {
      return {};
    }
    return m_store.write([&](store::Writer& writer) -> Result<void> {
      for (const PlannedKernel* kernel : m_new_kernels) {
        TRY(store::put_kernel(writer, kernel_row(*kernel)));
      }
      return {};
    });
  }

  /// Makes results safe, and has what is complete by them repacked.
  Result<void> commit(const std::vector<TaskResult>& results, BuildProgress& progress, Crew& crew) {
    if (results.empty()) {
      return {};
    }
    std::vector<std::size_t> compiled;
    for (const TaskResult& result : results) {
      compiled.push_back(m_tasks[result.task].candidates.front());
    }
    TRY(check_unchanged(m_plan, compiled, "the build"));
    std::vector<store::Candidate> put;
    std::set<Place> with_artifacts;
    const Result<void> written = m_store.write([&](store::Writer& writer) -> Result<void> {
      put.clear();
      for (const TaskResult& result : results) {
        const auto& members = m_tasks[result.task].candidates;
        TRY_ASSIGN(auto candidates, put_result(writer, m_plan, result, members));
        for (std::size_t i = 0; i < members.size(); ++i) {
          m_ids[members[i]] = candidates[i].id;
          if (candidates[i].artifact) {
            with_artifacts.emplace(candidates[i].kernel, candidates[i].target);
          }
          put.push_back(std::move(candidates[i]));
        }
      }
      return {};
    });
    TRY(written);
    m_new_artifacts.merge(with_artifacts);
    for (const TaskResult& result : results) {
      m_summary.crashes += result.crashes;
      m_summary.compiler_cpu_seconds += result.candidate.cpu_ms / 1e3;
      for (const std::size_t index : m_tasks[result.task].candidates) {
        const Place place = place_of(m_plan.candidates[index]);
        if (--m_outstanding[place] == 0 && m_new_artifacts.contains(place)) {
          crew.repack(place);
        }
      }
    }
    for (const store::Candidate& candidate : put) {
      const bool ok = candidate.status == CandidateStatus::ok;
      ++(ok ? m_summary.ok : m_summary.failed);
      if (ok && candidate.role == store::CandidateRole::kernel) {
        m_usable.emplace(candidate.kernel, candidate.target);
      }
      ++m_summary.compiled;
      ++progress.done;
      progress.failed += ok ? 0 : 1;
      m_observer.finished(candidate, true);
    }
    return {};
  }

  /// Makes the candidates the current ones, and the manifests the ones in force.
  Result<void> finish() {
    std::vector<BuiltKernel> current;
    const Result<void> written = m_store.write([&](store::Writer& writer) -> Result<void> {
      for (std::size_t index = 0; index < m_plan.kernels.size(); ++index) {
        const PlannedKernel& kernel = m_plan.kernels[index];
        BuiltKernel built{kernel_row(kernel), {}};
        built.kernel.inputs = to_json(record_of(kernel));
        TRY(store::put_kernel(writer, built.kernel));
        for (const core::Target& target : kernel.targets) {
          std::vector<store::CandidateId> ids;
          auto& keys = built.build_keys[target.text()];
          for (std::size_t i = 0; i < m_plan.candidates.size(); ++i) {
            if (m_plan.candidates[i].kernel == index &&
                m_plan.candidates[i].target == target.text()) {
              keys.push_back(m_plan.candidates[i].key);
              if (m_ids[i] != 0) {
                ids.push_back(m_ids[i]);
              }
            }
          }
          TRY(store::set_current(writer, kernel.manifest.name, target.text(), ids));
        }
        if (m_summary.compiled > 0) {
          TRY(store::record_change(writer, "build", kernel.manifest.name,
                                   {{"compiled", m_summary.compiled}}));
        }
        current.push_back(std::move(built));
      }
      return {};
    });
    TRY(written);
    m_summary.current = std::move(current);
    return m_new_artifacts.empty() ? Result<void>() : store::shrink(m_store);
  }

  /// Failures the store knew are told again: the build's answer is about all candidates.
  Result<void> report_known_failures() {
    std::set<core::Digest> known;
    std::set<std::string> names;
    for (const PlannedCandidate& planned : m_plan.candidates) {
      if (planned.known && planned.known->status != CandidateStatus::ok &&
          !m_options.retry_failed) {
        known.insert(planned.key);
        names.insert(kernel_of(planned).manifest.name);
      }
    }
    if (known.empty()) {
      return {};
    }
    TRY_ASSIGN(const store::Reader reader, m_store.reader());
    for (const std::string& name : names) {
      store::CandidateFilter filter;
      filter.kernel = name;
      TRY(store::for_each_candidate(reader, filter, true,
                                    [&](const store::Candidate& candidate) -> Result<void> {
                                      if (known.contains(candidate.build_key)) {
                                        m_observer.finished(candidate, false);
                                      }
                                      return {};
                                    }));
    }
    return {};
  }

  void summarise(steady_clock::time_point began) {
    std::set<std::string> targets;
    for (const PlannedKernel& kernel : m_plan.kernels) {
      m_summary.kernels.push_back(kernel.manifest.name);
      for (const core::Target& target : kernel.targets) {
        targets.insert(target.text());
      }
    }
    m_summary.targets.assign(targets.begin(), targets.end());
    if (!m_summary.stopped) {
      std::set<Place> hopeless;
      for (const PlannedCandidate& planned : m_plan.candidates) {
        hopeless.insert(place_of(planned));
      }
      std::erase_if(hopeless, [&](const Place& place) { return m_usable.contains(place); });
      m_summary.hopeless.assign(hopeless.begin(), hopeless.end());
    }
    m_summary.seconds = seconds_since(began);
    m_summary.cpu_seconds = cpu_seconds(RUSAGE_SELF) + cpu_seconds(RUSAGE_CHILDREN);
  }

  store::Store& m_store;
  const BuildOptions& m_options;
  BuildObserver& m_observer;
  Plan m_plan;
  std::vector<std::optional<InputRecord>> m_records;  ///< a kernel each
  std::vector<const PlannedKernel*> m_new_kernels;
  std::vector<store::CandidateId> m_ids;  ///< a planned candidate each
  std::vector<CompileTask> m_tasks;
  std::size_t m_to_compile = 0;
  std::map<Place, std::size_t> m_outstanding;  ///< candidates to compile
  std::set<Place> m_new_artifacts;             ///< with artifacts that may be unpacked
  double m_alone_cpu = 0;                      ///< of this thread while no worker works
  std::set<Place> m_usable;                    ///< kernels and targets with a config that compiled
  BuildSummary m_summary;
};

}  // namespace

Result<BuildSummary> build(store::Store& store, const BuildOptions& options,
                           BuildObserver& observer) {
  return Build(store, options, observer).run();
}

}  // namespace cubinary::builder
