// SPDX-License-Identifier: Apache-2.0
#include "builder/tune/tune.hpp"

#include <algorithm>
#include <cstdio>
#include <set>

#include <fnmatch.h>
#include <poll.h>

#include "builder/tune/gpu_lock.hpp"
#include "builder/tune/job_plan.hpp"
#include "builder/tune/job_runner.hpp"
#include "core/base/nearest.hpp"

namespace cubinary::builder {

using core::ErrorCode;
using core::fail;
using core::Result;

namespace {

constexpr std::int64_t k_lease_seconds = 120;
/// Less is no tuning: a budget that cannot give every job so much serves the first ones well.
constexpr std::chrono::milliseconds k_least_share{1500};

std::string number_text(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.6g", value);
  return text.data();
}

/// One kernel on one target, with what its jobs share.
struct Group {
  const core::Manifest* manifest = nullptr;
  std::string target;
  std::vector<store::Candidate> candidates;
};

std::string describe(const store::TuningJob& job) {
  return job.kernel + " " + job.target + " " + core::to_display(job.types) + " " +
         core::to_display(job.shape);
}

struct PlannedJob {
  std::size_t group = 0;
  store::TuningJob job;
};

class Tuner {
 public:
  Tuner(Ledger& ledger, const TuneOptions& options, TuneObserver& observer)
      : m_ledger(ledger), m_options(options), m_observer(observer), m_worker(options.worker) {}

  Result<TuneSummary> run() {
    const auto begin = Clock::now();
    TRY_ASSIGN(m_session.device, m_worker.identify());
    TRY_ASSIGN(m_class, core::DeviceClass::parse(m_session.device.device_class));
    if (m_options.compile != nullptr) {
      TRY(begin_compiling());
    }
    TRY(load_manifests());
    TRY(find_jobs());
    TRY_ASSIGN(const bool locked, lock());
    if (locked) {
      const auto ran = run_all();
      if (!ran && ran.error().code != ErrorCode::cancelled) {
        return fail(ran.error());
      }
      m_summary.stopped = m_summary.stopped || !ran;
      if (m_summary.stopped && m_options.compile != nullptr) {
        TRY(m_options.compile->take(std::chrono::milliseconds(0)));  // what is paid for stays
      }
    } else {
      m_summary.stopped = true;
    }
    m_summary.worker_starts = m_worker.starts();
    if (m_options.compile != nullptr) {
      m_summary.compiled = m_options.compile->counts();
    }
    m_summary.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    return m_summary;
  }

 private:
  /// Puts the kernels in force whose targets run here; the first of their candidates compile while
  /// the device is waited for.
  Result<void> begin_compiling() {
    std::set<std::string> other_targets;
    for (const std::string& kernel : m_options.compile->kernels()) {
      for (const std::string& target : m_options.compile->targets(kernel)) {
        TRY_ASSIGN(const bool runs, is_wanted(target));
        if (runs) {
          TRY(m_options.compile->begin(kernel, target));
          m_compiled_here.push_back(kernel);
        } else {
          other_targets.insert(target);
        }
      }
    }
    if (m_compiled_here.empty()) {
      std::string targets;
      for (const std::string& target : other_targets) {
        targets += (targets.empty() ? "" : ", ") + target;
      }
      return fail(ErrorCode::not_found, "nothing to tune: no target of these kernels runs on " +
                                            m_class.text() + " (they name " + targets +
                                            "); add one with --target");
    }
    return {};
  }

  Result<bool> is_wanted(const std::string& name) const {
    TRY_ASSIGN(const core::Target target, core::Target::parse(name));
    return target.runs_on(m_class.capability) &&
           (m_options.target.empty() || m_options.target == name);
  }

  /// All candidates of a kernel and target, with those that could be compiled.
  Result<std::vector<store::Candidate>> candidates(const std::string& kernel,
                                                   const std::string& target) {
    return m_options.compile == nullptr ? m_ledger.candidates(kernel, target)
                                        : m_options.compile->candidates(kernel, target);
  }

