// SPDX-License-Identifier: Apache-2.0
#include "builder/tune/job_plan.hpp"

#include <algorithm>
#include <charconv>
#include <cstring>

#include "builder/tune/fill.hpp"
#include "core/launch/names.hpp"
#include "core/manifest/untuned.hpp"
#include "core/model/dtype.hpp"

namespace cubinary::builder {

using core::ArgumentKind;
using core::Config;
using core::ErrorCode;
using core::fail;
using core::Result;

namespace {

/// Tensor cores reach more through newer instructions than through mma.sync, by which the session's
/// peak is measured; a floor must allow for the best of them.
double beyond_mma_sync(const core::Capability& capability) {
  switch (capability.major) {
    case 9:
      return 1.6;  // wgmma
    case 10:
    case 11:
      return 4.0;  // tcgen05
    default:
      return 1.0;
  }
}

/// No block is larger anywhere.
constexpr std::int64_t k_any_threads = 1024;

/// How many times faster than f16 the tensor cores take the narrowest type among `types`.
double narrow_factor(const core::Types& types) {
  double factor = 0;
  for (const auto& [name, dtype] : types) {
    const core::DType* found = core::find_dtype(dtype);
    if (found == nullptr) {
      continue;
    }
    // f32 may run as tf32, f64 as f64: a quarter is beyond both.
    const double here = found->bytes == 1   ? 2.0
                        : found->bytes == 2 ? 1.0
                        : found->bytes == 4 ? 0.5
                                            : 0.25;
    factor = std::max(factor, here);
  }
  return factor == 0 ? 2.0 : factor;
}

}  // namespace

Result<JobPlan> JobPlan::make(core::Manifest manifest, const store::TuningJob& job,
                              const core::DeviceFacts& device,
                              const std::vector<store::Candidate>& candidates) {
  JobPlan plan;
  plan.m_manifest = std::move(manifest);
  plan.m_job = job;
  plan.m_device = device;
  TRY_ASSIGN(plan.m_target, core::Target::parse(job.target));
  plan.m_table = core::table_from_manifest(plan.m_manifest);
  TRY(plan.check_arguments());
  TRY(plan.find_candidates(candidates));
  for (const core::CallerArgument& argument : core::caller_arguments(plan.m_table, job.types)) {
    if (core::is_pointer(argument.kind)) {
      plan.m_alignments.emplace(argument.name, k_tuned_alignment);
    }
  }
  TRY(plan.make_space());
  TRY(plan.make_work());
  plan.make_recipe();
  return plan;
}

Result<void> JobPlan::check_arguments() const {
  const std::string where = "kernel " + m_manifest.name + ": ";
  if (!m_manifest.reference) {
    return fail(ErrorCode::unsupported,
                where + "its manifest has no [check] reference, so no result could be checked");
  }
  for (const core::CallerArgument& argument : core::caller_arguments(m_table, m_job.types)) {
    if (argument.kind == ArgumentKind::handle || argument.kind == ArgumentKind::bytes) {
      return fail(ErrorCode::unsupported,
                  where + "only a caller can make its argument " + argument.name +
                      (argument.kind == ArgumentKind::handle ? " (a handle)" : " (a struct)") +
                      ", so it cannot be tuned here");
    }
    if (argument.kind == ArgumentKind::scalar && !argument.default_value) {
      return fail(ErrorCode::unsupported,
                  where + "its scalar " + argument.name +
                      " has neither `is` nor `default`: give it a default to tune with");
    }
  }
  return {};
}

bool JobPlan::is_of_job(const store::Candidate& candidate) const {
  core::Shape compiled;
  for (const core::Axis& axis : m_manifest.axes) {
    if (axis.compile) {
      compiled[axis.name] = m_job.shape.at(axis.name);
    }
  }
  return candidate.types == m_job.types && candidate.compile_axes == compiled;
}

Result<void> JobPlan::find_candidates(const std::vector<store::Candidate>& all) {
  std::string why;
  for (const store::Candidate& candidate : all) {
    if (!is_of_job(candidate)) {
      continue;
    }
    const bool usable = candidate.status == store::CandidateStatus::ok && candidate.artifact;
    switch (candidate.role) {
      case store::CandidateRole::kernel:
        if (candidate.id == 0) {
          // Until it is compiled, rules alone say where it can be launched.
          store::Candidate& planned = m_candidates[candidate.config] = candidate;
          planned.symbols.assign(m_table.steps.size(), {"", k_any_threads, 0, 0, 0});
          ++m_uncompiled;
        } else if (usable && candidate.symbols.size() == m_table.steps.size()) {
          m_candidates.emplace(candidate.config, candidate);
        }
        break;
      case store::CandidateRole::reference:
        if (usable) {
          m_reference = candidate;
        } else if (!candidate.message.empty()) {
          why = ": it failed to compile (" + candidate.message + ")";
        }
        break;
      case store::CandidateRole::prepare:
        if (usable) {
          m_prepare = candidate;
        }
        break;
    }
  }
  const std::string where = "kernel " + m_manifest.name + ", " + m_job.target + ", " +
                            core::to_display(m_job.types) + ": ";
  if (!m_reference || (m_manifest.prepare && !m_prepare)) {
    return fail(ErrorCode::not_found, where + "its " + (m_reference ? "prepare" : "reference") +
                                          " kernel is not in the store" + why +
                                          "; run `cubinary build`");
  }
  if (m_candidates.empty()) {
    return fail(ErrorCode::not_found,
                where + "no candidate of it is usable; run `cubinary build` and see what failed");
  }
  return {};
}

void JobPlan::compiled(const store::Candidate& candidate) {
  const auto found = m_candidates.find(candidate.config);
  if (candidate.role != store::CandidateRole::kernel || !is_of_job(candidate) ||
      found == m_candidates.end() || found->second.id != 0) {
    return;
  }
  found->second = candidate;
  --m_uncompiled;
}

std::size_t JobPlan::compilable() const {
  std::size_t count = m_space->size();
  if (std::ranges::all_of(m_candidates, [](const auto& each) {
        return each.second.status == store::CandidateStatus::ok;
      })) {
    return count;
  }
  for (ConfigIndex config = 0; config < m_space->size(); ++config) {
    count -= candidate(m_space->config(config))->status == store::CandidateStatus::ok ? 0 : 1;
  }
  return count;
}

const store::Candidate* JobPlan::candidate(const Config& config) const {
  const auto found = m_candidates.find(core::code_part(m_manifest, config));
  return found == m_candidates.end() ? nullptr : &found->second;
}

Result<core::LaunchPlan> JobPlan::plan(const Config& config, const core::Shape& shape) const {
  const store::Candidate* found = candidate(config);
  if (found == nullptr) {
    return fail(ErrorCode::not_found, "no candidate holds " + core::to_display(config));
  }
  core::TableEntry entry;
  entry.types = m_job.types;
  entry.config = config;
  entry.symbols = found->symbols;
  return core::plan_launch(m_table, entry, shape, m_alignments, *m_target, m_device);
}

Result<void> JobPlan::make_space() {
  std::vector<SearchTunable> tunables;
  std::vector<const core::Tunable*> launch;
  for (const core::Tunable& tunable : m_manifest.tunables) {
    tunables.push_back({tunable.name, tunable.values, core::changes_code(tunable.use)});
    if (!core::changes_code(tunable.use)) {
      launch.push_back(&tunable);
    }
  }
  // Candidates × launch tunables; what the rules of this shape leave.
  std::vector<Config> configs;
  std::string refused;
  for (const auto& [code, candidate] : m_candidates) {
    std::vector<std::size_t> choice(launch.size(), 0);
    while (true) {
      Config config = code;
      for (std::size_t i = 0; i < launch.size(); ++i) {
        config[launch[i]->name] = launch[i]->values[choice[i]];
      }
      const auto planned = plan(config, m_job.shape);
      if (planned) {
        configs.push_back(std::move(config));
      } else {
        refused = planned.error().message;
      }
      std::size_t at = 0;
      while (at < launch.size() && ++choice[at] == launch[at]->values.size()) {
        choice[at++] = 0;
      }
      if (at == launch.size()) {
        break;
      }
    }
    if (configs.size() > SearchSpace::k_max_configs) {
      break;
    }
  }
  if (configs.empty()) {
    return fail(ErrorCode::unsupported, "kernel " + m_manifest.name + ": no config serves " +
                                            core::to_display(m_job.shape) + ": " + refused);
  }
  TRY_ASSIGN(m_space, SearchSpace::make(std::move(tunables), configs));
  for (Config& config : core::untuned_configs(m_manifest)) {
    if (m_space->find(config)) {
      if (m_first.empty()) {
        m_baseline = config;
      }
      m_first.push_back(std::move(config));
    }
  }
  return {};
}

std::vector<core::Shape> JobPlan::shapes() const {
  std::vector<core::Shape> all{m_job.shape};
  for (const core::Shape& shape : m_manifest.also) {
    const bool same_code = std::ranges::all_of(m_manifest.axes, [&](const core::Axis& axis) {
      return !axis.compile || shape.at(axis.name) == m_job.shape.at(axis.name);
    });
    if (same_code && shape != m_job.shape) {
      all.push_back(shape);
    }
  }
  return all;
}

Result<BufferSpec> JobPlan::buffer(const core::CallerArgument& argument,
                                   const core::LaunchScope& scope) const {
  BufferSpec spec;
  spec.name = argument.name;
  const core::DType* dtype = core::find_dtype(argument.dtype);
  if (dtype == nullptr) {
    return fail(ErrorCode::internal, "argument " + argument.name + " has no dtype");
  }
  spec.dtype = static_cast<std::uint32_t>(dtype - core::dtype_table().data());
  spec.count = argument.buffer_bytes / static_cast<std::uint64_t>(dtype->bytes);
  spec.input = argument.kind != ArgumentKind::out;
  spec.output = argument.kind != ArgumentKind::in;
  if (spec.input) {
    const core::Argument* declared = m_manifest.find_argument(argument.name);
    TRY_ASSIGN(spec.fill, parse_fill(declared->fill, *dtype, scope));
  }
  if (spec.output) {
    if (const auto found = m_manifest.tolerance.find(argument.dtype);
        found != m_manifest.tolerance.end()) {
      spec.relative = found->second.relative;
      spec.absolute = found->second.absolute;
    }
  }
  return spec;
}

Result<ProgramSpec> JobPlan::program(const core::LaunchPlan& plan,
                                     const std::vector<core::EntrySymbol>& symbols) const {
  // Buffers are the caller's pointers, in order.
  std::vector<std::uint32_t> buffer_of(plan.arguments.size(), 0);
  std::uint32_t next = 0;
  for (std::size_t i = 0; i < plan.arguments.size(); ++i) {
    if (core::is_pointer(plan.arguments[i].kind)) {
      buffer_of[i] = next++;
    }
  }
  ProgramSpec spec;
  spec.workspace = plan.workspace_bytes;
  spec.zeroed = plan.zeroed;
  for (const core::StepPlan& step : plan.steps) {
    if (step.empty) {
      continue;
    }
    KernelLaunch launch;
    launch.symbol = symbols.at(step.step).symbol;
    launch.grid = step.grid;
    launch.block = step.block;
    launch.cluster = step.cluster;
    launch.smem = step.dynamic_smem;
    launch.cooperative = step.cooperative;
    for (const core::ParameterSource& source : step.parameters) {
      ParameterSpec parameter;
      const auto set_value = [&](const std::array<std::byte, 8>& bytes) {
        std::memcpy(&parameter.value, bytes.data(), sizeof parameter.value);
      };
      switch (source.from) {
        case core::ParameterSource::From::caller_pointer:
          parameter.buffer = buffer_of.at(source.index);
          break;
        case core::ParameterSource::From::caller_value:
          set_value(*plan.arguments.at(source.index).default_value);
          break;
        case core::ParameterSource::From::workspace:
          parameter.buffer = ParameterSpec::k_workspace;
          parameter.offset = source.offset;
          break;
        case core::ParameterSource::From::constant:
          set_value(source.value);
          break;
      }
      launch.parameters.push_back(parameter);
    }
    spec.launches.push_back(std::move(launch));
  }
  return spec;
}

Result<core::LaunchPlan> JobPlan::plan_helper(const core::HelperKernel& helper,
                                              const store::Candidate& candidate,
                                              const core::Shape& shape) const {
  // A helper is planned as a kernel of one step with no rules and no tunables.
  core::KernelTable table = m_table;
  table.rules.clear();
  for (core::Argument& argument : table.arguments) {
    argument.vector.reset();
  }
  core::Step step;
  step.name = "helper";
  step.launch = helper.launch;
  step.arguments = helper.arguments;
  table.steps = {std::move(step)};
  core::TableEntry entry;
  entry.types = m_job.types;
  entry.config = m_baseline.empty() ? m_manifest.default_config() : m_baseline;
  entry.symbols = candidate.symbols;
  return core::plan_launch(table, entry, shape, m_alignments, *m_target, m_device);
}

Result<ProblemSpec> JobPlan::problem(std::uint64_t seed) const {
  ProblemSpec spec;
  spec.seed = seed;
  spec.cold = cold();
  const Config config = m_manifest.default_config();
  for (const core::Shape& shape : shapes()) {
    InstanceSpec instance;
    instance.shape = core::to_display(shape);
    TRY_ASSIGN(const core::LaunchPlan reference,
               plan_helper(*m_manifest.reference, *m_reference, shape));
    TRY_ASSIGN(instance.reference, program(reference, m_reference->symbols));
    instance.prepare.skipped = true;
    if (m_manifest.prepare) {
      TRY_ASSIGN(const core::LaunchPlan prepare,
                 plan_helper(*m_manifest.prepare, *m_prepare, shape));
      TRY_ASSIGN(instance.prepare, program(prepare, m_prepare->symbols));
    }
    TRY_ASSIGN(const core::LaunchScope scope,
               core::LaunchScope::make(m_table, m_job.types, config, shape, m_alignments, *m_target,
                                       m_device));
    for (const core::CallerArgument& argument : reference.arguments) {
      if (core::is_pointer(argument.kind)) {
        TRY_ASSIGN(BufferSpec made, buffer(argument, scope));
        instance.buffers.push_back(std::move(made));
      }
    }
    spec.instances.push_back(std::move(instance));
  }
  return spec;
}

Result<CandidateSpec> JobPlan::programs(const Config& config) const {
  CandidateSpec spec;
  const store::Candidate* found = candidate(config);
  if (found == nullptr) {
    return fail(ErrorCode::not_found, "no candidate holds " + core::to_display(config));
  }
  for (const core::Shape& shape : shapes()) {
    const auto planned = plan(config, shape);
    if (planned) {
      TRY_ASSIGN(ProgramSpec made, program(*planned, found->symbols));
      spec.programs.push_back(std::move(made));
    } else if (spec.programs.empty()) {
      return fail(planned.error());
    } else {
      spec.programs.emplace_back().skipped = true;  // a config need not serve every `also` shape
    }
  }
  return spec;
}

Result<void> JobPlan::make_work() {
  const Config config = m_manifest.default_config();
  TRY_ASSIGN(const core::LaunchScope scope,
             core::LaunchScope::make(m_table, m_job.types, config, m_job.shape, m_alignments,
                                     *m_target, m_device));
  if (m_manifest.bytes) {
    TRY_ASSIGN(const std::int64_t bytes, scope.evaluate(m_manifest.bytes->expression));
    m_work.bytes = static_cast<double>(bytes);
  }
  if (m_manifest.flops) {
    TRY_ASSIGN(const std::int64_t flops, scope.evaluate(m_manifest.flops->expression));
    m_work.flops = static_cast<double>(flops);
  }
  // Outputs may stay in the L2 cache when a launch ends.
  double written = 0;
  for (const core::Argument& argument : m_manifest.arguments) {
    if (argument.kind == ArgumentKind::out && argument.length) {
      TRY_ASSIGN(const std::int64_t length, scope.evaluate(argument.length->expression));
      const core::DType* dtype = core::argument_dtype(argument, m_job.types);
      written +=
          static_cast<double>(length) * static_cast<double>(dtype == nullptr ? 1 : dtype->bytes);
    }
  }
  m_work.cold_bytes = written;  // until floor_us knows the cache
  return {};
}

double JobPlan::floor_us(const std::map<std::string, double>& peaks, std::int64_t l2_bytes) const {
  const auto peak = [&](const char* name) {
    const auto found = peaks.find(name);
    return found == peaks.end() ? 0.0 : found->second;
  };
  double floor = 0;
  const auto consider = [&](double amount, double per_us) {
    if (amount > 0 && per_us > 0) {
      floor = std::max(floor, amount / per_us);
    }
  };
  if (cold()) {
    const double kept = std::min(m_work.cold_bytes, static_cast<double>(l2_bytes));
    consider(m_work.bytes - kept, peak("dram_gbps") * 1e3);
  }
  consider(m_work.bytes, peak("l2_gbps") * 1e3);
  const double tensor = peak("mma_tflops") * beyond_mma_sync(m_job.device_class.capability) *
                        narrow_factor(m_job.types);
  consider(m_work.flops, std::max(tensor, peak("f32_tflops")) * 1e6);
  return floor;
}

void JobPlan::make_recipe() {
  core::Hasher hasher;
  const auto text = [&](const std::optional<core::LocatedExpression>& located) {
    hasher.field(located ? located->expression.text() : "");
  };
  const auto list = [&](const std::vector<core::LocatedExpression>& all) {
    hasher.field(std::to_string(all.size()));
    for (const core::LocatedExpression& each : all) {
      hasher.field(each.expression.text());
    }
  };
  hasher.field("tuning recipe 1");
  for (const core::Argument& argument : m_manifest.arguments) {
    hasher.field(argument.name).field(std::to_string(static_cast<int>(argument.kind)));
    hasher.field(argument.type).field(argument.fill).field(argument.zeroed ? "zero" : "");
    text(argument.length);
    text(argument.is);
    hasher.field(argument.default_value ? std::to_string(*argument.default_value) : "");
  }
  for (const auto& [name, let] : m_manifest.lets) {
    hasher.field(name).field(let.expression.text());
  }
  for (const core::Step& step : m_manifest.steps) {
    list(step.launch.grid);
    list(step.launch.block);
    list(step.launch.cluster);
    text(step.launch.smem);
    hasher.field(step.launch.cooperative ? "cooperative" : "");
  }
  hasher.field(m_reference->build_key.hex());
  hasher.field(m_prepare ? m_prepare->build_key.hex() : "");
  for (const auto& [dtype, tolerance] : m_manifest.tolerance) {
    hasher.field(dtype).field(std::to_string(tolerance.relative));
    hasher.field(std::to_string(tolerance.absolute));
  }
  for (const core::Shape& shape : m_manifest.also) {
    hasher.field(core::to_json(shape));
  }
  hasher.field(cold() ? "cold" : "warm");
  m_recipe = hasher.finish();
}

}  // namespace cubinary::builder
