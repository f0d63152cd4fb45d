// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "core/base/nearest.hpp"
#include "core/manifest/parse.hpp"
#include "core/model/dtype.hpp"

namespace cubinary::core {
namespace {

Result<std::vector<LocatedExpression>> parse_dimensions(const ManifestReader& reader,
                                                        const TomlNode& value,
                                                        const std::string& what) {
  TRY(reader.expect_list(value, what));
  if (value.items.empty() || value.items.size() > 3) {
    return reader.error(value.location, what + " has 1 to 3 dimensions, x first; this has " +
                                            std::to_string(value.items.size()));
  }
  std::vector<LocatedExpression> out;
  for (const TomlNode& item : value.items) {
    TRY_ASSIGN(LocatedExpression dimension, reader.expression(item, what));
    out.push_back(std::move(dimension));
  }
  return out;
}

/// Placeholders are checked with the scopes; here what no entry may hold.
Result<std::string> parse_entry(const ManifestReader& reader, const TomlNode& value) {
  TRY_ASSIGN(std::string entry, reader.text(value, "\"entry\""));
  if (entry.empty()) {
    return reader.error(value.location, "\"entry\" must not be empty text");
  }
  if (entry.find("(anonymous") != std::string::npos) {
    return reader.error(value.location,
                        "a kernel in an anonymous namespace cannot be named from outside; give its "
                        "namespace a name");
  }
  return entry;
}

Result<void> parse_steps(const ManifestReader& reader, const TomlNode& list, ManifestDraft& draft) {
  TRY(reader.expect_list(list, "\"step\""));
  if (list.items.empty()) {
    return reader.error(list.location, "\"step\" is empty");
  }
  for (const TomlNode& item : list.items) {
    TRY(reader.expect_section(item, "[[step]]", "step"));
    Step step;
    step.location = item.location;
    TRY_ASSIGN(const TomlNode* name, reader.required(item, "name", "[[step]]"));
    TRY_ASSIGN(step.name, reader.text(*name, "a step's name"));
    TRY(reader.expect_identifier(step.name, "a step's name", name->location));
    for (const Step& other : draft.manifest.steps) {
      if (other.name == step.name) {
        return reader.error(name->location, "the step \"" + step.name + "\" is declared twice");
      }
    }
    const std::string what = "the step \"" + step.name + "\"";
    TRY_ASSIGN(const TomlNode* entry, reader.required(item, "entry", what));
    TRY_ASSIGN(step.entry, parse_entry(reader, *entry));
    draft.step_entries.push_back(entry->location);
    TRY_ASSIGN(step.launch, parse_launch_spec(reader, item, what));
    TRY_ASSIGN(step.arguments, parse_argument_names(reader, item.find("args"), draft));
    draft.manifest.steps.push_back(std::move(step));
  }
  return {};
}

Result<void> parse_single(const ManifestReader& reader, const TomlNode& root,
                          ManifestDraft& draft) {
  TRY_ASSIGN(const TomlNode* launch, reader.required(root, "launch", "the manifest"));
  TRY(reader.expect_section(*launch, "[launch]", "launch"));
  TRY_ASSIGN(const TomlNode* entry, reader.required(root, "entry", "the manifest"));
  const TomlNode* args = launch->find("args");
  const TomlNode* top_args = root.find("args");
  if (args != nullptr && top_args != nullptr) {
    return reader.error(args->location,
                        "\"args\" stands both at the top and in [launch]; keep one");
  }
  if (args == nullptr && top_args == nullptr) {
    return reader.error(launch->location, "[launch] needs the key \"args\"");
  }
  TRY(parse_arguments(reader, args != nullptr ? *args : *top_args, draft));
  Step step;
  step.name = "main";
  step.location = launch->location;
  TRY_ASSIGN(step.entry, parse_entry(reader, *entry));
  draft.step_entries.push_back(entry->location);
  TRY_ASSIGN(step.launch, parse_launch_spec(reader, *launch, "[launch]"));
  TRY_ASSIGN(step.arguments, parse_argument_names(reader, nullptr, draft));
  draft.manifest.steps.push_back(std::move(step));
  return {};
}

Result<HelperKernel> parse_helper(const ManifestReader& reader, const TomlNode& table,
                                  const std::string& name, ManifestDraft& draft,
                                  SourceLocation& entry_at) {
  TRY(reader.expect_section(table, name, "helper"));
  HelperKernel helper;
  helper.location = table.location;
  if (const TomlNode* source = table.find("source")) {
    TRY_ASSIGN(helper.source, reader.text(*source, "\"source\""));
    if (helper.source.empty()) {
      return reader.error(source->location, "\"source\" must not be empty text");
    }
  }
  TRY_ASSIGN(const TomlNode* entry, reader.required(table, "entry", "the " + name));
  TRY_ASSIGN(helper.entry, parse_entry(reader, *entry));
  entry_at = entry->location;
  TRY_ASSIGN(helper.launch, parse_launch_spec(reader, table, "the " + name));
  TRY_ASSIGN(helper.arguments, parse_argument_names(reader, table.find("args"), draft));
  return helper;
}

Result<void> parse_tolerance(const ManifestReader& reader, const TomlNode& table,
                             ManifestDraft& draft) {
  TRY(reader.expect_table(table, "\"tolerance\""));
  draft.tolerance = table.location;
  std::vector<std::string> known;
  for (const DType& dtype : dtype_table()) {
    known.emplace_back(dtype.name);
  }
  for (const TomlEntry& entry : table.entries) {
    if (find_dtype(entry.key) == nullptr) {
      return reader.error(entry.location, "unknown dtype \"" + entry.key + "\"" +
                                              did_you_mean_type(entry.key, known));
    }
    const TomlNode& value = entry.value;
    if (value.kind != TomlNode::Kind::list || value.items.size() != 2) {
      return reader.error(value.location, "a tolerance is [relative, absolute]");
    }
    double bounds[2] = {0, 0};
    for (std::size_t i = 0; i < 2; ++i) {
      TRY_ASSIGN(bounds[i], reader.number(value.items[i], "a tolerance"));
      if (bounds[i] < 0) {
        return reader.error(value.items[i].location, "a tolerance is 0 or more");
      }
    }
    draft.manifest.tolerance[entry.key] = {bounds[0], bounds[1]};
    draft.tolerances[entry.key] = entry.location;
  }
  return {};
}

Result<void> parse_also(const ManifestReader& reader, const TomlNode& list, ManifestDraft& draft) {
  TRY(reader.expect_list(list, "\"also\""));
  std::vector<std::string> axes;
  for (const Axis& axis : draft.manifest.axes) {
    axes.push_back(axis.name);
  }
  for (const TomlNode& item : list.items) {
    TRY(reader.expect_table(item, "a shape"));
    Shape shape;
    for (const TomlEntry& entry : item.entries) {
      const Axis* axis = draft.manifest.find_axis(entry.key);
      if (axis == nullptr) {
        return reader.error(entry.location,
                            "unknown axis \"" + entry.key + "\"" + did_you_mean(entry.key, axes));
      }
      TRY_ASSIGN(const std::int64_t size, reader.integer(entry.value, "a size", 0, INT64_MAX));
      if (axis->compile && std::ranges::find(axis->tune, size) == axis->tune.end()) {
        return reader.error(
            entry.value.location,
            std::to_string(size) + " is none of the values compiled for \"" + axis->name + "\"");
      }
      shape[entry.key] = size;
    }
    for (const std::string& axis : axes) {
      if (!shape.contains(axis)) {
        return reader.error(item.location, "the shape lacks the axis \"" + axis + "\"");
      }
    }
    draft.manifest.also.push_back(std::move(shape));
  }
  return {};
}

Result<void> parse_check(const ManifestReader& reader, const TomlNode& table,
                         ManifestDraft& draft) {
  Manifest& manifest = draft.manifest;
  TRY(reader.expect_section(table, "[check]", "check"));
  if (const TomlNode* value = table.find("reference")) {
    TRY_ASSIGN(manifest.reference,
               parse_helper(reader, *value, "reference", draft, draft.reference_entry));
  }
  if (const TomlNode* value = table.find("prepare")) {
    TRY_ASSIGN(manifest.prepare,
               parse_helper(reader, *value, "prepare", draft, draft.prepare_entry));
  }
  if (const TomlNode* value = table.find("tolerance")) {
    TRY(parse_tolerance(reader, *value, draft));
  }
  if (const TomlNode* value = table.find("also")) {
    TRY(parse_also(reader, *value, draft));
  }
  return {};
}

}  // namespace

Result<LaunchSpec> parse_launch_spec(const ManifestReader& reader, const TomlNode& table,
                                     const std::string& what) {
  LaunchSpec launch;
  TRY_ASSIGN(const TomlNode* grid, reader.required(table, "grid", what));
  TRY_ASSIGN(launch.grid, parse_dimensions(reader, *grid, "\"grid\""));
  TRY_ASSIGN(const TomlNode* block, reader.required(table, "block", what));
  TRY_ASSIGN(launch.block, parse_dimensions(reader, *block, "\"block\""));
  if (const TomlNode* value = table.find("smem")) {
    TRY_ASSIGN(launch.smem, reader.expression(*value, "\"smem\""));
  }
  if (const TomlNode* value = table.find("cluster")) {
    TRY_ASSIGN(launch.cluster, parse_dimensions(reader, *value, "\"cluster\""));
    while (launch.cluster.size() < 3) {
      TRY_ASSIGN(Expression one, Expression::parse("1"));
      launch.cluster.push_back({std::move(one), {}});
    }
  }
  if (const TomlNode* value = table.find("cooperative")) {
    TRY_ASSIGN(launch.cooperative, reader.boolean(*value, "\"cooperative\""));
  }
  return launch;
}

Result<std::vector<std::size_t>> parse_argument_names(const ManifestReader& reader,
                                                      const TomlNode* list,
                                                      const ManifestDraft& draft) {
  const std::vector<Argument>& arguments = draft.manifest.arguments;
  std::vector<std::size_t> indices;
  if (list == nullptr) {
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      indices.push_back(i);
    }
    return indices;
  }
  TRY(reader.expect_list(*list, "\"args\""));
  for (const TomlNode& item : list->items) {
    TRY_ASSIGN(const std::string name, reader.text(item, "an argument's name"));
    const auto found = std::ranges::find(arguments, name, &Argument::name);
    if (found == arguments.end()) {
      std::vector<std::string> known;
      for (const Argument& argument : arguments) {
        known.push_back(argument.name);
      }
      return reader.error(item.location,
                          "unknown argument \"" + name + "\"" + did_you_mean(name, known));
    }
    indices.push_back(static_cast<std::size_t>(found - arguments.begin()));
  }
  return indices;
}