  Result<void> load_manifests() {
    TRY_ASSIGN(const auto kernels, m_ledger.kernels());
    std::vector<std::string> names;
    for (const store::Kernel& kernel : kernels) {
      names.push_back(kernel.name);
      if (m_options.compile != nullptr &&
          std::ranges::find(m_compiled_here, kernel.name) == m_compiled_here.end()) {
        continue;
      }
      if (!m_options.kernels.empty() &&
          fnmatch(m_options.kernels.c_str(), kernel.name.c_str(), 0) != 0) {
        continue;
      }
      TRY_ASSIGN(core::Manifest manifest,
                 core::parse_manifest(kernel.manifest, kernel.manifest_path));
      m_manifests.push_back(std::move(manifest));
    }
    if (m_manifests.empty()) {
      return fail(ErrorCode::not_found,
                  kernels.empty() ? std::string("the store has no kernels: run `cubinary build`")
                                  : "no kernel matches '" + m_options.kernels + "'" +
                                        core::did_you_mean(m_options.kernels, names));
    }
    return {};
  }

  /// Types × tuned shapes of every kernel and target, as far as the options ask for them.
  Result<void> find_jobs() {
    TRY_ASSIGN(const std::string other_targets, find_groups());
    if (m_options.workload.empty()) {
      TRY(check_axes());
      for (std::size_t group = 0; group < m_groups.size(); ++group) {
        add_jobs(group, types_of(m_groups[group], m_options.types), m_options.shape);
      }
    }
    for (const TuneWish& wish : m_options.workload) {
      TRY(add_wish(wish));
    }
    if (m_jobs.empty()) {
      return fail(
          ErrorCode::not_found,
          "nothing to tune: no candidate of these kernels" +
              (other_targets.empty()
                   ? std::string(" is in the store")
                   : " runs on " + m_class.text() + " (the store has " + other_targets + ")") +
              "; run `cubinary build --target sm_" +
              std::to_string(m_class.capability.major * 10 + m_class.capability.minor) + "`");
    }
    m_summary.jobs = m_jobs.size();
    return {};
  }

  /// The kernels' targets that run here; returns the others, for a message.
  Result<std::string> find_groups() {
    std::string other_targets;
    for (const core::Manifest& manifest : m_manifests) {
      std::vector<std::string> targets;
      if (m_options.compile != nullptr) {
        targets = m_options.compile->targets(manifest.name);
      } else {
        TRY_ASSIGN(targets, m_ledger.targets(manifest.name));
      }
      for (const std::string& name : targets) {
        TRY_ASSIGN(const bool wanted, is_wanted(name));
        if (wanted) {
          TRY_ASSIGN(auto found, candidates(manifest.name, name));
          m_groups.push_back({&manifest, name, std::move(found)});
        } else if (other_targets.find(name) == std::string::npos) {
          other_targets += (other_targets.empty() ? "" : ", ") + name;
        }
      }
    }
    return other_targets;
  }

  /// Some kernel must have all axes of the options' shape; the others are not meant.
  Result<void> check_axes() const {
    std::vector<std::string> axes;
    for (const core::Manifest& manifest : m_manifests) {
      if (std::ranges::all_of(m_options.shape, [&](const auto& axis) {
            return manifest.find_axis(axis.first) != nullptr;
          })) {
        return {};
      }
      for (const core::Axis& axis : manifest.axes) {
        axes.push_back(axis.name);
      }
    }
    std::string wrong;
    for (const auto& [name, value] : m_options.shape) {
      if (std::ranges::find(axes, name) == axes.end()) {
        wrong = name;
      }
    }
    return fail(ErrorCode::usage, wrong.empty() ? std::string("no kernel has all axes of --shape")
                                                : "no kernel has an axis '" + wrong + "'" +
                                                      core::did_you_mean(wrong, axes));
  }

