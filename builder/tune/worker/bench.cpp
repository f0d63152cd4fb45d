// SPDX-License-Identifier: Apache-2.0
#include "builder/tune/worker/bench.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace cubinary::builder {

using core::ErrorCode;
using core::fail;
using core::Result;

namespace {

constexpr std::size_t k_batch = 64;           ///< samples behind one hold
constexpr std::size_t k_queue_entries = 384;  ///< of the stream's queue; the driver has about 1000
constexpr std::uint64_t k_hold_ns = 400'000'000;
constexpr std::size_t k_release = 0;
constexpr std::size_t k_gave_up = 64;
/// Where a buffer lies in memory favours one config over another, differently in every process:
/// several sets of buffers take turns, as many as fit into a fraction of what is free.
constexpr std::size_t k_sets = 8;
constexpr std::uint64_t k_sets_share = 2;

}  // namespace

Result<std::unique_ptr<Bench>> Bench::make(const Gpu& gpu) {
  auto bench = std::unique_ptr<Bench>(new Bench(gpu));
  TRY_ASSIGN(bench->m_flags, SharedMemory::make(gpu, 128));
  TRY_ASSIGN(bench->m_clocks, GuardedBuffer::make(gpu, 64));
  const auto l2 = static_cast<std::uint64_t>(std::max<std::int64_t>(gpu.spec().l2_bytes, 1 << 20));
  TRY_ASSIGN(bench->m_flush, GuardedBuffer::make(gpu, l2 * 5 / 2 / 4096 * 4096));
  if (bench->m_flush.bytes() < 2 * l2) {
    return fail(ErrorCode::environment, "the buffer that empties the L2 cache is too small");
  }
  TRY(gpu.set(bench->m_flush.data(), 0, bench->m_flush.bytes()));
  TRY_ASSIGN(bench->m_sink, GuardedBuffer::make(gpu, std::uint64_t{gpu.many_blocks()} * 256 * 4));
  bench->m_events.resize(2 * k_batch);
  for (cuda::Event& event : bench->m_events) {
    TRY(gpu.check(gpu.functions().event_create(&event, 0), "cuEventCreate"));
  }
  TRY(gpu.synchronize());
  return bench;
}

Result<void> Bench::set_problem(const ProblemSpec& spec) {
  m_candidates.clear();
  m_instances.clear();
  m_reference.reset();
  m_prepare.reset();
  m_problem = spec;
  TRY_ASSIGN(Module reference, Module::load(m_gpu, spec.reference));
  m_reference.emplace(std::move(reference));
  if (!spec.prepare.empty()) {
    TRY_ASSIGN(Module prepare, Module::load(m_gpu, spec.prepare));
    m_prepare.emplace(std::move(prepare));
  }
  for (const InstanceSpec& instance : spec.instances) {
    auto made = Instance::make(m_gpu, instance, *m_reference, m_prepare ? &*m_prepare : nullptr,
                               spec.seed + 1000 * m_instances.size());
    if (!made) {
      return fail(made.error().code, instance.shape + ": " + made.error().message);
    }
    m_instances.push_back(std::move(*made));
  }
  if (m_instances.empty()) {
    return fail(ErrorCode::environment, "a problem without a shape");
  }
  TRY_ASSIGN(const std::uint64_t free, m_gpu.free_memory());
  const std::uint64_t bytes = std::max<std::uint64_t>(1, m_instances[0].bytes());
  TRY(m_instances[0].add_sets(m_gpu, std::min<std::uint64_t>(k_sets, free / k_sets_share / bytes)));
  m_problem->reference = {};
  m_problem->prepare = {};
  m_problem->instances.clear();
  return m_gpu.synchronize();
}

namespace {

/// Files a failed step under a state: a refused launch is the candidate's, everything else on a
/// device is a fault and costs the context.
void blame(const core::Error& error, TuneReply& reply) {
  reply.message = error.message;
  switch (error.code) {
    case ErrorCode::unsupported:
    case ErrorCode::too_large:
      reply.state = TuneReply::State::invalid;
      break;
    case ErrorCode::cuda:
      reply.state = TuneReply::State::fault;
      reply.worn = true;
      break;
    default:
      reply.state = TuneReply::State::environment;
      reply.worn = true;
  }
}

}  // namespace

