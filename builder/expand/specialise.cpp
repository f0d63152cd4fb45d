// SPDX-License-Identifier: Apache-2.0
#include "builder/expand/specialise.hpp"

#include <optional>

#include "core/base/nearest.hpp"
#include "core/model/dtype.hpp"

namespace cubinary::builder {

using core::ErrorCode;
using core::fail;
using core::Manifest;
using core::Result;
using store::CandidateRole;

namespace {

std::string type_spelling(const core::TypeParameter& type, const std::string& dtype) {
  if (const auto own = type.spelling.find(dtype); own != type.spelling.end()) {
    return own->second;
  }
  const core::DType* known = core::find_dtype(dtype);
  return known == nullptr ? dtype : std::string(known->c_name);
}

std::optional<std::string> spelling_of(const Manifest& manifest, const Variant& variant,
                                       const std::string& name) {
  if (const auto type = variant.types.find(name); type != variant.types.end()) {
    return type_spelling(*manifest.find_type(name), type->second);
  }
  if (const auto axis = variant.compile_axes.find(name); axis != variant.compile_axes.end()) {
    return std::to_string(axis->second);
  }
  if (const auto tunable = variant.config.find(name); tunable != variant.config.end()) {
    return core::to_code(tunable->second);
  }
  return std::nullopt;
}

Result<std::string> fill(const Manifest& manifest, const Variant& variant,
                         const std::string& entry) {
  std::string filled;
  std::size_t at = 0;
  for (;;) {
    const std::size_t open = entry.find('{', at);
    filled += entry.substr(at, open - at);
    if (open == std::string::npos) {
      return filled;
    }
    const std::size_t close = entry.find('}', open);
    const std::string name = entry.substr(open + 1, close - open - 1);
    const auto spelling = spelling_of(manifest, variant, name);
    if (close == std::string::npos || !spelling) {
      std::vector<std::string> known;
      for (const auto& [type, value] : variant.types) {
        known.push_back(type);
      }
      for (const auto& [axis, value] : variant.compile_axes) {
        known.push_back(axis);
      }
      for (const auto& [tunable, value] : variant.config) {
        known.push_back(tunable);
      }
      return fail(ErrorCode::manifest, manifest.path.string() + ": `{" + name + "}` in entry `" +
                                           entry + "` names nothing that is fixed when the " +
                                           std::string(store::role_name(variant.role)) +
                                           " is compiled" + core::did_you_mean(name, known));
    }
    filled += *spelling;
    at = close + 1;
  }
}

}  // namespace

Result<Specialisation> specialise(const Manifest& manifest, const Variant& variant) {
  Specialisation special;
  special.options = manifest.flags;
  for (const core::TypeParameter& type : manifest.types) {
    if (type.macro) {
      special.options.push_back("-D" + *type.macro + "=" +
                                type_spelling(type, variant.types.at(type.name)));
    }
  }
  for (const core::Axis& axis : manifest.axes) {
    if (axis.compile && axis.macro) {
      special.options.push_back("-D" + *axis.macro + "=" +
                                std::to_string(variant.compile_axes.at(axis.name)));
    }
  }
  for (const core::Tunable& tunable : manifest.tunables) {
    const auto value = variant.config.find(tunable.name);
    if (value == variant.config.end()) {
      continue;
    }
    const std::string code = core::to_code(value->second);
    if (tunable.use == core::TunableUse::define) {
      special.options.push_back("-D" + (tunable.macro.empty() ? tunable.name : tunable.macro) +
                                "=" + code);
    } else if (tunable.use == core::TunableUse::flag) {
      std::string flag = tunable.flag;
      if (const std::size_t hole = flag.find("{}"); hole != std::string::npos) {
        flag.replace(hole, 2, code);
      }
      if (!flag.empty()) {
        special.options.push_back(std::move(flag));
      }
    }
  }
  const auto add_entry = [&](const std::string& entry) -> Result<void> {
    TRY_ASSIGN(std::string filled, fill(manifest, variant, entry));
    special.entries.push_back(std::move(filled));
    return {};
  };
  switch (variant.role) {
    case CandidateRole::kernel:
      for (const core::Step& step : manifest.steps) {
        TRY(add_entry(step.entry));
      }
      break;
    case CandidateRole::reference:
      TRY(add_entry(manifest.reference->entry));
      break;
    case CandidateRole::prepare:
      TRY(add_entry(manifest.prepare->entry));
      break;
  }
  return special;
}

std::vector<std::string> sources_of(const Manifest& manifest, CandidateRole role) {
  const auto& helper = role == CandidateRole::reference ? manifest.reference : manifest.prepare;
  if (role != CandidateRole::kernel && helper && !helper->source.empty()) {
    return {helper->source};
  }
  return manifest.sources;
}

}  // namespace cubinary::builder
