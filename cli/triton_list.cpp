// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <memory>
#include <string>

#include "cli/table.hpp"
#include "cli/triton.hpp"
#include "core/base/json.hpp"
#include "store/store.hpp"
#include "store/triton.hpp"

namespace cubinary::cli {
namespace {

namespace json = core::json;
using core::Result;

struct Options {
  std::string store;
  bool records = false;
  bool json = false;
};

std::string or_any(const std::string& text) {
  return text.empty() ? "any" : text;
}

json::Object to_json(const core::TritonOrigin& origin) {
  return {
      {"triton", origin.triton}, {"python_abi", origin.python_abi}, {"machine", origin.machine}};
}

json::Object to_json(const core::TritonFiles& files) {
  json::Object object;
  for (const auto& [name, digest] : files) {
    object.emplace(name, digest.hex());
  }
  return object;
}

json::Value document(const std::vector<store::StoredTritonKernel>& kernels,
                     const std::vector<core::TritonHost>& modules,
                     const std::vector<core::TritonAutotune>& results) {
  json::Array kernel_array;
  for (const auto& [target, kernel] : kernels) {
    json::Object object = to_json(kernel.origin);
    object.emplace("key", kernel.key);
    object.emplace("name", kernel.name);
    object.emplace("target", target);
    object.emplace("files", to_json(kernel.files));
    kernel_array.emplace_back(std::move(object));
  }
  json::Array host_array;
  for (const core::TritonHost& host : modules) {
    json::Object object = to_json(host.origin);
    object.emplace("source", host.source);
    object.emplace("name", host.name);
    object.emplace("file", host.file);
    object.emplace("glibc_floor", host.glibc_floor);
    object.emplace("sha256", host.digest.hex());
    host_array.emplace_back(std::move(object));
  }
  json::Array result_array;
  for (const core::TritonAutotune& result : results) {
    json::Object object = to_json(result.origin);
    object.emplace("device_class", result.device_class);
    object.emplace("key", result.key);
    object.emplace("files", to_json(result.files));
    result_array.emplace_back(std::move(object));
  }
  return json::Object{{"kernels", std::move(kernel_array)},
                      {"host", std::move(host_array)},
                      {"autotune", std::move(result_array)}};
}

Result<int> list(const Options& options) {
  TRY_ASSIGN(
      const store::Store store,
      store::Store::open(options.store, {store::Access::read, false, "cubinary triton list"}));
  TRY_ASSIGN(const store::Reader reader, store.reader());
  if (options.records) {
    TRY_ASSIGN(const auto records, store::list_triton_records(reader));
    for (const std::string& record : records) {
      std::printf("%s\n", record.c_str());
    }
    return 0;
  }
  TRY_ASSIGN(const auto kernels, store::list_triton_kernels(reader));
  TRY_ASSIGN(const auto modules, store::list_triton_host(reader));
  TRY_ASSIGN(const auto results, store::list_triton_autotune(reader));
  if (options.json) {
    std::printf("%s\n", json::to_text(document(kernels, modules, results)).c_str());
    return 0;
  }
  Table table({"what", "name", "for", "triton", "python", "machine", "key"});
  const auto add = [&](const char* what, const std::string& name, const std::string& place,
                       const core::TritonOrigin& origin, const std::string& key) {
    constexpr std::size_t k_short = 16;
    table.add_row({what, name, place, or_any(origin.triton), or_any(origin.python_abi),
                   or_any(origin.machine), key.substr(0, k_short)});
  };
  for (const auto& [target, kernel] : kernels) {
    add("kernel", kernel.name, target, kernel.origin, kernel.key);
  }
  for (const core::TritonHost& host : modules) {
    add("host", host.name, "glibc " + or_any(host.glibc_floor), host.origin,
        host.source.empty() ? host.keys.front() : host.source);
  }
  for (const core::TritonAutotune& result : results) {
    add("autotune", result.files.begin()->first, result.device_class, result.origin, result.key);
  }
  if (table.rows() == 0) {
    std::printf("nothing of Triton yet: `cubinary triton capture --store %s -- python …`\n",
                options.store.c_str());
    return 0;
  }
  std::fputs(table.text().c_str(), stdout);
  return 0;
}

}  // namespace

void add_triton_list(Cli& cli, CLI::App& triton) {
  const auto options = std::make_shared<Options>();
  CLI::App* app = triton.add_subcommand("list", "List what the store holds of Triton");
  app->add_option("--store", options->store, "store file; may be in use")->required();
  app->add_flag("--records", options->records,
                "print the recorded specialisations instead, one JSON object a line");
  app->add_flag("--json", options->json, "print one JSON object");
  app->footer(
      "Example:\n"
      "  cubinary triton list --store kernels.db\n"
      "  cubinary triton list --records --store kernels.db > records.jsonl");
  app->callback([&cli, options] { cli.run = [options] { return list(*options); }; });
}

}  // namespace cubinary::cli