  /// A line of the workload; what --kernel or --target leave out is left out.
  Result<void> add_wish(const TuneWish& wish) {
    const auto manifest = std::ranges::find(m_manifests, wish.kernel, &core::Manifest::name);
    if (manifest == m_manifests.end()) {
      if (!m_options.kernels.empty() &&
          fnmatch(m_options.kernels.c_str(), wish.kernel.c_str(), 0) != 0) {
        return {};
      }
      std::vector<std::string> names;
      for (const core::Manifest& each : m_manifests) {
        names.push_back(each.name);
      }
      return fail(ErrorCode::not_found, "the workload's kernel " + wish.kernel +
                                            " is not here to be tuned" +
                                            core::did_you_mean(wish.kernel, names));
    }
    for (const auto& [name, value] : wish.shape) {
      if (manifest->find_axis(name) == nullptr) {
        std::vector<std::string> axes;
        for (const core::Axis& axis : manifest->axes) {
          axes.push_back(axis.name);
        }
        return fail(ErrorCode::usage, "the workload's kernel " + wish.kernel + " has no axis '" +
                                          name + "'" + core::did_you_mean(name, axes));
      }
    }
    core::Types types = wish.types;
    types.insert(m_options.types.begin(), m_options.types.end());
    core::Shape shape = wish.shape;
    shape.insert(m_options.shape.begin(), m_options.shape.end());
    bool any = false;
    for (std::size_t group = 0; group < m_groups.size(); ++group) {
      if (m_groups[group].manifest == &*manifest &&
          (wish.target.empty() || wish.target == m_groups[group].target)) {
        const std::vector<core::Types> found = types_of(m_groups[group], types);
        add_jobs(group, found, shape);
        any = any || !found.empty();
      }
    }
    if (!any) {
      return fail(ErrorCode::not_found, "nothing to tune: no candidate of the workload's " +
                                            wish.kernel + " " + wish.target + " " +
                                            core::to_display(types) + " is in the store for " +
                                            m_class.text());
    }
    return {};
  }

  /// Those that the group has candidates of.
  static std::vector<core::Types> types_of(const Group& group, const core::Types& asked) {
    std::vector<core::Types> types;
    for (const store::Candidate& candidate : group.candidates) {
      const bool wanted = std::ranges::all_of(asked, [&](const auto& each) {
        const auto found = candidate.types.find(each.first);
        return found != candidate.types.end() && found->second == each.second;
      });
      if (wanted && candidate.role == store::CandidateRole::kernel &&
          std::ranges::find(types, candidate.types) == types.end()) {
        types.push_back(candidate.types);
      }
    }
    return types;
  }

  void add_jobs(std::size_t group, const std::vector<core::Types>& types,
                const core::Shape& wanted_shape) {
    const core::Manifest& manifest = *m_groups[group].manifest;
    for (const auto& [name, value] : wanted_shape) {
      if (manifest.find_axis(name) == nullptr) {
        return;
      }
    }
    std::vector<core::Shape> shapes{{}};
    for (const core::Axis& axis : manifest.axes) {
      const auto asked = wanted_shape.find(axis.name);
      const std::vector<std::int64_t> values =
          asked == wanted_shape.end() ? axis.tune : std::vector<std::int64_t>{asked->second};
      std::vector<core::Shape> next;
      for (const core::Shape& shape : shapes) {
        for (const std::int64_t value : values) {
          next.push_back(shape);
          next.back()[axis.name] = value;
        }
      }
      shapes = std::move(next);
    }
    for (const core::Types& each : types) {
      for (const core::Shape& shape : shapes) {
        store::TuningJob job{manifest.name, m_groups[group].target, each, shape, m_class};
        if (m_seen.insert(describe(job)).second) {
          m_jobs.push_back({group, std::move(job)});
        }
      }
    }
  }

  /// False when stopped while waiting.
  Result<bool> lock() {
    std::string told;
    while (true) {
      std::string holder;
      TRY_ASSIGN(m_lock, GpuLock::try_take(m_session.device.uuid, "cubinary tune", holder));
      if (m_lock) {
        return true;
      }
      if (holder != told) {
        m_observer.waiting(holder);
        told = holder;
      }
      pollfd stop{m_options.worker.stop, POLLIN, 0};
      if (poll(&stop, m_options.worker.stop >= 0 ? 1 : 0, 200) > 0) {
        return false;
      }
    }
  }