void Bench::load(std::uint32_t slot, const CandidateSpec& spec, TuneReply& reply) {
  m_candidates.erase(slot);
  const auto attempt = [&]() -> Result<void> {
    if (spec.programs.size() != m_instances.size()) {
      return fail(ErrorCode::environment, "a candidate for another problem");
    }
    TRY_ASSIGN(Module module, Module::load(m_gpu, spec.cubin));
    Candidate candidate{std::move(module), {}, false};
    for (const ProgramSpec& program : spec.programs) {
      TRY_ASSIGN(Program made, Program::make(m_gpu, candidate.module, program));
      candidate.programs.push_back(std::move(made));
    }
    TRY(check(candidate, reply));
    if (reply.state == TuneReply::State::ok) {
      m_candidates.insert_or_assign(slot, std::move(candidate));
    }
    return {};
  };
  if (const auto result = attempt(); !result) {
    blame(result.error(), reply);
  }
}

Result<void> Bench::check(const Candidate& candidate, TuneReply& reply) {
  // Small shapes last in the list are the quickest to fail, but the first is what it is about: an
  // error there is the better message.
  for (std::size_t i = 0; i < m_instances.size() && reply.state == TuneReply::State::ok; ++i) {
    if (candidate.programs[i].skipped()) {
      continue;
    }
    TRY(run_and_judge(candidate, i, 0x5A, false, reply));
    if (reply.state == TuneReply::State::ok) {  // twice: races
      TRY(run_and_judge(candidate, i, 0xA5, true, reply));
      if (reply.state != TuneReply::State::ok && !reply.worn) {
        reply.message += " in the second run, though not in the first";
      }
    }
  }
  return {};
}

Result<void> Bench::run_and_judge(const Candidate& candidate, std::size_t which,
                                  unsigned char pattern, bool all, TuneReply& reply) {
  const Instance& instance = m_instances[which];
  const Program& program = candidate.programs[which];
  TRY(instance.poison(m_gpu, pattern));
  TRY(instance.restore(m_gpu, 0));
  TRY(m_gpu.set(m_clocks.data(), 0, 64));
  TRY(program.launch(m_gpu, instance.addresses(0)));
  TRY(program.count_damage(m_clocks.data()));
  TRY(m_gpu.synchronize());
  std::uint64_t damaged = 0;
  TRY(m_gpu.check(m_gpu.functions().copy_to_host(&damaged, m_clocks.data(), sizeof damaged),
                  "cuMemcpyDtoH"));
  TRY_ASSIGN(Instance::Verdict verdict, instance.judge(m_gpu, all));
  if (damaged != 0 && !verdict.damage) {
    verdict.damage = true;
    verdict.wrong = "it wrote " + std::to_string(damaged) + " bytes outside of its workspace";
  }
  reply.max_error = std::max(reply.max_error, verdict.max_error);
  if (!verdict.wrong.empty()) {
    reply.state = TuneReply::State::wrong;
    reply.message = std::move(verdict.wrong);
    reply.worn = verdict.damage;
  }
  return {};
}

Result<void> Bench::flush() {
  return m_gpu.run("read_words", m_gpu.many_blocks(), 256, m_flush.data(), m_flush.bytes() / 16,
                   std::uint32_t{1}, m_sink.data(), std::uint32_t{0});
}

Result<void> Bench::read_clock(std::size_t place) {
  return m_gpu.run("read_clock", static_cast<std::uint32_t>(m_gpu.spec().sm_count) * 2, 32,
                   m_clocks.data() + 16 * place);
}

Result<double> Bench::elapsed_us(std::size_t pair) const {
  float milliseconds = 0;
  TRY(m_gpu.check(
      m_gpu.functions().event_elapsed(&milliseconds, m_events[2 * pair], m_events[2 * pair + 1]),
      "cuEventElapsedTime"));
  // Whole nanoseconds: what is beyond is the rounding of a float.
  return std::round(static_cast<double>(milliseconds) * 1e6) / 1e3;
}

