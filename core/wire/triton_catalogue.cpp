// SPDX-License-Identifier: Apache-2.0
#include "core/wire/triton_catalogue.hpp"

#include <algorithm>
#include <limits>
#include <set>
#include <tuple>
#include <unordered_set>
#include <utility>

#include "core/base/json.hpp"
#include "core/model/device_class.hpp"

namespace cubinary::core {
namespace {

using json::Array;
using json::Node;
using json::Object;
using json::Value;

constexpr std::int64_t k_version = 1;
constexpr std::int64_t k_max = std::numeric_limits<std::int64_t>::max();
constexpr std::size_t k_max_packs = 65536;
constexpr std::size_t k_max_files_of_entry = 4096;

using Known = std::unordered_set<Digest>;

auto order_of(const TritonKernel& kernel) {
  return std::tie(kernel.key);
}
auto order_of(const TritonHost& host) {
  return std::tie(host.source, host.origin.python_abi, host.origin.machine, host.file, host.digest);
}
auto order_of(const TritonAutotune& autotune) {
  return std::tie(autotune.device_class, autotune.key);
}

// --- Writing ---

Value to_value(const std::map<std::string, std::string>& map) {
  Object object;
  for (const auto& [key, text] : map) {
    object.emplace(key, text);
  }
  return object;
}

void put_origin(Object& object, const TritonOrigin& origin) {
  object.emplace("triton", origin.triton);
  object.emplace("python_abi", origin.python_abi);
  object.emplace("machine", origin.machine);
}

Value to_value(const TritonKernel& kernel) {
  Object object{{"key", kernel.key},
                {"name", kernel.name},
                {"group", kernel.group},
                {"files", to_value(triton_files_as_text(kernel.files))},
                {"key_parts", to_value(kernel.key_parts)}};
  put_origin(object, kernel.origin);
  return object;
}

Value to_value(const TritonHost& host) {
  Array keys;
  for (const std::string& key : host.keys) {
    keys.emplace_back(key);
  }
  Object object{{"source", host.source},
                {"name", host.name},
                {"file", host.file},
                {"sha256", host.digest.hex()},
                {"glibc_floor", host.glibc_floor},
                {"keys", std::move(keys)}};
  put_origin(object, host.origin);
  return object;
}

Value to_value(const TritonAutotune& autotune) {
  Object object{{"device_class", autotune.device_class},
                {"key", autotune.key},
                {"files", to_value(triton_files_as_text(autotune.files))}};
  put_origin(object, autotune.origin);
  return object;
}

Value to_value(const TritonPack& pack) {
  Array files;
  for (const TritonPack::File& file : pack.files) {
    files.emplace_back(Object{{"sha256", file.digest.hex()}, {"size", file.size}});
  }
  return Object{{"digest", pack.digest.text()},
                {"size", pack.size},
                {"raw_size", pack.raw_size},
                {"files", std::move(files)}};
}

template <typename T>
Value sorted(const std::vector<T>& items) {
  std::vector<const T*> order;
  for (const T& item : items) {
    order.push_back(&item);
  }
  std::ranges::stable_sort(order,
                           [](const T* a, const T* b) { return order_of(*a) < order_of(*b); });
  Array array;
  for (const T* item : order) {
    array.push_back(to_value(*item));
  }
  return array;
}

// --- Reading ---

Result<Digest> read_hex(const Node& node) {
  TRY_ASSIGN(const std::string text, node.text());
  auto digest = Digest::parse(text);
  if (!digest || text.size() != 2 * Digest::k_size) {
    return fail(node.error("must be 64 lower-case hexadecimal digits"));
  }
  return digest;
}

Result<std::uint64_t> read_size(const Node& node, std::string_view key, std::int64_t low,
                                std::int64_t high) {
  TRY_ASSIGN(const std::int64_t size, node.integer(key, low, high));
  return static_cast<std::uint64_t>(size);
}

Result<std::string> read_key(const Node& node) {
  TRY_ASSIGN(std::string key, node.text());
  if (!is_triton_key(key)) {
    return fail(node.error("\"" + key + "\" is no key of a Triton cache"));
  }
  return key;
}

Result<std::string> read_file_name(const Node& node) {
  TRY_ASSIGN(std::string name, node.text());
  if (!is_triton_file(name)) {
    return fail(node.error("\"" + name + "\" is no file name of a Triton cache"));
  }
  return name;
}

Result<std::string> read_member_key(const Node& node) {
  TRY_ASSIGN(const Node key, node.at("key"));
  return read_key(key);
}

Result<std::string> read_member_file(const Node& node, std::string_view member) {
  TRY_ASSIGN(const Node file, node.at(member));
  return read_file_name(file);
}

Result<TritonOrigin> read_origin(const Node& node) {
  TritonOrigin origin;
  TRY_ASSIGN(origin.triton, node.text("triton"));
  TRY_ASSIGN(origin.python_abi, node.text("python_abi"));
  TRY_ASSIGN(origin.machine, node.text("machine"));
  // Both become parts of folder names.
  for (const std::string* text : {&origin.python_abi, &origin.machine}) {
    if (!text->empty() && !is_triton_key(*text)) {
      return fail(node.error("\"" + *text + "\" is no Python ABI or machine"));
    }
  }
  return origin;
}

Result<TritonFiles> read_files(const Node& parent, const Known& known) {
  TRY_ASSIGN(const Node node, parent.at("files"));
  TRY_ASSIGN(const std::vector<Node> members, node.members());
  if (members.empty() || members.size() > k_max_files_of_entry) {
    return fail(node.error("must hold 1 to " + std::to_string(k_max_files_of_entry) + " files"));
  }
  TritonFiles files;
  for (const Node& member : members) {
    if (!is_triton_file(member.key())) {
      return fail(member.error("is no file name of a Triton cache"));
    }
    TRY_ASSIGN(const Digest digest, read_hex(member));
    if (!known.contains(digest)) {
      return fail(member.error("lies in no pack"));
    }
    files.emplace(member.key(), digest);
  }
  return files;
}

Result<TritonKernel> read_kernel(const Node& node, const Known& known) {
  TritonKernel kernel;
  TRY_ASSIGN(kernel.key, read_member_key(node));
  TRY_ASSIGN(kernel.name, node.text("name"));
  TRY_ASSIGN(kernel.origin, read_origin(node));
  TRY_ASSIGN(kernel.group, read_member_file(node, "group"));
  TRY_ASSIGN(kernel.files, read_files(node, known));
  if (kernel.files.contains(kernel.group)) {
    return fail(node.error("the group file is made where it is laid down, not shipped"));
  }
  TRY_ASSIGN(const Node parts, node.at("key_parts"));
  TRY_ASSIGN(kernel.key_parts, parts.text_map());
  return kernel;
}

Result<TritonHost> read_host(const Node& node, const Known& known) {
  TritonHost host;
  TRY_ASSIGN(const Node source, node.at("source"));
  TRY_ASSIGN(host.source, source.text());
  if (!host.source.empty()) {
    TRY(read_hex(source));
  }
  TRY_ASSIGN(host.name, node.text("name"));
  TRY_ASSIGN(host.file, read_member_file(node, "file"));
  TRY_ASSIGN(const Node digest, node.at("sha256"));
  TRY_ASSIGN(host.digest, read_hex(digest));
  if (!known.contains(host.digest)) {
    return fail(digest.error("lies in no pack"));
  }
  TRY_ASSIGN(const Node keys, node.at("keys"));
  TRY_ASSIGN(const std::vector<Node> elements, keys.elements());
  if (elements.size() > k_max_files_of_entry) {
    return fail(keys.error("has too many members"));
  }
  for (const Node& element : elements) {
    TRY_ASSIGN(std::string key, read_key(element));
    if (!host.keys.empty() && host.keys.back() >= key) {
      return fail(element.error("keys must ascend"));
    }
    host.keys.push_back(std::move(key));
  }
  if (host.source.empty() && host.keys.empty()) {
    return fail(node.error("has neither a source nor a key: nobody could find it"));
  }
  TRY_ASSIGN(host.glibc_floor, node.text("glibc_floor"));
  TRY_ASSIGN(host.origin, read_origin(node));
  return host;
}

Result<TritonAutotune> read_autotune(const Node& node, const Known& known) {
  TritonAutotune autotune;
  TRY_ASSIGN(autotune.device_class, node.text("device_class"));
  if (const auto parsed = DeviceClass::parse(autotune.device_class); !parsed) {
    return fail(node.error(parsed.error().message));
  }
  TRY_ASSIGN(autotune.key, read_member_key(node));
  TRY_ASSIGN(autotune.files, read_files(node, known));
  TRY_ASSIGN(autotune.origin, read_origin(node));
  return autotune;
}

Result<TritonPack> read_pack(const Node& node, Known& known) {
  constexpr auto k_max_raw = static_cast<std::int64_t>(k_max_triton_pack_bytes);
  TritonPack pack;
  TRY_ASSIGN(const Node digest, node.at("digest"));
  TRY_ASSIGN(const std::string text, digest.text());
  auto parsed = Digest::parse(text);
  if (!parsed || !text.starts_with("sha256:")) {
    return fail(digest.error("must be sha256: and 64 lower-case hexadecimal digits"));
  }
  pack.digest = *parsed;
  TRY_ASSIGN(pack.size, read_size(node, "size", 1, k_max));
  TRY_ASSIGN(pack.raw_size, read_size(node, "raw_size", 0, k_max_raw));
  TRY_ASSIGN(const Node files, node.at("files"));
  TRY_ASSIGN(const std::vector<Node> elements, files.elements());
  std::uint64_t total = 0;
  for (const Node& element : elements) {
    TRY_ASSIGN(const Node content, element.at("sha256"));
    TritonPack::File file;
    TRY_ASSIGN(file.digest, read_hex(content));
    TRY_ASSIGN(file.size, read_size(element, "size", 0, k_max_raw));
    if (!known.insert(file.digest).second) {
      return fail(element.error("stands twice"));
    }
    total += file.size;
    if (total > pack.raw_size) {
      return fail(element.error("lies outside of the pack"));
    }
    pack.files.push_back(file);
  }
  if (total != pack.raw_size) {
    return fail(node.error("the files' sizes do not add up to raw_size"));
  }
  return pack;
}

template <typename T, typename Read>
Result<std::vector<T>> read_list(const Node& top, std::string_view key, const Known& known,
                                 Read read) {
  TRY_ASSIGN(const Node node, top.at(key));
  TRY_ASSIGN(const std::vector<Node> elements, node.elements());
  std::vector<T> items;
  items.reserve(elements.size());
  for (const Node& element : elements) {
    TRY_ASSIGN(T item, read(element, known));
    if (!items.empty() && order_of(items.back()) >= order_of(item)) {
      return fail(element.error("must be sorted, each once"));
    }
    items.push_back(std::move(item));
  }
  return items;
}

}  // namespace

bool is_triton_key(std::string_view text) {
  constexpr std::size_t k_max_key = 128;
  return !text.empty() && text.size() <= k_max_key && std::ranges::all_of(text, [](char c) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-';
  });
}

