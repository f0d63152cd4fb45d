// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "core/base/nearest.hpp"
#include "core/manifest/parse.hpp"
#include "core/manifest/scope.hpp"
#include "core/model/dtype.hpp"

namespace cubinary::core {
namespace {

constexpr unsigned k_helper_scope = k_use_axes | k_use_target | k_use_device;

bool is_output(const Argument& argument) {
  return argument.kind == ArgumentKind::out || argument.kind == ArgumentKind::inout;
}

class Validator {
 public:
  Validator(const ManifestReader& reader, ManifestDraft& draft)
      : m_reader(reader), m_draft(draft), m_manifest(draft.manifest), m_scope(reader, draft) {}

  Result<void> run() {
    TRY(m_scope.order_lets());
    for (std::size_t i = 0; i < m_manifest.rules.size(); ++i) {
      const bool of_shapes = i < m_manifest.shape_rules;
      TRY(m_scope.check(m_manifest.rules[i], of_shapes ? "a rule of \"shapes\"" : "the rule",
                        of_shapes ? k_helper_scope : unsigned{k_use_all}));
    }
    TRY(arguments());
    TRY(steps());
    TRY(helpers());
    // From here on only what the kernel itself needs counts as use.
    const std::set<std::string> used = m_scope.used();
    TRY(measure());
    TRY(effects(used));
    TRY(tolerances());
    return {};
  }

 private:
  Result<void> arguments() {
    bool output = false;
    for (const Argument& argument : m_manifest.arguments) {
      const std::string of = " of the argument \"" + argument.name + "\"";
      output = output || is_output(argument);
      if (argument.length) {
        // The caller allocates before it knows which config runs; only the workspace is sized
        // after.
        const unsigned allowed = argument.kind == ArgumentKind::workspace
                                     ? k_use_all & ~k_use_alignment
                                     : unsigned{k_use_axes};
        TRY(m_scope.check(*argument.length, "\"len\"" + of, allowed));
      }
      if (argument.is) {
        TRY(m_scope.check(*argument.is, "\"is\"" + of, k_use_all & ~k_use_alignment));
      }
      if (argument.vector) {
        TRY(m_scope.check(*argument.vector, "\"vector\"" + of,
                          k_use_axes | k_use_tunables | k_use_target));
        TRY(add_vector_rule(argument));
      }
    }
    if (!output) {
      return m_reader.error(m_manifest.arguments.empty() ? m_manifest.steps.front().location
                                                         : m_manifest.arguments.front().location,
                            "no argument is \"out\" or \"inout\": a kernel without output cannot "
                            "be checked");
    }
    for (const auto& [what, expression] : m_draft.also_checked) {
      TRY(m_scope.check(expression, what, k_use_axes));
    }
    return {};
  }

  Result<void> add_vector_rule(const Argument& argument) {
    const std::string text = "align(" + argument.name + ") % ((" +
                             argument.vector->expression.text() + ") * sizeof(" + argument.type +
                             ")) == 0";
    auto rule = Expression::parse(text);
    if (!rule) {
      return m_reader.error(argument.vector->location,
                            "\"vector\" of the argument \"" + argument.name + "\" is too long");
    }
    m_manifest.rules.push_back({std::move(*rule), argument.vector->location});
    return {};
  }

  Result<void> launch(const LaunchSpec& launch, const std::string& of, unsigned allowed) {
    const std::pair<const char*, const std::vector<LocatedExpression>*> parts[] = {
        {"\"grid\"", &launch.grid}, {"\"block\"", &launch.block}, {"\"cluster\"", &launch.cluster}};
    for (const auto& [name, dimensions] : parts) {
      for (const LocatedExpression& dimension : *dimensions) {
        TRY(m_scope.check(dimension, name + of, allowed));
      }
    }
    if (launch.smem) {
      TRY(m_scope.check(*launch.smem, "\"smem\"" + of, allowed));
    }
    if (!launch.cluster.empty()) {
      for (const Target& target : m_manifest.targets) {
        if (target.capability() < Capability{9, 0}) {
          return m_reader.error(
              launch.cluster.front().location,
              "clusters need sm_90 or later, and \"targets\" lists " + target.text());
        }
      }
    }
    return {};
  }

