// SPDX-License-Identifier: Apache-2.0
#include "builder/inspect/launch_gate.hpp"

#include <algorithm>
#include <array>

#include "core/model/dtype.hpp"

namespace cubinary::builder {

using core::ArgumentKind;
using core::ErrorCode;
using core::fail;
using core::Result;
using store::CandidateRole;

/// Why a launch cannot be, and by how much it misses.
struct LaunchGate::Misfit {
  std::string why;
  std::int64_t excess = 0;
};

namespace {

using Dimensions = std::array<std::int64_t, 3>;

std::int64_t product(const Dimensions& dimensions) {
  return dimensions[0] * dimensions[1] * dimensions[2];
}

std::string text_of(const Dimensions& dimensions) {
  return std::to_string(dimensions[0]) + "x" + std::to_string(dimensions[1]) + "x" +
         std::to_string(dimensions[2]);
}

/// What is known of up to three dimensions: one that the shape or the device decides is 0.
Result<Dimensions> known_dimensions(const std::vector<Space::Formula>& formulas,
                                    const Space::Evaluate& evaluate) {
  Dimensions known{1, 1, 1};
  for (std::size_t i = 0; i < formulas.size() && i < known.size(); ++i) {
    known[i] = 0;
    if (formulas[i].judged_here) {
      TRY_ASSIGN(known[i], evaluate(formulas[i]));
      if (known[i] < 1 || known[i] > 1024) {
        return fail(ErrorCode::bad_cubin,
                    formulas[i].code.expression.text() + " is " + std::to_string(known[i]));
      }
    }
  }
  return known;
}

/// Whether known dimensions cannot be the required ones.
bool contradict(const Dimensions& known, const Dimensions& required) {
  for (std::size_t i = 0; i < known.size(); ++i) {
    if (known[i] != 0 && known[i] != required[i]) {
      return true;
    }
  }
  return false;
}

/// Which of its limits allows an entry no more threads.
std::string reason_of(const CubinEntry& entry) {
  return entry.launch_bound != 0 && entry.launch_bound <= entry.max_threads
             ? "its __launch_bounds__"
             : "its " + std::to_string(entry.registers) + " registers a thread";
}

}  // namespace

LaunchGate::LaunchGate(const core::Manifest& manifest, const core::Target& target)
    : m_target(target),
      m_space(manifest, target),
      m_types(manifest.types),
      m_axes(manifest.axes),
      m_tunables(manifest.tunables) {
  for (const core::Step& step : manifest.steps) {
    add(CandidateRole::kernel, step.launch, step.arguments, manifest);
  }
  if (manifest.reference) {
    add(CandidateRole::reference, manifest.reference->launch, manifest.reference->arguments,
        manifest);
  }
  if (manifest.prepare) {
    add(CandidateRole::prepare, manifest.prepare->launch, manifest.prepare->arguments, manifest);
  }
}

void LaunchGate::add(CandidateRole role, const core::LaunchSpec& spec,
                     const std::vector<std::size_t>& arguments, const core::Manifest& manifest) {
  Launch launch;
  for (const std::size_t index : arguments) {
    const core::Argument& argument = manifest.arguments[index];
    Parameter parameter{argument.name, "", "a pointer", 8};
    if (argument.kind == ArgumentKind::scalar) {
      parameter.type = argument.type;
    } else if (argument.kind == ArgumentKind::bytes) {
      parameter.kind = "a struct";
      parameter.size = argument.byte_size;
    } else if (argument.kind == ArgumentKind::handle) {
      parameter.kind = "a handle";
    }
    launch.parameters.push_back(std::move(parameter));
  }
  for (const core::LocatedExpression& dimension : spec.block) {
    launch.block.push_back(m_space.formula(dimension.expression));
  }
  for (const core::LocatedExpression& dimension : spec.cluster) {
    launch.cluster.push_back(m_space.formula(dimension.expression));
  }
  if (spec.smem) {
    launch.smem = m_space.formula(spec.smem->expression);
  }
  m_launches[role].push_back(std::move(launch));
}

Result<void> LaunchGate::judge(const Variant& variant, std::span<const CubinEntry* const> entries,
                               std::span<const std::string> names) const {
  const auto found = m_launches.find(variant.role);
  const auto choice = choice_of(variant);
  if (!choice || found->second.size() != entries.size() || names.size() != entries.size()) {
    return fail(ErrorCode::internal, "a candidate is none of its manifest");
  }
  const std::vector<Launch>& launches = found->second;
  for (std::size_t i = 0; i < launches.size(); ++i) {
    TRY(judge_parameters(launches[i], variant, *entries[i], names[i]));
  }
  const auto try_all = [&](const Space::Evaluate& evaluate) -> std::optional<Misfit> {
    for (std::size_t i = 0; i < launches.size(); ++i) {
      if (auto no = misfit(launches[i], *entries[i], names[i], evaluate)) {
        return no;
      }
    }
    return std::nullopt;
  };
  std::optional<Misfit> nearest;
  if (variant.role != CandidateRole::kernel) {
    m_space.at(*choice, [&](const Space::Evaluate& evaluate) { nearest = try_all(evaluate); });
  } else {
    constexpr std::size_t k_most = 10'000;  // beyond them a launch is the judge
    std::size_t tried = 0;
    m_space.for_each_launch(
        *choice, [&](const std::vector<std::size_t>& whole, const Space::Evaluate& evaluate) {
          auto no = ++tried > k_most ? std::nullopt : try_all(evaluate);
          if (!no) {
            nearest.reset();
            return false;
          }
          if (!nearest || no->excess < nearest->excess) {
            no->why += launch_config(whole);
            nearest = std::move(no);
          }
          return true;
        });
  }
  return nearest ? Result<void>(fail(ErrorCode::bad_cubin, nearest->why)) : Result<void>();
}

Result<void> LaunchGate::judge_parameters(const Launch& launch, const Variant& variant,
                                          const CubinEntry& entry, const std::string& name) const {
  if (entry.parameters.empty() && entry.parameter_bytes != 0) {
    return {};  // the compiler did not say what they are
  }
  const std::vector<Parameter>& passed = launch.parameters;
  if (entry.parameters.size() != passed.size()) {
    std::string list;
    for (const Parameter& parameter : passed) {
      list += (list.empty() ? "" : ", ") + parameter.name;
    }
    return fail(ErrorCode::bad_cubin, "`" + name + "` takes " +
                                          std::to_string(entry.parameters.size()) +
                                          " parameters, and the manifest passes " +
                                          std::to_string(passed.size()) + ": " + list);
  }
  for (std::size_t i = 0; i < passed.size(); ++i) {
    std::int64_t size = passed[i].size;
    std::string kind = passed[i].kind;
    if (!passed[i].type.empty()) {
      const auto chosen = variant.types.find(passed[i].type);
      const std::string& dtype = chosen == variant.types.end() ? passed[i].type : chosen->second;
      const core::DType* const known = core::find_dtype(dtype);
      size = known == nullptr ? size : known->bytes;
      kind = dtype;
    }
    if (size != entry.parameters[i].size) {
      return fail(ErrorCode::bad_cubin, "parameter " + std::to_string(i + 1) + " of `" + name +
                                            "` is " + std::to_string(entry.parameters[i].size) +
                                            " bytes long, and the manifest passes " +
                                            passed[i].name + ", " + kind + " of " +
                                            std::to_string(size));
    }
  }
  return {};
}

std::optional<LaunchGate::Misfit> LaunchGate::misfit(const Launch& launch, const CubinEntry& entry,
                                                     const std::string& name,
                                                     const Space::Evaluate& evaluate) const {
  // A launch that fails later misses by less.
  constexpr std::int64_t k_far = std::int64_t{1} << 40;
  const std::string who = "`" + name + "` ";
  const auto block = known_dimensions(launch.block, evaluate);
  if (!block) {
    return Misfit{who + "has no block: " + block.error().message, 4 * k_far};
  }
  if (product(entry.required_block) != 0 && contradict(*block, entry.required_block)) {
    return Misfit{who + "is compiled for blocks of " + text_of(entry.required_block) +
                      " alone (__block_size__), and the manifest's block is " + text_of(*block),
                  3 * k_far};
  }
  Dimensions least = *block;
  std::replace(least.begin(), least.end(), std::int64_t{0}, std::int64_t{1});
  if (const std::int64_t threads = product(least); threads > entry.max_threads) {
    return Misfit{who + "can have at most " + std::to_string(entry.max_threads) +
                      " threads a block (" + reason_of(entry) + "), and the manifest's block has " +
                      std::to_string(threads),
                  2 * k_far + threads - entry.max_threads};
  }
  if (product(entry.required_cluster) > 1) {
    const auto cluster = known_dimensions(launch.cluster, evaluate);
    if (!cluster || contradict(*cluster, entry.required_cluster)) {
      return Misfit{who + "is compiled for clusters of " + text_of(entry.required_cluster) +
                        " alone (__cluster_dims__), and the manifest's launch " +
                        (launch.cluster.empty() ? "names none" : "names others"),
                    k_far};
    }
  }
  std::int64_t dynamic = 0;
  if (launch.smem && launch.smem->judged_here) {
    const auto asked = evaluate(*launch.smem);
    if (!asked) {
      return Misfit{who + "has no size of shared memory: " + asked.error().message, k_far};
    }
    dynamic = *asked;
  }
  const std::int64_t most = m_target.limits().smem_optin;
  if (dynamic < 0 || dynamic > most - entry.static_smem) {
    return Misfit{who + "has " + std::to_string(entry.static_smem) +
                      " bytes of static shared memory and the manifest's launch asks for " +
                      std::to_string(dynamic) + " more; a block can have " + std::to_string(most) +
                      " on " + m_target.text(),
                  std::min(dynamic, k_far - 1)};
  }
  return std::nullopt;
}

std::optional<std::vector<std::size_t>> LaunchGate::choice_of(const Variant& variant) const {
  if (!m_launches.contains(variant.role)) {
    return std::nullopt;
  }
  std::vector<std::size_t> choice;
  const auto add_index = [&](const auto& values, const auto& value) {
    const auto at = std::find(values.begin(), values.end(), value);
    choice.push_back(static_cast<std::size_t>(at - values.begin()));
    return at != values.end();
  };
  for (std::size_t d = 0; d < m_space.code_depth(); ++d) {
    const Space::Variable& variable = m_space.variables()[d];
    bool known = true;
    if (variable.kind == Space::Kind::type) {
      const auto value = variant.types.find(m_types[variable.index].name);
      known =
          value != variant.types.end() && add_index(m_types[variable.index].values, value->second);
    } else if (variable.kind == Space::Kind::axis) {
      const auto value = variant.compile_axes.find(m_axes[variable.index].name);
      known = value != variant.compile_axes.end() &&
              add_index(m_axes[variable.index].tune, value->second);
    } else if (variant.role != CandidateRole::kernel) {
      choice.push_back(0);  // helpers do not see it
    } else {
      const auto value = variant.config.find(m_tunables[variable.index].name);
      known = value != variant.config.end() &&
              add_index(m_tunables[variable.index].values, value->second);
    }
    if (!known) {
      return std::nullopt;
    }
  }
  return choice;
}

std::string LaunchGate::launch_config(const std::vector<std::size_t>& choice) const {
  core::Config config;
  for (std::size_t d = m_space.code_depth(); d < choice.size(); ++d) {
    const core::Tunable& tunable = m_tunables[m_space.variables()[d].index];
    config[tunable.name] = tunable.values[choice[d]];
  }
  return config.empty() ? "" : " with " + core::to_display(config) + ", the nearest valid config";
}

}  // namespace cubinary::builder
