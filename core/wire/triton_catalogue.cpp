// SPDX-License-Identifier: Apache-2.0
#include "core/wire/triton_catalogue.hpp"

#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>

#include "core/base/json.hpp"
#include "core/wire/triton_entries.hpp"

namespace cubinary::core {
namespace {

using json::Array;
using json::Node;
using json::Object;
using json::Value;

constexpr std::int64_t k_version = 1;
constexpr std::int64_t k_max = std::numeric_limits<std::int64_t>::max();
constexpr std::size_t k_max_packs = 65536;

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
    array.emplace_back(to_json(*item));
  }
  return array;
}

// --- Reading ---

Result<std::uint64_t> read_size(const Node& node, std::string_view key, std::int64_t low,
                                std::int64_t high) {
  TRY_ASSIGN(const std::int64_t size, node.integer(key, low, high));
  return static_cast<std::uint64_t>(size);
}

Result<TritonPack> read_pack(const Node& node, TritonContents& known) {
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
    TRY_ASSIGN(file.digest, read_bare_digest(content));
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
Result<std::vector<T>> read_list(const Node& top, std::string_view key, const TritonContents& known,
                                 Read read) {
  TRY_ASSIGN(const Node node, top.at(key));
  TRY_ASSIGN(const std::vector<Node> elements, node.elements());
  std::vector<T> items;
  items.reserve(elements.size());
  for (const Node& element : elements) {
    TRY_ASSIGN(T item, read(element, &known));
    if (!items.empty() && order_of(items.back()) >= order_of(item)) {
      return fail(element.error("must be sorted, each once"));
    }
    items.push_back(std::move(item));
  }
  return items;
}

}  // namespace

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
  TritonContents known;
  for (const Node& node : pack_nodes) {
    TRY_ASSIGN(TritonPack pack, read_pack(node, known));
    catalogue.packs.push_back(std::move(pack));
  }
  TRY_ASSIGN(catalogue.kernels, read_list<TritonKernel>(top, "kernels", known, read_triton_kernel));
  TRY_ASSIGN(catalogue.host, read_list<TritonHost>(top, "host", known, read_triton_host));
  TRY_ASSIGN(catalogue.autotune,
             read_list<TritonAutotune>(top, "autotune", known, read_triton_autotune));
  return catalogue;
}

}  // namespace cubinary::core