Result<void> parse_launches(const ManifestReader& reader, const TomlNode& root,
                            ManifestDraft& draft) {
  const TomlNode* steps = root.find("step");
  if (steps == nullptr) {
    return parse_single(reader, root, draft);
  }
  for (const char* key : {"entry", "launch"}) {
    if (const TomlNode* value = root.find(key)) {
      return reader.error(
          value->location,
          "a manifest with [[step]] has no \"" + std::string(key) +
              "\" of its own: each step has its keys, and \"args\" stands at the top");
    }
  }
  TRY_ASSIGN(const TomlNode* args, reader.required(root, "args", "a manifest with [[step]]"));
  TRY(parse_arguments(reader, *args, draft));
  return parse_steps(reader, *steps, draft);
}

Result<void> parse_checks(const ManifestReader& reader, const TomlNode& root,
                          ManifestDraft& draft) {
  if (const TomlNode* check = root.find("check")) {
    TRY(parse_check(reader, *check, draft));
  }
  const TomlNode* measure = root.find("measure");
  if (measure == nullptr) {
    return {};
  }
  TRY(reader.expect_section(*measure, "[measure]", "measure"));
  if (const TomlNode* value = measure->find("cache")) {
    TRY_ASSIGN(const std::size_t index, reader.word(*value, "\"cache\"", {"cold", "warm"}));
    draft.manifest.cold_cache = index == 0;
  }
  if (const TomlNode* value = measure->find("bytes")) {
    TRY_ASSIGN(draft.manifest.bytes, reader.expression(*value, "\"bytes\""));
  }
  if (const TomlNode* value = measure->find("flops")) {
    TRY_ASSIGN(draft.manifest.flops, reader.expression(*value, "\"flops\""));
  }
  return {};
}

}  // namespace cubinary::core