  /// Replaces nothing: names what stands in braces, and checks it.
  Result<void> placeholders(const std::string& entry, SourceLocation at, bool with_tunables) {
    for (std::size_t i = 0; i < entry.size(); ++i) {
      if (entry[i] == '}') {
        return m_reader.error(m_reader.inside(at, entry, i), "\"}\" without \"{\" in the entry");
      }
      if (entry[i] != '{') {
        continue;
      }
      const std::size_t close = entry.find_first_of("{}", i + 1);
      if (close == std::string::npos || entry[close] == '{') {
        return m_reader.error(m_reader.inside(at, entry, i), "\"{\" without \"}\" in the entry");
      }
      TRY(placeholder(entry.substr(i + 1, close - i - 1), m_reader.inside(at, entry, i),
                      with_tunables));
      i = close;
    }
    return {};
  }

  Result<void> placeholder(const std::string& name, SourceLocation at, bool with_tunables) {
    const Tunable* tunable = m_manifest.find_tunable(name);
    const Axis* axis = m_manifest.find_axis(name);
    const std::string subject = "the placeholder {" + name + "}";
    if (tunable != nullptr && !with_tunables) {
      return m_reader.error(at, subject +
                                    " is a tunable; a reference or prepare kernel is the same "
                                    "for every config");
    }
    if (tunable != nullptr && tunable->use != TunableUse::template_argument) {
      return m_reader.error(at, subject + " is a tunable with another \"as\" than \"template\"");
    }
    if (axis != nullptr && !axis->compile) {
      return m_reader.error(at, subject +
                                    " is an axis known only at run time; \"compile = true\" "
                                    "makes it part of the code");
    }
    if (tunable == nullptr && axis == nullptr && m_manifest.find_type(name) == nullptr) {
      return m_reader.error(at, subject + " names no type, template tunable or compiled axis" +
                                    did_you_mean(name, placeholder_names(with_tunables)));
    }
    if (with_tunables) {
      m_in_code.insert(name);
    }
    return {};
  }

  std::vector<std::string> placeholder_names(bool with_tunables) const {
    std::vector<std::string> names;
    for (const TypeParameter& type : m_manifest.types) {
      names.push_back(type.name);
    }
    for (const Tunable& tunable : m_manifest.tunables) {
      if (with_tunables && tunable.use == TunableUse::template_argument) {
        names.push_back(tunable.name);
      }
    }
    for (const Axis& axis : m_manifest.axes) {
      if (axis.compile) {
        names.push_back(axis.name);
      }
    }
    return names;
  }

  Result<void> steps() {
    std::set<std::size_t> taken;
    for (std::size_t i = 0; i < m_manifest.steps.size(); ++i) {
      const Step& step = m_manifest.steps[i];
      const std::string of = m_manifest.steps.size() == 1 ? "" : " of step \"" + step.name + "\"";
      TRY(placeholders(step.entry, m_draft.step_entries[i], true));
      TRY(launch(step.launch, of, k_use_all));
      taken.insert(step.arguments.begin(), step.arguments.end());
    }
    for (std::size_t i = 0; i < m_manifest.arguments.size(); ++i) {
      if (!taken.contains(i)) {
        const Argument& argument = m_manifest.arguments[i];
        return m_reader.error(argument.location,
                              "no step takes the argument \"" + argument.name + "\"");
      }
    }
    return {};
  }

  Result<void> helper(const HelperKernel& helper, SourceLocation entry, const std::string& name,
                      const std::function<bool(const Argument&)>& target,
                      const std::string& needed) {
    TRY(placeholders(helper.entry, entry, false));
    TRY(launch(helper.launch, " of the " + name, k_helper_scope));
    bool useful = false;
    for (const std::size_t index : helper.arguments) {
      const Argument& argument = m_manifest.arguments[index];
      useful = useful || target(argument);
      if (argument.is && (m_scope.uses(argument.is->expression) & k_use_tunables) != 0) {
        return m_reader.error(helper.location,
                              "the " + name + " takes \"" + argument.name +
                                  "\", which depends on tunables: list its \"args\" without it");
      }
    }
    if (!useful) {
      return m_reader.error(helper.location, "the " + name + " takes no " + needed);
    }
    return {};
  }