  Result<void> begin_session() {
    TRY_ASSIGN(m_session.device, m_worker.open());
    TuneRequest request;
    request.kind = TuneRequest::Kind::peaks;
    const GpuWorker::Answer answer = m_worker.ask(request, std::chrono::milliseconds(60'000));
    if (answer.outcome == GpuWorker::Answer::Outcome::stopped) {
      return fail(ErrorCode::cancelled, "stopped");
    }
    if (answer.outcome != GpuWorker::Answer::Outcome::replied ||
        answer.reply.state != TuneReply::State::ok) {
      return fail(ErrorCode::environment,
                  "the device's peaks could not be measured: " +
                      (answer.outcome == GpuWorker::Answer::Outcome::replied ? answer.reply.message
                                                                             : answer.message));
    }
    m_session.peaks = {answer.reply.numbers.begin(), answer.reply.numbers.end()};
    store::DeviceSession session;
    session.device_class = m_class;
    session.product = m_session.device.product;
    session.uuid_hash = core::sha256(m_session.device.uuid).hex();
    session.driver = m_session.device.driver;
    for (const auto& [name, value] : m_session.device.conditions) {
      session.facts.emplace(name, value);
    }
    for (const auto& [name, value] : m_session.peaks) {
      session.facts.insert_or_assign(name, number_text(value));
    }
    session.facts.emplace("l2_bytes", std::to_string(m_session.device.l2_bytes));
    TRY_ASSIGN(m_session.id, m_ledger.begin_session(session));
    m_observer.session(m_session.device, m_session.peaks);
    return {};
  }

  /// Whether the job has a winner of this recipe and driver, found among these configs.
  Result<bool> is_known(const JobPlan& plan) {
    TRY_ASSIGN(const auto tuning, m_ledger.tuning(plan.job()));
    if (!tuning || !tuning->complete || tuning->finalists.empty() ||
        tuning->recipe != plan.recipe() || tuning->configs < plan.space().size()) {
      return false;
    }
    if (tuning->configs > plan.space().size()) {
      // A search that could compile saw more than what was compiled; its winner must be there.
      TRY_ASSIGN(const auto rows,
                 m_ledger.measurements(plan.job().kernel, plan.job().target, plan.job().types));
      const auto winner = std::ranges::find_if(rows, [&](const store::MeasurementRow& row) {
        return row.measurement.id == tuning->finalists.front().measurement;
      });
      if (winner == rows.end() || !plan.space().find(winner->measurement.config)) {
        return false;
      }
    }
    if (m_drivers.empty()) {
      TRY_ASSIGN(const auto sessions, m_ledger.sessions());
      for (const store::DeviceSession& session : sessions) {
        m_drivers.emplace(session.id, session.driver);
      }
    }
    return m_drivers[tuning->session] == m_session.device.driver;
  }

  Result<void> run_all() {
    TRY(run_jobs());
    // What a release of these kernels needs besides the winners.
    while (m_options.compile != nullptr && !m_summary.stopped && m_options.compile->busy()) {
      TRY(wait_for_compilers());
    }
    return m_options.compile != nullptr ? m_options.compile->finish() : Result<void>();
  }

  Result<std::vector<store::Candidate>> wait_for_compilers() {
    pollfd stop{m_options.worker.stop, POLLIN, 0};
    if (stop.fd >= 0 && poll(&stop, 1, 0) > 0) {
      return fail(ErrorCode::cancelled, "stopped");
    }
    return m_options.compile->take(std::chrono::milliseconds(100));
  }

  Result<JobPlan> make_plan(Group& group, const store::TuningJob& job) {
    core::DeviceFacts facts;
    facts.sm_count = m_session.device.sm_count;
    facts.smem_optin = m_session.device.smem_optin;
    if (m_options.compile != nullptr) {
      TRY(make_helpers(group, job));
    }
    return JobPlan::make(*group.manifest, job, facts, group.candidates);
  }

  /// Nothing of a job can be measured without its reference.
  Result<void> make_helpers(Group& group, const store::TuningJob& job) {
    while (true) {
      TRY_ASSIGN(group.candidates, candidates(job.kernel, job.target));
      bool missing = false;
      for (const store::Candidate& candidate : group.candidates) {
        if (candidate.role != store::CandidateRole::kernel && candidate.id == 0 &&
            candidate.types == job.types &&
            std::ranges::all_of(candidate.compile_axes, [&](const auto& axis) {
              return job.shape.at(axis.first) == axis.second;
            })) {
          m_options.compile->want(candidate.build_key);
          missing = true;
        }
      }
      if (!missing) {
        return {};
      }
      TRY(wait_for_compilers());
    }
  }

  Result<void> run_jobs() {
    const auto deadline = Clock::now() + m_options.budget;
    for (std::size_t i = 0; i < m_jobs.size(); ++i) {
      const PlannedJob& planned = m_jobs[i];
      if (Clock::now() >= deadline) {
        ++m_summary.left;  // or known: finding out costs more than it is worth
        continue;
      }
      auto plan = make_plan(m_groups[planned.group], planned.job);
      if (!plan && plan.error().code == ErrorCode::cancelled) {
        return fail(plan.error());
      }
      if (!plan) {
        give_up(planned.job, plan.error().message);
        continue;
      }
      if (!m_options.again) {
        TRY_ASSIGN(const bool known, is_known(*plan));
        if (known) {
          ++m_summary.known;
          continue;
        }
      }
      TRY_ASSIGN(const store::LeaseAnswer lease, m_ledger.acquire(planned.job, k_lease_seconds));
      if (!lease.granted) {
        ++m_summary.elsewhere;
        m_observer.note(describe(planned.job) + ": " + lease.lease.owner + " is at it");
        continue;
      }
      // Somebody may have finished it before the lease was ours.
      TRY_ASSIGN(const bool known, is_known(*plan));
      if (known && !m_options.again) {
        m_ledger.release(lease.lease);
        ++m_summary.known;
        continue;
      }
      const auto ran = run_job(*plan, i, deadline);
      m_ledger.release(lease.lease);
      TRY(ran);
      if (m_summary.stopped) {
        return {};
      }
    }
    return {};
  }

  /// Runs to `deadline` at most, give or take a least share.
  Result<void> run_job(JobPlan& plan, std::size_t index, Clock::time_point deadline) {
    if (m_session.id == 0) {
      TRY(begin_session());
    }
    // What is left of the budget, shared by the jobs that are left.
    const auto left = deadline - Clock::now();
    const auto share = std::max<Clock::duration>(
        left / static_cast<std::int64_t>(m_jobs.size() - index), k_least_share);
    TuneObserver::Progress progress;
    progress.job = index;
    progress.jobs = m_jobs.size();
    JobRunner runner(m_ledger, m_worker, plan, m_session, m_options, m_observer);
    const auto outcome = runner.run(Clock::now() + share, progress);
    if (!outcome) {
      if (outcome.error().code == ErrorCode::environment ||
          outcome.error().code == ErrorCode::busy) {
        give_up(plan.job(), outcome.error().message);
        return {};
      }
      return fail(outcome.error());
    }
    m_summary.measured += outcome->measured;
    for (std::size_t i = 0; i < m_summary.statuses.size(); ++i) {
      m_summary.statuses.at(i) += outcome->statuses.at(i);
    }
    if (outcome->stopped) {
      m_summary.stopped = true;
    } else if (outcome->has_winner) {
      ++m_summary.tuned;
      m_summary.complete += outcome->complete ? 1 : 0;
    } else if (!outcome->begun && !outcome->complete) {
      ++m_summary.left;
      m_observer.note(describe(plan.job()) + ": " + outcome->why);
    } else {
      give_up(plan.job(), outcome->why);
    }
    return {};
  }

  void give_up(const store::TuningJob& job, const std::string& why) {
    ++m_summary.failed;
    m_observer.note(describe(job) + ": not tuned: " + why);
  }

  Ledger& m_ledger;
  const TuneOptions& m_options;
  TuneObserver& m_observer;
  GpuWorker m_worker;
  SessionFacts m_session;
  core::DeviceClass m_class;
  std::optional<GpuLock> m_lock;
  std::vector<std::string> m_compiled_here;  ///< kernels
  std::vector<core::Manifest> m_manifests;
  std::vector<Group> m_groups;
  std::vector<PlannedJob> m_jobs;
  std::set<std::string> m_seen;  ///< jobs, described
  std::map<store::SessionId, std::string> m_drivers;
  TuneSummary m_summary;
};

}  // namespace

Result<TuneSummary> tune(Ledger& ledger, const TuneOptions& options, TuneObserver& observer) {
  return Tuner(ledger, options, observer).run();
}

}  // namespace cubinary::builder
