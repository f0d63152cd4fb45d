// SPDX-License-Identifier: Apache-2.0
#include "store/triton_json.hpp"

#include <utility>

#include "core/model/target.hpp"
#include "core/wire/triton_entries.hpp"

namespace cubinary::store {
namespace {

namespace json = core::json;
using core::fail;
using core::Result;
using json::Node;

Result<StoredTritonKernel> read_kernel(const Node& node) {
  TRY_ASSIGN(const Node target, node.at("target"));
  TRY_ASSIGN(const std::string text, target.text());
  if (const auto known = core::Target::parse(text); !known) {
    return fail(target.error(known.error().message));
  }
  TRY_ASSIGN(core::TritonKernel kernel, core::read_triton_kernel(node, nullptr));
  return StoredTritonKernel{text, std::move(kernel)};
}

Result<core::TritonHost> read_host(const Node& node) {
  return core::read_triton_host(node, nullptr);
}

Result<core::TritonAutotune> read_autotune(const Node& node) {
  return core::read_triton_autotune(node, nullptr);
}

/// A record is kept as it was written; only that it is one object on one line is asked of it.
Result<std::string> read_record(const Node& node) {
  TRY_ASSIGN(std::string text, node.text());
  const auto value = json::parse(text);
  if (!value || value->get_if<json::Object>() == nullptr || text.find('\n') != std::string::npos) {
    return fail(node.error("must be the text of one JSON object, on one line"));
  }
  return text;
}

template <typename T>
Result<std::vector<T>> read_all(const Node& top, std::string_view key,
                                Result<T> (*read)(const Node&)) {
  std::vector<T> items;
  TRY_ASSIGN(const Node list, top.at(key));
  TRY_ASSIGN(const auto nodes, list.elements());
  items.reserve(nodes.size());
  for (const Node& node : nodes) {
    TRY_ASSIGN(T item, read(node));
    items.push_back(std::move(item));
  }
  return items;
}

}  // namespace

Result<TritonEntries> list_triton(const Reader& reader) {
  TritonEntries entries;
  TRY_ASSIGN(entries.kernels, list_triton_kernels(reader));
  TRY_ASSIGN(entries.host, list_triton_host(reader));
  TRY_ASSIGN(entries.autotune, list_triton_autotune(reader));
  return entries;
}

json::Object to_json(const TritonEntries& entries) {
  json::Array kernels;
  for (const StoredTritonKernel& stored : entries.kernels) {
    json::Object object = core::to_json(stored.kernel);
    object.emplace("target", stored.target);
    kernels.emplace_back(std::move(object));
  }
  json::Array host;
  for (const core::TritonHost& module : entries.host) {
    host.emplace_back(core::to_json(module));
  }
  json::Array autotune;
  for (const core::TritonAutotune& result : entries.autotune) {
    autotune.emplace_back(core::to_json(result));
  }
  json::Object object{{"kernels", std::move(kernels)},
                      {"host", std::move(host)},
                      {"autotune", std::move(autotune)}};
  if (!entries.records.empty()) {
    json::Array records;
    for (const std::string& record : entries.records) {
      records.emplace_back(record);
    }
    object.emplace("records", std::move(records));
  }
  return object;
}

Result<TritonEntries> triton_entries_from_json(const Node& node) {
  TritonEntries entries;
  TRY_ASSIGN(entries.kernels, read_all<StoredTritonKernel>(node, "kernels", read_kernel));
  TRY_ASSIGN(entries.host, read_all<core::TritonHost>(node, "host", read_host));
  TRY_ASSIGN(entries.autotune, read_all<core::TritonAutotune>(node, "autotune", read_autotune));
  TRY_ASSIGN(const auto records, node.find("records"));
  if (records.exists()) {
    TRY_ASSIGN(entries.records, read_all<std::string>(node, "records", read_record));
  }
  return entries;
}

}  // namespace cubinary::store