  Result<void> helpers() {
    if (m_manifest.reference) {
      TRY(helper(*m_manifest.reference, m_draft.reference_entry, "reference kernel", is_output,
                 "output argument, so there is nothing to compare"));
    }
    if (m_manifest.prepare) {
      const auto is_input = [](const Argument& argument) {
        return argument.kind == ArgumentKind::in || argument.kind == ArgumentKind::inout;
      };
      TRY(helper(*m_manifest.prepare, m_draft.prepare_entry, "prepare kernel", is_input,
                 "input argument, so there is nothing to prepare"));
    }
    return {};
  }

  Result<void> measure() {
    if (m_manifest.bytes) {
      TRY(m_scope.check(*m_manifest.bytes, "\"bytes\"", k_use_axes));
    }
    if (m_manifest.flops) {
      TRY(m_scope.check(*m_manifest.flops, "\"flops\"", k_use_axes));
    }
    return {};
  }

  /// What is declared must change something.
  Result<void> effects(const std::set<std::string>& used) {
    for (const TypeParameter& type : m_manifest.types) {
      if (!m_in_code.contains(type.name) && !type.macro) {
        return m_reader.error(m_draft.declared[type.name],
                              "the type \"" + type.name + "\" has no effect: no entry names {" +
                                  type.name + "}, and it has no macro");
      }
    }
    for (const Axis& axis : m_manifest.axes) {
      const std::string subject = "the axis \"" + axis.name + "\" ";
      if (axis.compile && !m_in_code.contains(axis.name) && !axis.macro) {
        return m_reader.error(m_draft.declared[axis.name],
                              subject + "has no effect on the code: no entry names {" + axis.name +
                                  "}, and it has no macro");
      }
      if (!axis.compile && !used.contains(axis.name)) {
        return m_reader.error(m_draft.declared[axis.name],
                              subject + "is unused: no expression names it");
      }
    }
    std::set<std::string> in_arguments;
    for (const Argument& argument : m_manifest.arguments) {
      if (argument.is) {
        in_arguments.merge(m_scope.names(argument.is->expression));
      }
    }
    for (const Tunable& tunable : m_manifest.tunables) {
      std::string why;
      if (tunable.use == TunableUse::template_argument && !m_in_code.contains(tunable.name)) {
        why = "no entry names {" + tunable.name + "}";
      } else if (tunable.use == TunableUse::launch && !used.contains(tunable.name)) {
        why = "no expression names it";
      } else if (tunable.use == TunableUse::argument && !in_arguments.contains(tunable.name)) {
        why = "no argument's \"is\" names it";
      }
      if (!why.empty()) {
        return m_reader.error(m_draft.declared[tunable.name],
                              "the tunable \"" + tunable.name + "\" has no effect: " + why);
      }
    }
    return {};
  }

  Result<void> tolerances() {
    std::map<std::string, std::string> outputs;  // dtype → an argument that may have it
    for (const Argument& argument : m_manifest.arguments) {
      if (is_output(argument)) {
        for (const std::string& dtype : dtypes_of(m_manifest, argument.type)) {
          outputs.emplace(dtype, argument.name);
        }
      }
    }
    for (const auto& [dtype, at] : m_draft.tolerances) {
      if (!outputs.contains(dtype)) {
        return m_reader.error(
            at, "no output has the dtype " + dtype + "; tolerances go by the dtypes of outputs");
      }
    }
    for (const auto& [dtype, name] : outputs) {
      // Integers and bools are compared exactly unless a tolerance says otherwise.
      if (m_manifest.reference && find_dtype(dtype)->kind == DTypeKind::floating &&
          !m_manifest.tolerance.contains(dtype)) {
        return m_reader.error(
            m_draft.tolerance.line != 0 ? m_draft.tolerance : m_manifest.reference->location,
            "\"tolerance\" lacks " + dtype + ", which the output \"" + name + "\" may have");
      }
    }
    return {};
  }

  const ManifestReader& m_reader;
  ManifestDraft& m_draft;
  Manifest& m_manifest;
  ManifestScope m_scope;
  std::set<std::string> m_in_code;  ///< names in the braces of the steps' entries
};

}  // namespace

Result<void> validate_manifest(const ManifestReader& reader, ManifestDraft& draft) {
  return Validator(reader, draft).run();
}

}  // namespace cubinary::core
