// SPDX-License-Identifier: Apache-2.0
#include "builder/tune/job_runner.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <thread>

#include "builder/tune/statistics.hpp"
#include "core/base/file.hpp"

namespace cubinary::builder {

using core::ErrorCode;
using core::fail;
using core::Result;
using std::chrono::milliseconds;

namespace {

constexpr std::size_t k_exhaustive_up_to = 24;  ///< configs; more, and choosing pays
constexpr std::size_t k_first_samples = 4;      ///< to learn how long one takes; not kept
constexpr std::size_t k_least_samples = 12;
constexpr std::size_t k_most_samples = 96;
constexpr double k_request_us = 20'000;  ///< of device time in one request
constexpr double k_candidate_us = 300'000;
constexpr double k_noise = 0.004;  ///< half width / median that is good enough for a search
constexpr double k_behind = 1.04;  ///< of the best
constexpr double k_throttled = 0.75;
constexpr int k_most_throttled = 12;  ///< requests in a row
constexpr double k_floor_share = 0.9;
constexpr std::uint64_t k_max_file = 1ULL << 30U;
constexpr unsigned k_most_attempts = 2;
constexpr std::int64_t k_lease_seconds = 120;

core::Error worker_error(const GpuWorker::Answer& answer) {
  return {ErrorCode::environment, answer.outcome == GpuWorker::Answer::Outcome::replied
                                      ? answer.reply.message
                                      : answer.message};
}

}  // namespace

double SessionFacts::tick_us() const {
  const auto found = peaks.find("tick_us");
  return found == peaks.end() ? 0.5 : found->second;
}

double SessionFacts::clock_mhz() const {
  const auto found = peaks.find("clock_mhz");
  return found == peaks.end() ? 0 : found->second;
}

JobRunner::JobRunner(Ledger& ledger, GpuWorker& worker, JobPlan& plan, const SessionFacts& session,
                     const TuneOptions& options, TuneObserver& observer)
    : m_ledger(ledger),
      m_worker(worker),
      m_plan(plan),
      m_session(session),
      m_options(options),
      m_observer(observer) {
}

// --- Setting up ---

Result<void> JobRunner::ensure_problem() {
  TRY(m_worker.open());
  if (m_problem_set && m_worker_start == m_worker.starts()) {
    return {};
  }
  m_worker_start = m_worker.starts();
  if (m_reference.empty()) {
    TRY_ASSIGN(m_reference, m_ledger.artifact(*m_plan.reference().artifact));
    if (m_plan.prepare() != nullptr) {
      TRY_ASSIGN(m_prepare, m_ledger.artifact(*m_plan.prepare()->artifact));
    }
  }
  TuneRequest request;
  request.kind = TuneRequest::Kind::problem;
  TRY_ASSIGN(request.problem, m_plan.problem(0x5eed + m_options.seed));
  request.problem.reference = m_reference;
  request.problem.prepare = m_prepare;
  for (InstanceSpec& instance : request.problem.instances) {
    for (BufferSpec& buffer : instance.buffers) {
      if (buffer.fill.kind == FillKind::file) {
        TRY_ASSIGN(buffer.fill.data,
                   core::read_file(m_plan.folder() / core::to_text(buffer.fill.data), k_max_file));
      }
    }
  }
  const GpuWorker::Answer answer = m_worker.ask(request, milliseconds(120'000));
  if (answer.outcome == GpuWorker::Answer::Outcome::stopped) {
    m_stopped = true;
    return fail(ErrorCode::cancelled, "stopped");
  }
  if (answer.outcome != GpuWorker::Answer::Outcome::replied ||
      answer.reply.state != TuneReply::State::ok) {
    return fail(ErrorCode::environment, "the inputs or the reference of " + m_plan.job().kernel +
                                            " " + core::to_display(m_plan.job().shape) +
                                            " could not be made: " + worker_error(answer).message);
  }
  m_problem_set = true;
  return {};
}

Result<std::vector<SearchPrior>> JobRunner::priors() const {
  // Other classes' times on this shape, then this class's on other shapes.
  const store::TuningJob& job = m_plan.job();
  TRY_ASSIGN(const auto rows, m_ledger.measurements(job.kernel, job.target, job.types));
  std::map<std::string, SearchPrior> found;
  for (const store::MeasurementRow& row : rows) {
    const store::Measurement& m = row.measurement;
    const bool here = row.device_class == job.device_class;
    if ((here && m.shape == job.shape) || m.status == Status::throttled || m.suspect ||
        (m_options.seed_from && row.device_class != *m_options.seed_from)) {
      continue;
    }
    SearchPrior& prior = found[row.device_class.text() + " " + core::to_display(m.shape)];
    prior.origin = row.device_class.text() + ", " + core::to_display(m.shape);
    prior.points.push_back({m.config, m.status == Status::ok, m.median_us});
  }
  std::vector<SearchPrior> priors;
  for (auto& [key, prior] : found) {
    priors.push_back(std::move(prior));
  }
  return priors;
}

SearchStrategy JobRunner::strategy() const {
  return m_options.strategy.value_or(m_plan.space().size() <= k_exhaustive_up_to
                                         ? SearchStrategy::exhaustive
                                         : SearchStrategy::model);
}

Result<std::unique_ptr<Search>> JobRunner::make_search() const {
  SearchOptions options;
  options.strategy = strategy();
  options.seed = m_options.seed;
  options.first = m_plan.first();
  TRY_ASSIGN(options.priors, priors());
  return Search::make(m_plan.space(), options);
}

Result<void> JobRunner::resume(Search& search) {
  const store::TuningJob& job = m_plan.job();
  TRY_ASSIGN(const auto sessions, m_ledger.sessions());
  std::map<store::SessionId, std::string> drivers;
  for (const store::DeviceSession& session : sessions) {
    drivers.emplace(session.id, session.driver);
  }
  TRY_ASSIGN(const auto rows, m_ledger.measurements(job.kernel, job.target, job.types));
  for (const store::MeasurementRow& row : rows) {
    const store::Measurement& m = row.measurement;
    if (m_options.again || row.device_class != job.device_class || m.shape != job.shape ||
        m.recipe != m_plan.recipe() || m.status == Status::throttled ||
        drivers[m.session] != m_session.device.driver) {
      continue;
    }
    if (const auto config = m_plan.space().find(m.config)) {
      m_results.insert_or_assign(*config, m);
      const bool ok = m.status == Status::ok && !m.suspect;
      search.tell(*config, {ok ? SearchOutcome::Kind::ok : SearchOutcome::Kind::failed,
                            ok ? m.median_us : 0});
    }
  }
  // What took a tuner down with it gets one more chance, not a third.
  TRY_ASSIGN(const auto journal, m_ledger.journal(job));
  for (const store::JournalEntry& left : journal) {
    const auto config = m_plan.space().find(left.config);
    if (left.attempts < k_most_attempts || !config) {
      continue;
    }
    store::Measurement measurement = blank(left.config);
    measurement.status = Status::fault;
    measurement.message = "the tuner or its machine went down while it ran, " +
                          std::to_string(left.attempts) + " times";
    search.tell(*config, {SearchOutcome::Kind::failed, 0});
    tell(measurement, m_progress);
    m_results.insert_or_assign(*config, std::move(measurement));
  }
  return {};
}

// --- One candidate ---

store::Measurement JobRunner::blank(const core::Config& config) const {
  store::Measurement measurement;
  const store::Candidate* candidate = m_plan.candidate(config);
  measurement.candidate = candidate == nullptr ? 0 : candidate->id;
  measurement.session = m_session.id;
  measurement.config = config;
  measurement.shape = m_plan.job().shape;
  measurement.recipe = m_plan.recipe();
  const double floor = m_plan.floor_us(m_session.peaks, m_session.device.l2_bytes);
  if (floor > 0) {
    measurement.floor_us = floor;
  }
  return measurement;
}

store::JournalEntry JobRunner::entry(const store::Measurement& measurement) const {
  return {measurement.candidate, measurement.shape, measurement.config, m_plan.job().device_class,
          0};
}

Result<void> JobRunner::commit(const std::vector<store::JournalEntry>& next) {
  TRY_ASSIGN(const auto ids, m_ledger.record(m_pending, next));
  for (std::size_t i = 0; i < m_pending.size() && i < ids.size(); ++i) {
    if (const auto config = m_plan.space().find(m_pending[i].config)) {
      if (const auto found = m_results.find(*config);
          found != m_results.end() && found->second.id == 0) {
        found->second.id = ids[i];
      }
    }
  }
  m_pending.clear();
  return renew_lease();
}

Result<void> JobRunner::renew_lease() {
  const auto now = Clock::now();
  if (now - m_lease_renewed > std::chrono::seconds(k_lease_seconds / 4)) {
    m_lease_renewed = now;
    TRY_ASSIGN(const store::LeaseAnswer lease, m_ledger.acquire(m_plan.job(), k_lease_seconds));
    if (!lease.granted) {
      return fail(ErrorCode::busy,
                  "the job went to " + lease.lease.owner + " while this tuner was away");
    }
  }
  return {};
}

void JobRunner::tell(const store::Measurement& measurement, TuneObserver::Progress& progress) {
  m_pending.push_back(measurement);
  ++progress.measured;
  ++progress.statuses.at(static_cast<std::size_t>(measurement.status));
  m_observer.measured(measurement);
}

bool JobRunner::load(std::uint32_t slot, store::Measurement& measurement) {
  TuneRequest request;
  request.kind = TuneRequest::Kind::load;
  request.slot = slot;
  const auto refuse = [&](Status status, std::string message) {
    measurement.status = status;
    measurement.message = std::move(message);
    return false;
  };
  auto programs = m_plan.programs(measurement.config);
  if (!programs) {
    return refuse(Status::invalid, programs.error().message);
  }
  request.candidate = std::move(*programs);
  const core::Digest& digest = *m_plan.candidate(measurement.config)->artifact;
  auto cubin = m_cubins.find(digest);
  if (cubin == m_cubins.end()) {
    auto bytes = m_ledger.artifact(digest);
    if (!bytes) {
      return refuse(Status::invalid, bytes.error().message);
    }
    cubin = m_cubins.emplace(digest, std::move(*bytes)).first;
  }
  request.candidate.cubin = cubin->second;
  const GpuWorker::Answer answer = m_worker.ask(request, m_options.time_limit);
  using Outcome = GpuWorker::Answer::Outcome;
  switch (answer.outcome) {
    case Outcome::stopped:
      m_stopped = true;
      return false;
    case Outcome::timed_out:
      return refuse(Status::timeout, "it did not end within " +
                                         std::to_string(m_options.time_limit.count()) + " ms");
    case Outcome::ended:
    case Outcome::garbled:
      return refuse(Status::fault, answer.message);
    case Outcome::replied:
      break;
  }
  const TuneReply& reply = answer.reply;
  measurement.max_error = reply.max_error;
  switch (reply.state) {
    case TuneReply::State::ok:
      return true;
    case TuneReply::State::wrong:
      return refuse(Status::wrong, reply.message);
    case TuneReply::State::invalid:
      return refuse(Status::invalid, reply.message);
    case TuneReply::State::fault:
    case TuneReply::State::environment:
      return refuse(Status::fault, reply.message);
  }
  return false;
}

bool JobRunner::sample(const std::vector<std::uint32_t>& order, TuneReply& reply,
                       store::Measurement& blamed) {
  TuneRequest request;
  request.kind = TuneRequest::Kind::sample;
  request.order = order;
  for (int attempt = 0;; ++attempt) {
    const auto begin = Clock::now();
    GpuWorker::Answer answer =
        m_worker.ask(request, m_options.time_limit + milliseconds(20) * order.size());
    const double wall_us = std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
    using Outcome = GpuWorker::Answer::Outcome;
    if (answer.outcome == Outcome::stopped) {
      m_stopped = true;
      return false;
    }
    blamed.status = answer.outcome == Outcome::timed_out ? Status::timeout : Status::fault;
    if (answer.outcome != Outcome::replied) {
      blamed.message = answer.message;
      return false;
    }
    reply = std::move(answer.reply);
    if (reply.state != TuneReply::State::ok) {
      blamed.status = reply.state == TuneReply::State::wrong     ? Status::wrong
                      : reply.state == TuneReply::State::invalid ? Status::invalid
                                                                 : Status::fault;
      blamed.message = reply.message;
      return false;
    }
    // A process that lies about time is one that must not be believed in anything.
    const bool sane =
        reply.times_us.size() == order.size() &&
        std::ranges::all_of(reply.times_us, [](double t) { return std::isfinite(t) && t > 0; }) &&
        std::accumulate(reply.times_us.begin(), reply.times_us.end(), 0.0) <= wall_us * 1.01;
    if (!sane) {
      m_worker.end();
      blamed.message = "the measuring process reported times that cannot be";
      return false;
    }
    blamed.status = Status::ok;
    const double clock = m_session.clock_mhz();
    if (clock <= 0 || reply.clock_mhz <= 0 || reply.clock_mhz >= k_throttled * clock) {
      return true;
    }
    if (attempt + 1 == k_most_throttled) {
      blamed.status = Status::throttled;
      blamed.message = "the device ran at " + std::to_string(std::lround(reply.clock_mhz)) +
                       " MHz, not at " + std::to_string(std::lround(clock));
      return true;
    }
    std::this_thread::sleep_for(milliseconds(50));
  }
}

void JobRunner::finish_statistics(store::Measurement& measurement) const {
  const MedianInterval found = median_interval(measurement.samples_us);
  measurement.median_us = found.median;
  measurement.interval_us = found.half_width();
}

bool JobRunner::below_floor(const store::Measurement& measurement) const {
  return measurement.floor_us && measurement.median_us < k_floor_share * *measurement.floor_us;
}

void JobRunner::take_samples(const Search* search, store::Measurement& measurement) {
  TuneReply reply;
  if (!sample(std::vector<std::uint32_t>(k_first_samples, 0), reply, measurement)) {
    return;
  }
  const double one = *std::ranges::max_element(reply.times_us) + (m_plan.cold() ? 40.0 : 0.0) + 5.0;
  const auto request = static_cast<std::size_t>(
      std::clamp(k_request_us / one, 1.0, static_cast<double>(k_least_samples * 2)));
  double spent = one * k_first_samples;
  std::vector<double>& samples = measurement.samples_us;
  samples.clear();
  if (spent > k_candidate_us) {
    samples = reply.times_us;  // so long that four are what there is time for
  }
  bool throttled = false;
  while (samples.size() < k_most_samples && spent < k_candidate_us) {
    if (!sample(std::vector<std::uint32_t>(request, 0), reply, measurement)) {
      return;
    }
    throttled = throttled || measurement.status == Status::throttled;
    samples.insert(samples.end(), reply.times_us.begin(), reply.times_us.end());
    spent += one * static_cast<double>(request);
    measurement.clock_mhz = reply.clock_mhz > 0 ? std::optional(reply.clock_mhz) : std::nullopt;
    if (samples.size() < k_least_samples) {
      continue;
    }
    const MedianInterval now = median_interval(samples);
    // Who cannot meet in the run-off need not be known well.
    const bool behind = search != nullptr && search->best() &&
                        now.low > std::max(k_behind * search->best_time_us(),
                                           search->best_time_us() + 3 * m_session.tick_us());
    if (throttled || behind ||
        now.half_width() <= std::max(k_noise * now.median, m_session.tick_us() / 2) ||
        (search != nullptr && !search->worth_more(samples))) {
      break;
    }
  }
  measurement.status = throttled ? Status::throttled : Status::ok;
  finish_statistics(measurement);
}

Result<store::Measurement> JobRunner::measure(const Search& search, const core::Config& config) {
  store::Measurement measurement = blank(config);
  const auto cleared = [&](store::Measurement& m) -> Result<store::Measurement> {
    if (m.status != Status::ok && m.status != Status::throttled) {
      m.samples_us.clear();
      m.median_us = 0;
      m.interval_us = 0;
    }
    return std::move(m);
  };
  if (!load(0, measurement)) {
    return cleared(measurement);
  }
  take_samples(&search, measurement);
  if (m_stopped || measurement.status != Status::ok) {
    return cleared(measurement);
  }
  if (below_floor(measurement)) {
    // Too good to be true: once more, from loading on.
    store::Measurement second = blank(config);
    if (!load(0, second)) {
      return cleared(second);
    }
    take_samples(nullptr, second);
    second.suspect = second.status == Status::ok && below_floor(second);
    if (second.suspect) {
      second.message =
          "faster than the device can move its bytes or do its flops: look at "
          "`bytes`, `flops` and the check";
    }
    return cleared(second);
  }
  return measurement;
}

Result<void> JobRunner::evaluate(Search& search, ConfigIndex config) {
  store::Measurement planned = blank(m_plan.space().config(config));
  TRY(ensure_problem());  // not the candidate's fault when that fails
  TRY(commit({entry(planned)}));
  TRY_ASSIGN(store::Measurement measurement, measure(search, planned.config));
  if (m_stopped) {
    return m_ledger.forget(entry(planned));
  }
  const bool ok = measurement.status == Status::ok && !measurement.suspect;
  search.tell(config, {ok ? SearchOutcome::Kind::ok : SearchOutcome::Kind::failed,
                       ok ? measurement.median_us : 0});
  tell(measurement, m_progress);
  m_results.insert_or_assign(config, std::move(measurement));
  return {};
}

Result<JobOutcome> JobRunner::run(Clock::time_point deadline, TuneObserver::Progress progress) {
  const auto begin = Clock::now();
  m_progress = std::move(progress);
  m_begin = begin;
  m_deadline = deadline;
  m_lease_renewed = begin;
  TRY_ASSIGN(const std::unique_ptr<Search> search, make_search());
  m_progress.configs = m_plan.space().size();
  TRY(resume(*search));
  m_observer.job_started(m_plan.job(), m_plan.space().size(), m_results.size());
  // The search leaves a share for the run-off.
  const auto search_end = begin + (deadline - begin) * 4 / 5;
  const auto result = explore(*search, search_end);
  // Whatever ended it, what was measured stays.
  TRY(commit({}));
  if (!result && !m_stopped) {
    return fail(result.error());
  }
  if (result && !m_stopped) {
    m_outcome.complete = *result;
    const auto ran_off = run_off(deadline);
    TRY(commit({}));
    if (!ran_off && !m_stopped) {
      return fail(ran_off.error());
    }
  }
  m_outcome.stopped = m_stopped;
  m_outcome.measured = m_progress.measured;
  m_outcome.statuses = m_progress.statuses;
  return m_outcome;
}

}  // namespace cubinary::builder
