// SPDX-License-Identifier: Apache-2.0
#include "core/manifest/parse.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>

#include "core/base/nearest.hpp"
#include "core/model/dtype.hpp"

namespace cubinary::core {
namespace {

constexpr std::int64_t k_most = std::numeric_limits<std::int64_t>::max();

std::string in_quotes(std::string_view text) {
  return "\"" + std::string(text) + "\"";
}

Result<std::string> parse_macro(const ManifestReader& reader, const TomlNode& value,
                                ManifestDraft& draft) {
  TRY_ASSIGN(std::string macro, reader.text(value, "\"macro\""));
  TRY(reader.expect_identifier(macro, "the macro", value.location));
  if (!draft.macros.emplace(macro, value.location).second) {
    return reader.error(value.location, "the macro " + in_quotes(macro) + " is defined twice");
  }
  return macro;
}

Result<void> parse_dtype_list(const ManifestReader& reader, const TomlNode& list,
                              const std::string& what, std::vector<std::string>& values) {
  TRY(reader.expect_list(list, what));
  if (list.items.empty()) {
    return reader.error(list.location, what + " is empty");
  }
  for (const TomlNode& item : list.items) {
    TRY_ASSIGN(const std::string name, reader.text(item, "a dtype"));
    if (find_dtype(name) == nullptr) {
      std::vector<std::string> known;
      for (const DType& dtype : dtype_table()) {
        known.emplace_back(dtype.name);
      }
      return reader.error(item.location,
                          "unknown dtype " + in_quotes(name) + did_you_mean_type(name, known));
    }
    if (std::ranges::find(values, name) != values.end()) {
      return reader.error(item.location, "the dtype " + in_quotes(name) + " is listed twice");
    }
    values.push_back(name);
  }
  return {};
}

Result<void> parse_types(const ManifestReader& reader, const TomlNode& table,
                         ManifestDraft& draft) {
  TRY(reader.expect_table(table, "\"types\""));
  for (const TomlEntry& entry : table.entries) {
    TRY(declare(reader, draft, entry.key, "a type", entry.location));
    TypeParameter& type = draft.manifest.types.emplace_back();
    type.name = entry.key;
    const std::string what = "types." + entry.key;
    if (entry.value.kind != TomlNode::Kind::table) {
      TRY(parse_dtype_list(reader, entry.value, what, type.values));
      continue;
    }
    TRY(reader.expect_section(entry.value, what, "type"));
    TRY_ASSIGN(const TomlNode* values, reader.required(entry.value, "values", what));
    TRY(parse_dtype_list(reader, *values, what + ".values", type.values));
    if (const TomlNode* macro = entry.value.find("macro")) {
      TRY_ASSIGN(type.macro, parse_macro(reader, *macro, draft));
    }
    if (const TomlNode* spelling = entry.value.find("spelling")) {
      TRY(reader.expect_table(*spelling, what + ".spelling"));
      for (const TomlEntry& word : spelling->entries) {
        if (std::ranges::find(type.values, word.key) == type.values.end()) {
          return reader.error(word.location, in_quotes(word.key) + " is none of " + what +
                                                 "'s dtypes" + did_you_mean(word.key, type.values));
        }
        TRY_ASSIGN(type.spelling[word.key], reader.text(word.value, "a spelling"));
        if (type.spelling[word.key].empty()) {
          return reader.error(word.value.location, "a spelling must not be empty text");
        }
      }
    }
  }
  return {};
}

Result<void> parse_axes(const ManifestReader& reader, const TomlNode& table, ManifestDraft& draft) {
  TRY(reader.expect_table(table, "[axes]"));
  for (const TomlEntry& entry : table.entries) {
    TRY(declare(reader, draft, entry.key, "an axis", entry.location));
    const std::string what = "axes." + entry.key;
    TRY(reader.expect_section(entry.value, what, "axis"));
    Axis& axis = draft.manifest.axes.emplace_back();
    axis.name = entry.key;
    if (const TomlNode* value = entry.value.find("compile")) {
      TRY_ASSIGN(axis.compile, reader.boolean(*value, what + ".compile"));
    }
    if (const TomlNode* value = entry.value.find("tune")) {
      TRY(reader.expect_list(*value, what + ".tune"));
      for (const TomlNode& item : value->items) {
        TRY_ASSIGN(const std::int64_t size, reader.integer(item, "a size", 0, k_most));
        if (std::ranges::find(axis.tune, size) != axis.tune.end()) {
          return reader.error(item.location, std::to_string(size) + " is listed twice");
        }
        axis.tune.push_back(size);
      }
    }
    if (axis.compile && axis.tune.empty()) {
      return reader.error(entry.location, "the axis " + in_quotes(entry.key) +
                                              " is compiled in, so \"tune\" must list its values");
    }
    if (const TomlNode* value = entry.value.find("bucket")) {
      TRY_ASSIGN(const std::size_t index, reader.word(*value, what + ".bucket", {"exact", "log2"}));
      axis.bucket = index == 0 ? Bucket::exact : Bucket::log2;
      if (axis.compile && axis.bucket != Bucket::exact) {
        return reader.error(value->location, "the axis " + in_quotes(entry.key) +
                                                 " is compiled in, so its bucket is \"exact\"");
      }
    }
    if (const TomlNode* value = entry.value.find("macro")) {
      if (!axis.compile) {
        return reader.error(value->location, "a macro needs \"compile = true\": the axis " +
                                                 in_quotes(entry.key) +
                                                 " is not known when the kernel is compiled");
      }
      TRY_ASSIGN(axis.macro, parse_macro(reader, *value, draft));
    }
  }
  return {};
}

Result<TunableValue> parse_value(const ManifestReader& reader, const TomlNode& value) {
  switch (value.kind) {
    case TomlNode::Kind::boolean:
      return value.boolean;
    case TomlNode::Kind::integer:
      return value.integer;
    case TomlNode::Kind::text: {
      TRY_ASSIGN(std::string text, reader.text(value, "a tunable's value"));
      return TunableValue(std::move(text));
    }
    default:
      return reader.error(value.location,
                          "a tunable's value is an integer, text, or true or false");
  }
}

std::vector<std::string> words_of(const std::vector<TunableValue>& values) {
  std::vector<std::string> words;
  for (const TunableValue& value : values) {
    words.push_back(to_code(value));
  }
  return words;
}

Result<TunableValue> parse_chosen(const ManifestReader& reader, const TomlNode& node,
                                  const Tunable& tunable, const std::string& what) {
  TRY_ASSIGN(TunableValue value, parse_value(reader, node));
  if (std::ranges::find(tunable.values, value) != tunable.values.end()) {
    return value;
  }
  std::string list;
  for (const std::string& word : words_of(tunable.values)) {
    list += (list.empty() ? "" : ", ") + word;
  }
  return reader.error(node.location, what + " " + to_code(value) + " is none of the values of " +
                                         in_quotes(tunable.name) + " (" + list + ")");
}

Result<void> parse_tunable_use(const ManifestReader& reader, const TomlNode& table,
                               const std::string& what, Tunable& tunable, ManifestDraft& draft) {
  constexpr TunableUse uses[] = {TunableUse::template_argument, TunableUse::define,
                                 TunableUse::flag, TunableUse::launch, TunableUse::argument};
  const TomlNode* as = table.find("as");
  if (as != nullptr) {
    TRY_ASSIGN(const std::size_t index,
               reader.word(*as, what + ".as", {"template", "define", "flag", "launch", "arg"}));
    tunable.use = uses[index];
  }
  if (!changes_code(tunable.use) && std::holds_alternative<std::string>(tunable.values.front())) {
    return reader.error(as->location,
                        "a tunable with text values only enters the code: \"as\" is "
                        "\"template\", \"define\" or \"flag\"");
  }
  const TomlNode* macro = table.find("macro");
  if (macro != nullptr && tunable.use != TunableUse::define) {
    return reader.error(macro->location, "\"macro\" needs as = \"define\"");
  }
  if (tunable.use == TunableUse::define) {
    if (macro != nullptr) {
      TRY_ASSIGN(tunable.macro, parse_macro(reader, *macro, draft));
    } else {
      tunable.macro = tunable.name;
      if (!draft.macros.emplace(tunable.macro, table.location).second) {
        return reader.error(table.location,
                            "the macro " + in_quotes(tunable.macro) + " is defined twice");
      }
    }
  }
  const TomlNode* flag = table.find("flag");
  if (flag != nullptr && tunable.use != TunableUse::flag) {
    return reader.error(flag->location, "\"flag\" needs as = \"flag\"");
  }
  if (tunable.use == TunableUse::flag) {
    if (flag == nullptr) {
      return reader.error(as->location,
                          "as = \"flag\" needs the key \"flag\", such as \"-maxrregcount={}\"");
    }
    TRY_ASSIGN(tunable.flag, reader.text(*flag, what + ".flag"));
    const std::size_t hole = tunable.flag.find("{}");
    if (hole == std::string::npos || tunable.flag.find("{}", hole + 2) != std::string::npos) {
      return reader.error(flag->location, "\"flag\" must hold one {} where the value goes");
    }
    TRY(check_flag(reader, tunable.flag, flag->location));
  }
  return {};
}

Result<void> parse_tunables(const ManifestReader& reader, const TomlNode& table,
                            ManifestDraft& draft) {
  TRY(reader.expect_table(table, "[tunables]"));
  for (const TomlEntry& entry : table.entries) {
    TRY(declare(reader, draft, entry.key, "a tunable", entry.location));
    const std::string what = "tunables." + entry.key;
    TRY(reader.expect_section(entry.value, what, "tunable"));
    Tunable& tunable = draft.manifest.tunables.emplace_back();
    tunable.name = entry.key;
    TRY_ASSIGN(const TomlNode* values, reader.required(entry.value, "values", what));
    TRY(reader.expect_list(*values, what + ".values"));
    if (values->items.empty()) {
      return reader.error(values->location, what + ".values is empty");
    }
    for (const TomlNode& item : values->items) {
      TRY_ASSIGN(TunableValue value, parse_value(reader, item));
      if (!tunable.values.empty() && value.index() != tunable.values.front().index()) {
        return reader.error(item.location,
                            "the values of " + in_quotes(entry.key) + " must all be of one kind");
      }
      if (std::ranges::find(tunable.values, value) != tunable.values.end()) {
        return reader.error(item.location, to_code(value) + " is listed twice");
      }
      tunable.values.push_back(std::move(value));
    }
    TRY_ASSIGN(const TomlNode* chosen, reader.required(entry.value, "default", what));
    TRY_ASSIGN(tunable.default_value, parse_chosen(reader, *chosen, tunable, "the default"));
    TRY(parse_tunable_use(reader, entry.value, what, tunable, draft));
  }
  return {};
}

Result<void> parse_rules(const ManifestReader& reader, const TomlNode& table,
                         ManifestDraft& draft) {
  TRY(reader.expect_section(table, "[rules]", "rules"));
  if (const TomlNode* let = table.find("let")) {
    TRY(reader.expect_table(*let, "\"let\""));
    for (const TomlEntry& entry : let->entries) {
      TRY(declare(reader, draft, entry.key, "a let", entry.location));
      TRY_ASSIGN(LocatedExpression value,
                 reader.expression(entry.value, "let " + in_quotes(entry.key)));
      draft.manifest.lets.emplace_back(entry.key, std::move(value));
    }
  }
  for (const char* const key : {"shapes", "require"}) {
    const TomlNode* const list = table.find(key);
    if (list == nullptr) {
      continue;
    }
    TRY(reader.expect_list(*list, in_quotes(key)));
    for (const TomlNode& item : list->items) {
      TRY_ASSIGN(LocatedExpression rule, reader.expression(item, "the rule"));
      draft.manifest.rules.push_back(std::move(rule));
    }
    if (std::string_view(key) == "shapes") {
      draft.manifest.shape_rules = draft.manifest.rules.size();
    }
  }
  return {};
}

Result<void> parse_prefer(const ManifestReader& reader, const TomlNode& list,
                          ManifestDraft& draft) {
  TRY(reader.expect_list(list, "\"prefer\""));
  for (const TomlNode& item : list.items) {
    TRY(reader.expect_table(item, "an item of \"prefer\""));
    Config config;
    for (const TomlEntry& entry : item.entries) {
      const Tunable* tunable = draft.manifest.find_tunable(entry.key);
      if (tunable == nullptr) {
        std::vector<std::string> names;
        for (const Tunable& known : draft.manifest.tunables) {
          names.push_back(known.name);
        }
        return reader.error(entry.location, "unknown tunable " + in_quotes(entry.key) +
                                                did_you_mean(entry.key, names));
      }
      TRY_ASSIGN(config[entry.key],
                 parse_chosen(reader, entry.value, *tunable, "the preferred value"));
    }
    if (std::ranges::find(draft.manifest.prefer, config) != draft.manifest.prefer.end()) {
      return reader.error(item.location, "the same config is preferred twice");
    }
    draft.manifest.prefer.push_back(std::move(config));
  }
  return {};
}

}  // namespace

Result<void> declare(const ManifestReader& reader, ManifestDraft& draft, const std::string& name,
                     const std::string& kind, SourceLocation at) {
  TRY(reader.expect_identifier(name, "the name of " + kind, at));
  const bool reserved = std::ranges::find(reserved_names(), name) != reserved_names().end();
  if (reserved || find_dtype(name) != nullptr) {
    return reader.error(
        at, in_quotes(name) + (reserved ? " is a word of the expression language" : " is a dtype") +
                " and cannot name " + kind);
  }
  const auto [known, added] = draft.kinds.emplace(name, kind);
  if (!added) {
    return reader.error(at,
                        in_quotes(name) + " is already " + known->second + "; choose another name");
  }
  draft.declared[name] = at;
  return {};
}

Result<void> parse_choices(const ManifestReader& reader, const TomlNode& root,
                           ManifestDraft& draft) {
  using Part = Result<void> (*)(const ManifestReader&, const TomlNode&, ManifestDraft&);
  constexpr std::pair<std::string_view, Part> parts[] = {{"types", parse_types},
                                                         {"axes", parse_axes},
                                                         {"tunables", parse_tunables},
                                                         {"rules", parse_rules},
                                                         {"prefer", parse_prefer}};
  for (const auto& [key, parse] : parts) {
    if (const TomlNode* value = root.find(key)) {
      TRY(parse(reader, *value, draft));
    }
  }
  return {};
}

}  // namespace cubinary::core
