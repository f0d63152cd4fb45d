// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <memory>
#include <string>

#include "cli/answer.hpp"
#include "cli/store_choice.hpp"
#include "cli/table.hpp"
#include "cli/triton.hpp"
#include "cli/triton_place.hpp"
#include "core/base/json.hpp"
#include "store/store.hpp"
#include "store/triton_json.hpp"

namespace cubinary::cli {
namespace {

namespace json = core::json;
using core::Result;

struct Options {
  StoreChoice choice;
  bool records = false;
  bool json = false;
};

std::string or_any(const std::string& text) {
  return text.empty() ? "any" : text;
}

Result<json::Value> everything(const StoreChoice& choice) {
  if (choice.remote()) {
    TRY_ASSIGN(Remote remote, Remote::open(choice));
    return remote.get("/api/v1/triton");
  }
  TRY_ASSIGN(const store::Store store,
             store::Store::open(choice.file, {store::Access::read, false, "cubinary triton list"}));
  TRY_ASSIGN(const store::Reader reader, store.reader());
  TRY_ASSIGN(const store::TritonEntries entries, store::list_triton(reader));
  return json::Value(store::to_json(entries));
}

std::string first_key(const json::Value& object, std::string_view member) {
  const auto* const top = object.get_if<json::Object>();
  const auto found = top->find(member);
  if (found == top->end()) {
    return {};
  }
  if (const auto* const files = found->second.get_if<json::Object>(); files != nullptr) {
    return files->empty() ? "" : files->begin()->first;
  }
  return list_at(object, member);
}

Table table_of(const json::Value& document) {
  Table table({"what", "name", "for", "triton", "python", "machine", "key"});
  const auto add = [&](const char* what, const json::Value& entry, const std::string& name,
                       const std::string& place, const std::string& key) {
    constexpr std::size_t k_short = 16;
    table.add_row({what, name, place, or_any(text_at(entry, "triton")),
                   or_any(text_at(entry, "python_abi")), or_any(text_at(entry, "machine")),
                   key.substr(0, k_short)});
  };
  for (const json::Value& kernel : array_at(document, "kernels")) {
    add("kernel", kernel, text_at(kernel, "name"), text_at(kernel, "target"),
        text_at(kernel, "key"));
  }
  for (const json::Value& host : array_at(document, "host")) {
    const std::string source = text_at(host, "source");
    add("host", host, text_at(host, "name"), "glibc " + or_any(text_at(host, "glibc_floor")),
        source.empty() ? first_key(host, "keys") : source);
  }
  for (const json::Value& result : array_at(document, "autotune")) {
    add("autotune", result, first_key(result, "files"), text_at(result, "device_class"),
        text_at(result, "key"));
  }
  return table;
}

Result<int> list(const Options& options) {
  if (options.records) {
    TRY_ASSIGN(const auto records, TritonPlace(options.choice, "cubinary triton list").records());
    for (const std::string& record : records) {
      std::printf("%s\n", record.c_str());
    }
    return 0;
  }
  TRY_ASSIGN(const json::Value document, everything(options.choice));
  if (options.json) {
    print_json(document);
    return 0;
  }
  const Table table = table_of(document);
  if (table.rows() == 0) {
    const std::string place = options.choice.remote() ? "--server " + options.choice.server
                                                      : "--store " + options.choice.file;
    std::printf("nothing of Triton yet: `cubinary triton capture %s -- python …`\n", place.c_str());
    return 0;
  }
  std::fputs(table.text().c_str(), stdout);
  return 0;
}

}  // namespace

void add_triton_list(Cli& cli, CLI::App& triton) {
  const auto options = std::make_shared<Options>();
  CLI::App* app = triton.add_subcommand("list", "List what the store holds of Triton");
  add_store_options(*app, options->choice, "store file; may be in use");
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