Result<void> Bench::sample_batch(const std::uint32_t* begin, std::size_t count, TuneReply& reply) {
  const core::DeviceFunctions& functions = m_gpu.functions();
  const Instance& instance = m_instances[0];
  m_flags.at<std::uint32_t>(k_release) = 0;
  m_flags.at<std::uint32_t>(k_gave_up) = 0;
  TRY(m_gpu.run("hold", 1, 1, m_flags.address(k_release), k_hold_ns, m_flags.address(k_gave_up)));
  TRY(read_clock(0));
  for (std::size_t i = 0; i < count; ++i) {
    const Program& program = m_candidates.at(begin[i]).programs[0];
    // One set for all that run in a round: where it lies is the same for each of a pair.
    if (std::find(m_round.begin(), m_round.end(), begin[i]) != m_round.end()) {
      m_round.clear();
      ++m_set;
    }
    m_round.push_back(begin[i]);
    const std::size_t set = m_set % instance.sets();
    TRY(instance.restore(m_gpu, set));
    if (m_problem->cold) {
      TRY(flush());
    } else {
      TRY(program.launch(m_gpu, instance.addresses(set)));
      TRY(instance.restore(m_gpu, set));
    }
    TRY(m_gpu.check(functions.event_record(m_events[2 * i], m_gpu.stream()), "cuEventRecord"));
    TRY(program.launch(m_gpu, instance.addresses(set)));
    TRY(m_gpu.check(functions.event_record(m_events[2 * i + 1], m_gpu.stream()), "cuEventRecord"));
  }
  TRY(read_clock(1));
  m_flags.at<std::uint32_t>(k_release) = 1;
  TRY(m_gpu.synchronize());
  reply.held = reply.held && m_flags.at<std::uint32_t>(k_gave_up) == 0;
  for (std::size_t i = 0; i < count; ++i) {
    TRY_ASSIGN(const double time, elapsed_us(i));
    reply.times_us.push_back(time);
  }
  std::array<std::int64_t, 4> clocks{};
  TRY(m_gpu.check(functions.copy_to_host(clocks.data(), m_clocks.data(), sizeof clocks),
                  "cuMemcpyDtoH"));
  const std::int64_t nanoseconds = clocks[3] - clocks[1];
  const std::int64_t cycles = clocks[2] - clocks[0];
  if (nanoseconds > 0 && cycles > 0) {
    // Throttling is what the slowest batch shows.
    const double mhz = static_cast<double>(cycles) / static_cast<double>(nanoseconds) * 1e3;
    reply.clock_mhz = reply.clock_mhz == 0 ? mhz : std::min(reply.clock_mhz, mhz);
  }
  return {};
}

Result<void> Bench::check_after(const std::vector<std::uint32_t>& order, TuneReply& reply) {
  // What was timed ran under load: once more its outputs must be right, and nobody's memory
  // touched.
  std::size_t around = 1;  // what is measured often is looked at where it writes
  for (const std::uint32_t slot : order) {
    Candidate& candidate = m_candidates.at(slot);
    if (std::exchange(candidate.checked_after, true)) {
      continue;
    }
    around = m_instances.size();
    TRY(run_and_judge(candidate, 0, 0x5A, false, reply));
    if (reply.state != TuneReply::State::ok) {
      reply.message += " after it was timed";
      return {};
    }
  }
  for (std::size_t i = 0; i < around; ++i) {
    TRY_ASSIGN(const Instance::Verdict verdict, m_instances[i].judge_surroundings(m_gpu));
    if (!verdict.wrong.empty()) {
      reply.state = TuneReply::State::wrong;
      reply.message = verdict.wrong + " while it was timed";
      reply.worn = true;
      return {};
    }
  }
  return {};
}

void Bench::sample(const std::vector<std::uint32_t>& order, TuneReply& reply) {
  const auto attempt = [&]() -> Result<void> {
    std::size_t entries = 1;
    for (const std::uint32_t slot : order) {
      const auto found = m_candidates.find(slot);
      if (found == m_candidates.end() || found->second.programs[0].skipped()) {
        return fail(ErrorCode::environment, "nothing to sample in slot " + std::to_string(slot));
      }
      entries = std::max(entries, 2 * found->second.programs[0].queue_entries() + 4);
    }
    const std::size_t batch = std::clamp<std::size_t>(k_queue_entries / entries, 1, k_batch);
    for (std::size_t at = 0; at < order.size(); at += batch) {
      TRY(sample_batch(order.data() + at, std::min(batch, order.size() - at), reply));
    }
    return check_after(order, reply);
  };
  if (const auto result = attempt(); !result) {
    blame(result.error(), reply);
    reply.times_us.clear();
  }
}

}  // namespace cubinary::builder
