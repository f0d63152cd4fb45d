// SPDX-License-Identifier: Apache-2.0
#include <charconv>
#include <limits>

#include "core/base/json_document.hpp"
#include "core/table/catalogue_reader.hpp"
#include "core/table/entry_json.hpp"
#include "core/table/kernel_table_names.hpp"
#include "core/wire/oci.hpp"

namespace cubinary::core {
namespace {

using json::Document;
using json::View;

constexpr std::int64_t k_version = 1;
constexpr std::int64_t k_max = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t k_max_int = std::numeric_limits<int>::max();

template <typename T>
Result<std::vector<T>> list(const View& parent, std::string_view key,
                            Result<T> (*read)(const View&)) {
  TRY_ASSIGN(const View array, parent.at(key));
  TRY_ASSIGN(const View::Children nodes, array.elements());
  std::vector<T> items;
  items.reserve(nodes.size());
  for (const View node : nodes) {
    TRY_ASSIGN(T item, read(node));
    items.push_back(std::move(item));
  }
  return items;
}

Result<std::string> read_text(const View& node) {
  return node.text().map([](std::string_view text) { return std::string(text); });
}
Result<std::int64_t> read_count(const View& node) {
  return node.integer(0, k_max);
}
Result<std::size_t> read_index(const View& node) {
  TRY_ASSIGN(const std::int64_t index, node.integer(0, k_max));
  return static_cast<std::size_t>(index);
}
Result<std::uint64_t> read_size(const View& parent, std::string_view key) {
  TRY_ASSIGN(const std::int64_t size, parent.integer(key, 0, k_max));
  return static_cast<std::uint64_t>(size);
}

Result<LocatedExpression> read_expression(const View& node) {
  TRY_ASSIGN(const std::string_view text, node.text());
  auto expression = Expression::parse(text);
  if (!expression) {
    return fail(node.error(expression.error().message));
  }
  return LocatedExpression{std::move(*expression), {}};
}
Result<std::optional<LocatedExpression>> find_expression(const View& parent, std::string_view key) {
  TRY_ASSIGN(const View node, parent.find(key));
  if (!node.exists()) {
    return std::nullopt;
  }
  return read_expression(node).map(
      [](LocatedExpression e) { return std::optional<LocatedExpression>(std::move(e)); });
}

Result<Digest> read_digest(const View& parent, std::string_view key) {
  TRY_ASSIGN(const View node, parent.at(key));
  TRY_ASSIGN(const std::string_view text, node.text());
  auto digest = Digest::parse(text);
  if (!digest || !text.starts_with("sha256:")) {
    return fail(node.error("must be sha256: and 64 lower-case hexadecimal digits"));
  }
  return *digest;
}

template <typename Table>
auto read_word(const View& parent, std::string_view key, const Table& table)
    -> Result<decltype(table.front().value)> {
  TRY_ASSIGN(const View node, parent.at(key));
  TRY_ASSIGN(const std::string_view text, node.text());
  std::string known;
  for (const auto& row : table) {
    if (row.name == text) {
      return row.value;
    }
    known += (known.empty() ? "" : ", ") + std::string(row.name);
  }
  return fail(node.error("must be one of " + known));
}

Result<std::optional<double>> read_number(const View& parent, std::string_view key) {
  TRY_ASSIGN(const View node, parent.find(key));
  if (!node.exists()) {
    return std::nullopt;
  }
  return node.number().map([](double value) { return std::optional<double>(value); });
}

Result<TypeParameter> read_type(const View& node) {
  TypeParameter type;
  TRY_ASSIGN(type.name, node.text("name"));
  TRY_ASSIGN(type.values, list(node, "values", read_text));
  return type;
}

Result<Axis> read_axis(const View& node) {
  Axis axis;
  TRY_ASSIGN(axis.name, node.text("name"));
  TRY_ASSIGN(axis.bucket, read_word(node, "bucket", k_buckets));
  TRY_ASSIGN(axis.tune, list(node, "tune", read_count));
  TRY_ASSIGN(axis.compile, node.boolean_or("compile", false));
  return axis;
}

Result<std::pair<std::string, LocatedExpression>> read_let(const View& node) {
  TRY_ASSIGN(const std::string_view name, node.text("name"));
  TRY_ASSIGN(const View is, node.at("is"));
  TRY_ASSIGN(LocatedExpression expression, read_expression(is));
  return std::pair(std::string(name), std::move(expression));
}

Result<Argument> read_argument(const View& node) {
  Argument argument;
  TRY_ASSIGN(argument.name, node.text("name"));
  TRY_ASSIGN(argument.kind, read_word(node, "kind", k_argument_kinds));
  TRY_ASSIGN(argument.type, node.text_or("type", ""));
  TRY_ASSIGN(argument.vector, find_expression(node, "vector"));
  TRY_ASSIGN(argument.length, find_expression(node, "length"));
  TRY_ASSIGN(argument.is, find_expression(node, "is"));
  TRY_ASSIGN(argument.default_value, read_number(node, "default"));
  TRY_ASSIGN(argument.byte_size,
             node.integer_or("bytes", 0, k_max, argument.kind == ArgumentKind::handle ? 8 : 0));
  TRY_ASSIGN(argument.byte_align,
             node.integer_or("align", 0, k_max, argument.kind == ArgumentKind::bytes ? 8 : 0));
  TRY_ASSIGN(argument.nullable, node.boolean_or("nullable", false));
  TRY_ASSIGN(argument.zeroed, node.boolean_or("zeroed", false));
  return argument;
}

Result<Step> read_step(const View& node) {
  Step step;
  TRY_ASSIGN(step.name, node.text("name"));
  TRY_ASSIGN(step.entry, node.text("entry"));
  TRY_ASSIGN(step.launch.grid, list(node, "grid", read_expression));
  TRY_ASSIGN(step.launch.block, list(node, "block", read_expression));
  TRY_ASSIGN(step.launch.smem, find_expression(node, "smem"));
  TRY_ASSIGN(const View cluster, node.find("cluster"));
  if (cluster.exists()) {
    TRY_ASSIGN(step.launch.cluster, list(node, "cluster", read_expression));
  }
  TRY_ASSIGN(step.launch.cooperative, node.boolean_or("cooperative", false));
  TRY_ASSIGN(step.arguments, list(node, "arguments", read_index));
  return step;
}

Result<EntrySymbol> read_symbol(const View& node) {
  EntrySymbol symbol;
  TRY_ASSIGN(symbol.symbol, node.text("symbol"));
  TRY_ASSIGN(symbol.max_threads, node.integer("max_threads", 1, k_max));
  TRY_ASSIGN(symbol.registers, node.integer("registers", 0, k_max));
  TRY_ASSIGN(symbol.static_smem, node.integer("static_smem", 0, k_max));
  TRY_ASSIGN(symbol.spill_bytes, node.integer("spill_bytes", 0, k_max));
  return symbol;
}

Result<TunableValue> read_tunable(const View& node) {
  switch (node.kind()) {
    case Document::Kind::truth:
      return true;
    case Document::Kind::falsehood:
      return false;
    case Document::Kind::integer:
      return node.integer().map([](std::int64_t number) { return TunableValue(number); });
    case Document::Kind::text:
      return TunableValue(std::string(node.raw()));
    default:
      return fail(node.error("must be an integer, true, false or text"));
  }
}

template <typename T>
Result<std::map<std::string, T>> read_map(const View& parent, std::string_view key,
                                          Result<T> (*read)(const View&)) {
  TRY_ASSIGN(const View object, parent.at(key));
  TRY_ASSIGN(const View::Children nodes, object.members());
  std::map<std::string, T> map;
  for (const View node : nodes) {
    TRY_ASSIGN(T value, read(node));
    map.emplace_hint(map.end(), std::string(node.key()), std::move(value));
  }
  return map;
}

Result<TableEntry> read_entry(const View& node) {
  TableEntry entry;
  TRY_ASSIGN(entry.types, read_map(node, "types", read_text));
  TRY_ASSIGN(entry.shape, read_map(node, "shape", read_count));
  TRY_ASSIGN(entry.device_class, node.text_or("device_class", ""));
  TRY_ASSIGN(entry.config, read_map(node, "config", read_tunable));
  TRY_ASSIGN(entry.origin, read_word(node, "origin", k_origins));
  TRY_ASSIGN(const std::int64_t rank, node.integer("rank", 0, k_max_int));
  entry.rank = static_cast<int>(rank);
  TRY_ASSIGN(entry.artifact, read_digest(node, "artifact"));
  TRY_ASSIGN(entry.offset, read_size(node, "offset"));
  TRY_ASSIGN(entry.size, read_size(node, "size"));
  TRY_ASSIGN(entry.symbols, list(node, "symbols", read_symbol));
  TRY_ASSIGN(entry.time_us, read_number(node, "time_us"));
  TRY_ASSIGN(entry.confidence, read_number(node, "confidence"));
  TRY_ASSIGN(entry.provenance, read_map(node, "provenance", read_text));
  return entry;
}

Result<KernelTable> read_table(const View& node) {
  KernelTable table;
  TRY_ASSIGN(table.name, node.text("name"));
  TRY_ASSIGN(table.summary, node.text("summary"));
  TRY_ASSIGN(table.interface, read_digest(node, "interface"));
  TRY_ASSIGN(table.types, list(node, "types", read_type));
  TRY_ASSIGN(table.axes, list(node, "axes", read_axis));
  TRY_ASSIGN(table.lets, list(node, "lets", read_let));
  TRY_ASSIGN(table.rules, list(node, "rules", read_expression));
  TRY_ASSIGN(table.arguments, list(node, "arguments", read_argument));
  TRY_ASSIGN(table.steps, list(node, "steps", read_step));
  TRY_ASSIGN(table.entries, list(node, "entries", read_entry));
  TRY_ASSIGN(const View pack, node.at("pack"));
  TRY_ASSIGN(table.pack, read_digest(pack, "digest"));
  TRY_ASSIGN(table.pack_size, read_size(pack, "size"));
  TRY_ASSIGN(table.pack_raw_size, read_size(pack, "raw_size"));
  if (const auto checked = check_table(table); !checked) {
    return fail(node.error(checked.error().message));
  }
  return table;
}

Result<Target> read_target(const View& parent) {
  TRY_ASSIGN(const View node, parent.at("target"));
  TRY_ASSIGN(const std::string_view text, node.text());
  auto target = Target::parse(text);
  if (!target) {
    return fail(node.error(target.error().message));
  }
  return target;
}

Result<ToolkitVersion> read_toolkit(const View& parent) {
  TRY_ASSIGN(const View node, parent.at("toolkit"));
  TRY_ASSIGN(const std::string_view text, node.text());
  ToolkitVersion version;
  const char* const begin = text.data();
  const char* const end = begin + text.size();
  const auto major = std::from_chars(begin, end, version.major);
  if (major.ec == std::errc() && major.ptr != end && *major.ptr == '.') {
    const auto minor = std::from_chars(major.ptr + 1, end, version.minor);
    if (minor.ec == std::errc() && minor.ptr == end && version.text() == text) {
      return version;
    }
  }
  return fail(node.error("must be MAJOR.MINOR"));
}

Result<void> check_size(std::string_view text, std::string_view what) {
  if (text.size() > oci::k_max_catalogue_bytes) {
    return fail(ErrorCode::too_large, std::string(what) + " has " + std::to_string(text.size()) +
                                          " bytes; at most " +
                                          std::to_string(oci::k_max_catalogue_bytes) + " are read");
  }
  return {};
}

Result<Document> parse_document(std::string_view text, std::string_view what,
                                json::ReadLimits limits = {}) {
  TRY(check_size(text, what));
  auto document = Document::parse(text, limits);
  if (!document) {
    return fail(document.error().with_context(what));
  }
  return document;
}

constexpr std::string_view k_catalogue = "the catalogue";
/// The catalogue itself and the list of its kernels.
constexpr int k_above_kernels = 2;
/// With these, a kernel's members, and how many are in its lists.
constexpr int k_around_tables = k_above_kernels + 2;

/// Why a catalogue of which some part is malformed is so, told as from the whole: that is what
/// people see bytes and places of.
Error malformed(std::string_view whole, const Error& part) {
  const auto document = parse_document(whole, k_catalogue);
  return document ? part : document.error();
}

Result<CatalogueReader::Kernel> read_kernel(const View& node) {
  CatalogueReader::Kernel kernel;
  TRY_ASSIGN(kernel.name, node.text("name"));
  TRY_ASSIGN(const View entries, node.at("entries"));
  TRY_ASSIGN(const View::Children listed, entries.elements());
  kernel.empty = listed.size() == 0;
  TRY_ASSIGN(const View pack, node.at("pack"));
  TRY_ASSIGN(kernel.pack, read_digest(pack, "digest"));
  TRY_ASSIGN(kernel.pack_size, read_size(pack, "size"));
  return kernel;
}

}  // namespace

Result<KernelTable> table_from_json(std::string_view text) {
  constexpr std::string_view k_what = "the kernel table";
  TRY_ASSIGN(const Document document, parse_document(text, k_what));
  return read_table(View(document, k_what));
}

Result<TableEntry> entry_from_json(std::string_view text) {
  constexpr std::string_view k_what = "the table entry";
  TRY_ASSIGN(const Document document, parse_document(text, k_what));
  return read_entry(View(document, k_what));
}

Result<CatalogueReader> CatalogueReader::open(Bytes json) {
  auto text = std::make_unique<const Bytes>(std::move(json));
  auto reader = read(as_text(*text));
  if (!reader) {
    return fail(malformed(as_text(*text), reader.error()));
  }
  reader->m_text = std::move(text);
  return reader;
}

Result<CatalogueReader> CatalogueReader::read(std::string_view text) {
  TRY_ASSIGN(Document document, parse_document(text, k_catalogue, {.kept_depth = k_around_tables}));
  const View top(document, k_catalogue);
  TRY_ASSIGN(const std::int64_t version, top.integer("catalogue", 1, k_max));
  if (version > k_version) {
    return fail(ErrorCode::newer_format, "the catalogue has version " + std::to_string(version) +
                                             "; this Cubinary reads version " +
                                             std::to_string(k_version) + ": use a newer one");
  }
  TRY_ASSIGN(const std::string_view release, top.text("release"));
  TRY_ASSIGN(const Target target, read_target(top));
  CatalogueReader reader(target);
  reader.m_release = release;
  TRY_ASSIGN(reader.m_toolkit, read_toolkit(top));
  TRY_ASSIGN(const std::int64_t driver, top.integer("minimum_driver", 0, k_max_int));
  reader.m_minimum_driver = static_cast<int>(driver);
  TRY_ASSIGN(reader.m_kernels, list(top, "kernels", read_kernel));
  for (std::size_t i = 1; i < reader.m_kernels.size(); ++i) {
    if (reader.m_kernels[i - 1].name >= reader.m_kernels[i].name) {
      return fail(top.error("kernels must be sorted by name, each name once"));
    }
  }
  reader.m_around = std::make_unique<const Document>(std::move(document));
  return reader;
}

Result<KernelTable> CatalogueReader::table(std::size_t index) const {
  const View top(*m_around, k_catalogue);
  TRY_ASSIGN(const View kernels, top.at("kernels"));
  TRY_ASSIGN(const View::Children all, kernels.elements());
  auto at = all.begin();
  for (std::size_t i = 0; i < index; ++i) {
    ++at;
  }
  const View place = *at;
  const auto document =
      Document::parse(place.raw(), {.max_depth = json::ReadLimits().max_depth - k_above_kernels});
  if (!document) {
    return fail(malformed(as_text(*m_text), document.error()));
  }
  return read_table(place.in(*document));
}

Result<Catalogue> catalogue_from_json(std::string_view text) {
  TRY(check_size(text, k_catalogue));
  TRY_ASSIGN(const CatalogueReader reader, CatalogueReader::open(to_bytes(text)));
  Catalogue catalogue{
      reader.release(), reader.target(), reader.toolkit(), reader.minimum_driver(), {}};
  catalogue.kernels.reserve(reader.kernels().size());
  for (std::size_t i = 0; i < reader.kernels().size(); ++i) {
    TRY_ASSIGN(KernelTable table, reader.table(i));
    catalogue.kernels.push_back(std::move(table));
  }
  return catalogue;
}

}  // namespace cubinary::core
