// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>

#include "core/base/nearest.hpp"
#include "core/manifest/parse.hpp"
#include "core/model/dtype.hpp"

namespace cubinary::core {
namespace {

using Kind = ArgumentKind;

// The driver's limit on all parameters of one launch (sm_70 and later, toolkit 12.1 and later).
constexpr std::int64_t k_max_parameter_bytes = 32764;

struct KindKey {
  std::string_view key;
  Kind kind;
  std::vector<std::string_view> allowed;  ///< beside the name and the kind's own key
};

const std::vector<KindKey>& kind_keys() {
  static const std::vector<KindKey> table = {
      {"in", Kind::in, {"vector", "len", "nullable", "fill"}},
      {"out", Kind::out, {"vector", "len", "nullable"}},
      {"inout", Kind::inout, {"vector", "len", "nullable", "fill"}},
      {"scalar", Kind::scalar, {"is", "default"}},
      {"workspace", Kind::workspace, {"len", "init"}},
      {"bytes", Kind::bytes, {"align"}},
      {"handle", Kind::handle, {}},
  };
  return table;
}

Result<const KindKey*> kind_of(const ManifestReader& reader, const TomlNode& table,
                               const std::string& what) {
  const KindKey* kind = nullptr;
  for (const TomlEntry& entry : table.entries) {
    const auto found = std::ranges::find(kind_keys(), entry.key, &KindKey::key);
    if (found == kind_keys().end()) {
      continue;
    }
    if (kind != nullptr) {
      return reader.error(entry.location, what + " is both \"" + std::string(kind->key) +
                                              "\" and \"" + entry.key + "\"; keep one");
    }
    kind = &*found;
  }
  if (kind == nullptr) {
    return reader.error(table.location, what +
                                            " needs its kind: in, out, inout, scalar, workspace, "
                                            "bytes or handle");
  }
  for (const TomlEntry& entry : table.entries) {
    if (entry.key != "name" && entry.key != kind->key &&
        std::ranges::find(kind->allowed, entry.key) == kind->allowed.end()) {
      return reader.error(entry.location, "\"" + entry.key + "\" has no meaning for " + what +
                                              ", which is \"" + std::string(kind->key) + "\"");
    }
  }
  return kind;
}

Result<void> parse_element_type(const ManifestReader& reader, const TomlNode& value,
                                const std::string& what, const Manifest& manifest,
                                Argument& argument) {
  TRY_ASSIGN(argument.type, reader.text(value, "the type of " + what));
  if (!dtypes_of(manifest, argument.type).empty()) {
    return {};
  }
  std::vector<std::string> known;
  for (const TypeParameter& type : manifest.types) {
    known.push_back(type.name);
  }
  for (const DType& dtype : dtype_table()) {
    known.emplace_back(dtype.name);
  }
  return reader.error(value.location, "unknown type \"" + argument.type + "\" of " + what +
                                          did_you_mean_type(argument.type, known));
}

/// Why `value` is no value of `dtype`; empty when it is.
std::string misfit(double value, const DType& dtype) {
  if (dtype.kind == DTypeKind::floating) {
    double largest = 0;
    if (dtype.name == "f32" || dtype.name == "bf16") {
      largest = dtype.name == "f32" ? 3.4028234663852886e38 : 3.3895313892515355e38;
    } else if (dtype.name != "f64") {
      largest = dtype.name == "f16" ? 65504 : dtype.name == "f8_e4m3" ? 448 : 57344;
    }
    return largest != 0 && std::abs(value) > largest ? "is beyond the range of" : "";
  }
  if (value != std::floor(value)) {
    return "is no integer, as needed for";
  }
  const double bits = static_cast<double>(dtype.bytes * 8);
  double least = 0;
  double most = 1;
  if (dtype.kind == DTypeKind::signed_integer) {
    // A default is kept as a double, which holds integers exactly to 2^53.
    const double half = std::exp2(std::min(bits - 1, 53.0));
    least = -half;
    most = bits > 54 ? half : half - 1;
  } else if (dtype.kind == DTypeKind::unsigned_integer) {
    most = std::exp2(bits) - 1;
  }
  return value < least || value > most ? "is outside the range of" : "";
}

Result<void> parse_scalar(const ManifestReader& reader, const TomlNode& table,
                          const std::string& what, const Manifest& manifest, Argument& argument) {
  const TomlNode* is = table.find("is");
  const TomlNode* value = table.find("default");
  if (is != nullptr) {
    if (value != nullptr) {
      return reader.error(value->location, what + " is computed by \"is\" and needs no default");
    }
    TRY_ASSIGN(argument.is, reader.expression(*is, "\"is\" of " + what));
  }
  if (value == nullptr) {
    return {};
  }
  if (value->kind == TomlNode::Kind::boolean) {
    argument.default_value = value->boolean ? 1 : 0;
  } else {
    TRY_ASSIGN(argument.default_value, reader.number(*value, "the default of " + what));
  }
  for (const std::string& name : dtypes_of(manifest, argument.type)) {
    const std::string why = misfit(*argument.default_value, *find_dtype(name));
    if (!why.empty()) {
      return reader.error(value->location, "the default of " + what + " " + why + " " + name);
    }
  }
  return {};
}

Result<void> parse_pointer(const ManifestReader& reader, const TomlNode& table,
                           const std::string& what, ManifestDraft& draft, Argument& argument) {
  TRY_ASSIGN(const TomlNode* length, reader.required(table, "len", what));
  TRY_ASSIGN(argument.length, reader.expression(*length, "\"len\" of " + what));
  if (const TomlNode* value = table.find("vector")) {
    TRY_ASSIGN(argument.vector, reader.expression(*value, "\"vector\" of " + what));
  }
  if (const TomlNode* value = table.find("nullable")) {
    TRY_ASSIGN(argument.nullable, reader.boolean(*value, "\"nullable\""));
  }
  if (const TomlNode* value = table.find("fill")) {
    TRY(parse_fill(reader, *value, dtypes_of(draft.manifest, argument.type), draft));
    argument.fill = value->text;
  }
  if (const TomlNode* value = table.find("init")) {
    TRY(reader.word(*value, "\"init\"", {"zero"}));
    argument.zeroed = true;
  }
  return {};
}

Result<void> parse_bytes(const ManifestReader& reader, const TomlNode& table,
                         const std::string& what, Argument& argument) {
  TRY_ASSIGN(argument.byte_size,
             reader.integer(*table.find("bytes"), "\"bytes\"", 1, k_max_parameter_bytes));
  // C++ makes a struct's size a multiple of its alignment, so this is the largest usual one.
  argument.byte_align = std::min<std::int64_t>(8, argument.byte_size & -argument.byte_size);
  if (const TomlNode* value = table.find("align")) {
    TRY_ASSIGN(argument.byte_align, reader.integer(*value, "\"align\"", 1, 256));
    if (!std::has_single_bit(static_cast<std::uint64_t>(argument.byte_align)) ||
        argument.byte_size % argument.byte_align != 0) {
      return reader.error(value->location, "\"align\" of " + what +
                                               " must be a power of two that divides \"bytes\"");
    }
  }
  return {};
}

Result<Argument> parse_argument(const ManifestReader& reader, const TomlNode& table,
                                ManifestDraft& draft) {
  TRY(reader.expect_section(table, "an argument", "argument"));
  TRY_ASSIGN(const TomlNode* name, reader.required(table, "name", "an argument"));
  Argument argument;
  argument.location = name->location;
  TRY_ASSIGN(argument.name, reader.text(*name, "an argument's name"));
  TRY(reader.expect_identifier(argument.name, "an argument's name", name->location));
  const std::string what = "the argument \"" + argument.name + "\"";
  TRY_ASSIGN(const KindKey* kind, kind_of(reader, table, what));
  argument.kind = kind->kind;
  const TomlNode& value = *table.find(kind->key);
  if (argument.kind == Kind::bytes) {
    TRY(parse_bytes(reader, table, what, argument));
    return argument;
  }
  if (argument.kind == Kind::handle) {
    TRY_ASSIGN(const bool is_handle, reader.boolean(value, "\"handle\""));
    if (!is_handle) {
      return reader.error(value.location, "\"handle\" may only be true");
    }
    argument.byte_size = 8;
    argument.byte_align = 8;
    return argument;
  }
  TRY(parse_element_type(reader, value, what, draft.manifest, argument));
  if (argument.kind == Kind::scalar) {
    TRY(parse_scalar(reader, table, what, draft.manifest, argument));
  } else {
    TRY(parse_pointer(reader, table, what, draft, argument));
  }
  return argument;
}

}  // namespace

std::vector<std::string> dtypes_of(const Manifest& manifest, std::string_view type) {
  if (const TypeParameter* parameter = manifest.find_type(type)) {
    return parameter->values;
  }
  return find_dtype(type) == nullptr ? std::vector<std::string>()
                                     : std::vector<std::string>{std::string(type)};
}

Result<void> parse_arguments(const ManifestReader& reader, const TomlNode& list,
                             ManifestDraft& draft) {
  TRY(reader.expect_list(list, "\"args\""));
  std::int64_t bytes = 0;
  for (const TomlNode& item : list.items) {
    TRY_ASSIGN(Argument argument, parse_argument(reader, item, draft));
    if (draft.manifest.find_argument(argument.name) != nullptr) {
      return reader.error(argument.location,
                          "the argument \"" + argument.name + "\" is declared twice");
    }
    bytes += argument.byte_size != 0 ? argument.byte_size : 8;
    if (bytes > k_max_parameter_bytes) {
      return reader.error(argument.location, "the arguments take more than " +
                                                 std::to_string(k_max_parameter_bytes) +
                                                 " bytes, the most a launch may pass");
    }
    draft.manifest.arguments.push_back(std::move(argument));
  }
  return {};
}

Result<void> parse_fill(const ManifestReader& reader, const TomlNode& value,
                        const std::vector<std::string>& dtypes, ManifestDraft& draft) {
  TRY_ASSIGN(const std::string fill, reader.text(value, "\"fill\""));
  const std::size_t open = fill.find('(');
  const std::string name = fill.substr(0, open);
  const std::vector<std::string> known = {"normal", "uniform", "const", "zero",
                                          "range",  "index",   "file"};
  if (std::ranges::find(known, name) == known.end()) {
    return reader.error(value.location, "unknown fill \"" + name + "\"" +
                                            did_you_mean(name, known) +
                                            "; there are normal(mean, deviation), uniform(low, "
                                            "high), const(value), zero, range, index(n), "
                                            "file(path)");
  }
  const bool bare = name == "zero" || name == "range";
  if (bare != (open == std::string::npos) || (!bare && !fill.ends_with(')'))) {
    return reader.error(value.location,
                        "the fill \"" + name + "\" " +
                            (bare ? "takes no arguments" : "needs its arguments in parentheses"));
  }
  if (bare) {
    return {};
  }
  const std::string inner = fill.substr(open + 1, fill.size() - open - 2);
  if (name == "file") {
    return inner.empty()
               ? Result<void>(reader.error(value.location, "the fill \"file\" needs a path"))
               : Result<void>();
  }
  if (name == "index") {
    const bool integers = std::ranges::none_of(dtypes, [](const std::string& dtype) {
      return find_dtype(dtype)->kind == DTypeKind::floating ||
             find_dtype(dtype)->kind == DTypeKind::boolean;
    });
    if (!integers) {
      return reader.error(value.location, "the fill \"index\" needs an integer dtype");
    }
    TomlNode bound;
    bound.kind = TomlNode::Kind::text;
    bound.text = inner;
    bound.location = value.location;
    TRY_ASSIGN(LocatedExpression count, reader.expression(bound, "the fill \"index\""));
    draft.also_checked.emplace_back("the fill \"index\"", std::move(count));
    return {};
  }
  std::vector<double> numbers;
  for (std::size_t at = 0; at <= inner.size();) {
    const std::size_t comma = std::min(inner.find(',', at), inner.size());
    std::string_view word = std::string_view(inner).substr(at, comma - at);
    while (word.starts_with(' ')) {
      word.remove_prefix(1);
    }
    while (word.ends_with(' ')) {
      word.remove_suffix(1);
    }
    double number = 0;
    const auto [end, status] = std::from_chars(word.data(), word.data() + word.size(), number);
    if (status != std::errc() || end != word.data() + word.size() || !std::isfinite(number)) {
      return reader.error(value.location,
                          "the fill \"" + name + "\": \"" + std::string(word) + "\" is no number");
    }
    numbers.push_back(number);
    at = comma + 1;
  }
  const std::size_t wanted = name == "const" ? 1 : 2;
  if (numbers.size() != wanted) {
    return reader.error(value.location, "the fill \"" + name + "\" takes " +
                                            std::to_string(wanted) +
                                            (wanted == 1 ? " number" : " numbers") + ", not " +
                                            std::to_string(numbers.size()));
  }
  if (name == "normal" && numbers[1] < 0) {
    return reader.error(value.location, "the fill \"normal\" needs a deviation of 0 or more");
  }
  if (name == "uniform" && numbers[0] > numbers[1]) {
    return reader.error(value.location, "the fill \"uniform\" needs low ≤ high");
  }
  return {};
}

}  // namespace cubinary::core
