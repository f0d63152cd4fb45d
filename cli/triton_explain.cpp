// SPDX-License-Identifier: Apache-2.0
#include "client/triton_explain.hpp"

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "builder/release/triton_part.hpp"
#include "cli/fetch.hpp"
#include "cli/hydrate.hpp"
#include "cli/remote.hpp"
#include "cli/table.hpp"
#include "cli/triton.hpp"
#include "core/base/file.hpp"
#include "core/base/json.hpp"
#include "store/store.hpp"
#include "store/triton_json.hpp"

namespace cubinary::cli {
namespace {

namespace json = core::json;
using core::ErrorCode;
using core::fail;
using core::Result;

constexpr std::uint64_t k_max_misses = 256U << 20U;

struct Options {
  std::string misses;
  StoreChoice store;
  SourceArguments source;
  bool json = false;
};

Result<std::string> read_misses(const std::string& path) {
  if (path == "-") {
    return std::string(std::istreambuf_iterator<char>(std::cin), {});
  }
  return core::read_text_file(path, k_max_misses);
}

/// Each miss once: every process that has it appends it.
Result<std::vector<client::TritonMiss>> parse_misses(const std::string& text,
                                                     const std::string& file) {
  std::vector<client::TritonMiss> misses;
  std::set<std::string> seen;
  std::size_t number = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string line = text.substr(begin, end - begin);
    begin = end + 1;
    ++number;
    if (line.empty()) {
      continue;
    }
    auto miss = client::triton_miss_from_json(line);
    if (!miss) {
      return fail(miss.error().with_context(file + ":" + std::to_string(number)));
    }
    if (seen.insert(miss->kind + " " + miss->key + " " + miss->source + " " + miss->device_class)
            .second) {
      misses.push_back(*std::move(miss));
    }
  }
  return misses;
}

/// What a store holds, here or on a server, by target.
Result<std::map<std::string, builder::TritonSelection>> selection_of(const StoreChoice& choice) {
  if (choice.remote()) {
    TRY_ASSIGN(Remote remote, Remote::open(choice));
    TRY_ASSIGN(const json::Value told, remote.get("/api/v1/triton"));
    TRY_ASSIGN(auto entries,
               store::triton_entries_from_json(json::Node(told, "the server's answer")));
    return builder::select_triton(std::move(entries), "");
  }
  TRY_ASSIGN(
      const store::Store store,
      store::Store::open(choice.file, {store::Access::read, false, "cubinary triton explain"}));
  TRY_ASSIGN(const store::Reader reader, store.reader());
  return builder::select_triton(reader, "");
}

Result<std::vector<core::TritonCatalogue>> catalogues_of_store(const StoreChoice& choice) {
  TRY_ASSIGN(auto targets, selection_of(choice));
  std::vector<core::TritonCatalogue> catalogues;
  for (auto& [name, selection] : targets) {
    TRY_ASSIGN(const core::Target target, core::Target::parse(name));
    catalogues.push_back({choice.remote() ? choice.server : choice.file,
                          target,
                          std::move(selection.kernels),
                          std::move(selection.host),
                          std::move(selection.autotune),
                          {}});
  }
  return catalogues;
}

Result<std::vector<core::TritonCatalogue>> catalogues_of_source(const SourceArguments& source) {
  const auto deadline = client::deadline_after(source.timeout_seconds);
  client::Cache::Options options;
  options.log = print_warning;
  auto cache = std::make_shared<client::Cache>(std::move(options));
  TRY_ASSIGN(const auto release, open_release(source, std::move(cache), deadline, false));
  std::vector<core::TritonCatalogue> catalogues;
  for (const core::Target& target : release->targets()) {
    TRY_ASSIGN(const auto catalogue, release->triton(target, deadline));
    if (catalogue) {
      catalogues.push_back(*catalogue);
    }
  }
  return catalogues;
}

std::string shortened(const std::string& text) {
  constexpr std::size_t k_most = 48;
  return text.size() <= k_most ? text : text.substr(0, k_most) + "…";
}

void print(const client::TritonMiss& miss, const client::TritonExplanation& explanation) {
  std::printf("%s %s", miss.kind.c_str(), miss.name.c_str());
  if (!miss.target.empty()) {
    std::printf(" on %s", miss.target.c_str());
  }
  std::printf(", key %s\n  %s\n", miss.key.c_str(), explanation.verdict.c_str());
  if (explanation.differences.empty()) {
    std::printf("\n");
    return;
  }
  Table table({"  part", "program", "release", "what it means"});
  for (const client::TritonDifference& difference : explanation.differences) {
    table.add_row({"  " + difference.part, shortened(difference.wanted), shortened(difference.has),
                   difference.means});
  }
  std::printf("%s\n", table.text().c_str());
}

json::Value to_json(const client::TritonMiss& miss, const client::TritonExplanation& explanation) {
  json::Array differences;
  for (const client::TritonDifference& difference : explanation.differences) {
    differences.emplace_back(json::Object{{"part", difference.part},
                                          {"program", difference.wanted},
                                          {"release", difference.has},
                                          {"means", difference.means}});
  }
  return json::Object{{"kind", miss.kind},
                      {"name", miss.name},
                      {"key", miss.key},
                      {"verdict", explanation.verdict},
                      {"nearest", explanation.nearest},
                      {"differences", std::move(differences)}};
}

Result<int> explain(const Options& options) {
  const bool with_store = options.store.remote() || !options.store.file.empty();
  if (with_store == !options.source.source.empty()) {
    return fail(ErrorCode::usage,
                "say what to compare with: a release (--source SOURCE --key PUB) or a store "
                "(--store FILE, or --server URL)");
  }
  const std::string file = options.misses.empty()
                               ? (triton_cache_folder() / "cubinary-misses.jsonl").string()
                               : options.misses;
  TRY_ASSIGN(const std::string text, read_misses(file));
  StoreChoice place = options.store;
  place.token = options.source.token;
  TRY_ASSIGN(const auto catalogues,
             with_store ? catalogues_of_store(place) : catalogues_of_source(options.source));
  TRY_ASSIGN(const auto misses, parse_misses(text, file));
  json::Array array;
  for (const client::TritonMiss& miss : misses) {
    const auto explanation = client::explain_triton_miss(miss, catalogues);
    if (options.json) {
      array.push_back(to_json(miss, explanation));
    } else {
      print(miss, explanation);
    }
  }
  if (options.json) {
    std::printf("%s\n", json::to_text(array).c_str());
  } else if (misses.empty()) {
    std::printf("no misses in %s\n", file.c_str());
  }
  return 0;
}

}  // namespace

void add_triton_explain(Cli& cli, CLI::App& triton) {
  const auto options = std::make_shared<Options>();
  CLI::App* app = triton.add_subcommand(
      "explain", "Say which part of the key keeps a release from answering a program's misses");
  app->add_option("MISSES", options->misses,
                  "file of misses, - for standard input (default: cubinary-misses.jsonl in the "
                  "cache)");
  app->add_option("--source", options->source.source, "the release to compare with");
  CLI::Option* const file =
      app->add_option("--store", options->store.file, "the store to compare with instead");
  app->add_option("--server", options->store.server, "or the server that owns it")
      ->type_name("URL")
      ->excludes(file);
  describe_trust(*app, options->source);
  app->add_flag("--json", options->json, "print one JSON array");
  app->footer(
      "Example:\n"
      "  cubinary triton explain /opt/triton-cache/cubinary-misses.jsonl --source ./layout:r1 "
      "--key release.pub");
  app->callback([&cli, options] { cli.run = [options] { return explain(*options); }; });
}

}  // namespace cubinary::cli