bool is_triton_file(std::string_view text) {
  constexpr std::size_t k_max_name = 255;
  return !text.empty() && text.size() <= k_max_name && text.front() != '.' &&
         !text.starts_with("tmp.") && text.find('/') == std::string_view::npos &&
         text.find('\0') == std::string_view::npos;
}

std::map<std::string, std::string> triton_files_as_text(const TritonFiles& files) {
  std::map<std::string, std::string> texts;
  for (const auto& [name, digest] : files) {
    texts.emplace(name, digest.hex());
  }
  return texts;
}

std::string triton_catalogue_to_json(const TritonCatalogue& catalogue) {
  Array packs;
  for (const TritonPack& pack : catalogue.packs) {
    packs.push_back(to_value(pack));
  }
  return json::to_text(Object{{"triton", k_version},
                              {"release", catalogue.release},
                              {"target", catalogue.target.text()},
                              {"kernels", sorted(catalogue.kernels)},
                              {"host", sorted(catalogue.host)},
                              {"autotune", sorted(catalogue.autotune)},
                              {"packs", std::move(packs)}});
}

Result<TritonCatalogue> triton_catalogue_from_json(std::string_view text) {
  constexpr std::string_view k_what = "the Triton catalogue";
  if (text.size() > k_max_triton_catalogue_bytes) {
    return fail(ErrorCode::too_large,
                std::string(k_what) + " has " + std::to_string(text.size()) + " bytes; at most " +
                    std::to_string(k_max_triton_catalogue_bytes) + " are read");
  }
  auto value = json::parse(text);
  if (!value) {
    return fail(value.error().with_context(k_what));
  }
  const Node top(*value, k_what);
  TRY_ASSIGN(const std::int64_t version, top.integer("triton", 1, k_max));
  if (version > k_version) {
    return fail(ErrorCode::newer_format, std::string(k_what) + " has version " +
                                             std::to_string(version) +
                                             "; this Cubinary reads version " +
                                             std::to_string(k_version) + ": use a newer one");
  }
  TRY_ASSIGN(std::string release, top.text("release"));
  TRY_ASSIGN(const Node target_node, top.at("target"));
  TRY_ASSIGN(const std::string target_text, target_node.text());
  const auto target = Target::parse(target_text);
  if (!target) {
    return fail(target_node.error(target.error().message));
  }
  TritonCatalogue catalogue{std::move(release), *target, {}, {}, {}, {}};

  TRY_ASSIGN(const Node packs, top.at("packs"));
  TRY_ASSIGN(const std::vector<Node> pack_nodes, packs.elements());
  if (pack_nodes.size() > k_max_packs) {
    return fail(packs.error("has too many members"));
  }
  Known known;
  for (const Node& node : pack_nodes) {
    TRY_ASSIGN(TritonPack pack, read_pack(node, known));
    catalogue.packs.push_back(std::move(pack));
  }
  TRY_ASSIGN(catalogue.kernels, read_list<TritonKernel>(top, "kernels", known, read_kernel));
  TRY_ASSIGN(catalogue.host, read_list<TritonHost>(top, "host", known, read_host));
  TRY_ASSIGN(catalogue.autotune, read_list<TritonAutotune>(top, "autotune", known, read_autotune));
  return catalogue;
}

}  // namespace cubinary::core
