// SPDX-License-Identifier: Apache-2.0
#include "builder/expand/expand.hpp"

#include <algorithm>
#include <iterator>
#include <set>
#include <span>
#include <tuple>

#include "builder/expand/space.hpp"
#include "core/manifest/untuned.hpp"

namespace cubinary::builder {

using core::ErrorCode;
using core::fail;
using core::Manifest;
using core::Result;
using core::Target;
using store::CandidateRole;

namespace {

Variant variant_of(const Manifest& manifest, const Space& space,
                   std::span<const std::uint32_t> choice) {
  Variant variant;
  for (std::size_t d = 0; d < space.code_depth(); ++d) {
    const Space::Variable& variable = space.variables()[d];
    switch (variable.kind) {
      case Space::Kind::type: {
        const core::TypeParameter& type = manifest.types[variable.index];
        variant.types[type.name] = type.values[choice[d]];
        break;
      }
      case Space::Kind::axis: {
        const core::Axis& axis = manifest.axes[variable.index];
        variant.compile_axes[axis.name] = axis.tune[choice[d]];
        break;
      }
      case Space::Kind::tunable: {
        const core::Tunable& tunable = manifest.tunables[variable.index];
        variant.config[tunable.name] = tunable.values[choice[d]];
        break;
      }
    }
  }
  return variant;
}

/// Every assignment of types and compile axes, whatever the rules say.
std::vector<Variant> specialisations(const Manifest& manifest) {
  std::vector<Variant> all{Variant{}};
  for (const core::TypeParameter& type : manifest.types) {
    std::vector<Variant> next;
    for (const Variant& from : all) {
      for (const std::string& value : type.values) {
        next.push_back(from);
        next.back().types[type.name] = value;
      }
    }
    all = std::move(next);
  }
  for (const core::Axis& axis : manifest.axes) {
    if (!axis.compile) {
      continue;
    }
    std::vector<Variant> next;
    for (const Variant& from : all) {
      for (const std::int64_t value : axis.tune) {
        next.push_back(from);
        next.back().compile_axes[axis.name] = value;
      }
    }
    all = std::move(next);
  }
  return all;
}

bool before(const Variant& a, const Variant& b) {
  return std::tie(a.role, a.types, a.compile_axes, a.config) <
         std::tie(b.role, b.types, b.compile_axes, b.config);
}

/// Untuned, a kernel runs with its default config or one of `prefer`: one of them must be there for
/// all types and compile axes. `variants` are sorted.
Result<void> check_untuned_choice(const Manifest& manifest, const Target& target,
                                  const std::vector<Variant>& variants,
                                  const std::vector<Variant>& specialised) {
  std::vector<core::Config> choices;
  for (const core::Config& config : core::untuned_configs(manifest)) {
    choices.push_back(core::code_part(manifest, config));
  }
  for (Variant variant : specialised) {
    const bool served = std::any_of(choices.begin(), choices.end(), [&](const core::Config& each) {
      variant.config = each;
      return std::binary_search(variants.begin(), variants.end(), variant, before);
    });
    if (!served) {
      std::string which = core::to_display(variant.types);
      if (!variant.compile_axes.empty()) {
        which += " " + core::to_display(variant.compile_axes);
      }
      return fail(ErrorCode::manifest, manifest.path.string() + ": for " + which + " on " +
                                           target.text() +
                                           " the rules leave out the default config (" +
                                           core::to_display(manifest.default_config()) +
                                           ") and all of `prefer`: one must always be valid");
    }
  }
  return {};
}

}  // namespace

Result<std::vector<Variant>> expand(const Manifest& manifest, const Target& target) {
  const Space space(manifest, target);
  // Choices first, as numbers: a space that is too large is refused before it takes much memory.
  const std::size_t depth = space.code_depth();
  std::vector<std::uint32_t> choices;
  std::uint64_t found = 0;
  space.for_each_candidate([&](const std::vector<std::size_t>& choice) {
    std::transform(choice.begin(), choice.begin() + static_cast<std::ptrdiff_t>(depth),
                   std::back_inserter(choices),
                   [](std::size_t value) { return static_cast<std::uint32_t>(value); });
    return ++found <= k_max_candidates;
  });
  if (found > k_max_candidates) {
    return fail(
        ErrorCode::too_large,
        "kernel " + manifest.name + " expands to more than " + std::to_string(k_max_candidates) +
            " candidates for " + target.text() +
            ": tighten its rules (`cubinary expand --count` shows what each one leaves out)");
  }
  std::vector<Variant> variants;
  variants.reserve(found);
  for (std::uint64_t i = 0; i < found; ++i) {
    variants.push_back(variant_of(manifest, space, std::span(choices).subspan(i * depth, depth)));
  }
  std::sort(variants.begin(), variants.end(), before);

  const std::vector<Variant> wanted = specialisations(manifest);
  TRY(check_untuned_choice(manifest, target, variants, wanted));
  const auto add_helpers = [&](CandidateRole role) {
    for (Variant helper : wanted) {
      helper.role = role;
      variants.push_back(std::move(helper));
    }
  };
  if (manifest.reference) {
    add_helpers(CandidateRole::reference);
  }
  if (manifest.prepare) {
    add_helpers(CandidateRole::prepare);
  }
  std::sort(variants.begin(), variants.end(), before);
  return variants;
}

SpaceCount count_space(const Manifest& manifest, const Target& target) {
  const Space space(manifest, target);
  const Space::Totals totals = space.count();
  SpaceCount count{totals.raw, totals.configs, totals.candidates, {}, {}};
  for (std::size_t i = 0; i < manifest.rules.size(); ++i) {
    count.rules.push_back({manifest.rules[i].expression.text(), manifest.rules[i].location.line,
                           !space.judged_here(i), totals.killed[i]});
  }
  std::set<std::pair<std::size_t, std::size_t>> dead;
  for (std::size_t d = 0; d < space.variables().size(); ++d) {
    const Space::Variable& variable = space.variables()[d];
    for (std::size_t v = 0; v < variable.size; ++v) {
      if (variable.kind == Space::Kind::tunable && !totals.alive[d][v]) {
        dead.emplace(variable.index, v);
      }
    }
  }
  for (const auto& [tunable, value] : dead) {
    count.dead.push_back(
        {manifest.tunables[tunable].name, core::to_code(manifest.tunables[tunable].values[value])});
  }
  return count;
}

}  // namespace cubinary::builder
