// SPDX-License-Identifier: Apache-2.0
#include "store/store.hpp"

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "cli/command.hpp"
#include "cli/table.hpp"
#include "core/base/json.hpp"
#include "store/maintenance.hpp"

namespace cubinary::cli {
namespace {

namespace json = core::json;
using core::Result;

struct Options {
  std::string store;
  std::string destination;
  bool dry_run = false;
  bool json = false;
};

void print_json(const json::Value& value) {
  std::printf("%s\n", json::to_text(value).c_str());
}

Result<store::Store> open_for_reading(const Options& options) {
  return store::Store::open(options.store, {});
}

/// "7.2x", or "-" when nothing is stored.
std::string format_ratio(std::uint64_t raw, std::uint64_t stored) {
  if (stored == 0) {
    return "-";
  }
  char text[32];
  std::snprintf(text, sizeof text, "%.1fx", static_cast<double>(raw) / static_cast<double>(stored));
  return text;
}

Result<int> print_stats(const Options& options) {
  TRY_ASSIGN(const store::Store store, open_for_reading(options));
  TRY_ASSIGN(const store::Stats stats, store::stats(store));
  const std::uint64_t stored = stats.artifact_stored_bytes + stats.dictionary_bytes;
  if (options.json) {
    print_json(json::Object{{"file_bytes", stats.file_bytes},
                            {"kernels", stats.kernels},
                            {"candidates_ok", stats.candidates_ok},
                            {"candidates_failed", stats.candidates_failed},
                            {"artifacts", stats.artifacts},
                            {"artifact_raw_bytes", stats.artifact_raw_bytes},
                            {"artifact_stored_bytes", stats.artifact_stored_bytes},
                            {"dictionary_bytes", stats.dictionary_bytes},
                            {"measurements", stats.measurements},
                            {"releases", stats.releases},
                            {"blob_bytes", stats.blob_bytes}});
    return 0;
  }
  Table table({"what", ">count", ">size", "note"});
  table.add_row({"kernels", std::to_string(stats.kernels), "", ""});
  table.add_row({"candidates", std::to_string(stats.candidates_ok + stats.candidates_failed), "",
                 std::to_string(stats.candidates_failed) + " failed"});
  table.add_row({"artifacts", std::to_string(stats.artifacts),
                 format_bytes(stats.artifact_stored_bytes),
                 format_bytes(stats.artifact_raw_bytes) + " raw; with dictionaries " +
                     format_ratio(stats.artifact_raw_bytes, stored)});
  table.add_row({"dictionaries", "", format_bytes(stats.dictionary_bytes), ""});
  table.add_row({"measurements", std::to_string(stats.measurements), "", ""});
  table.add_row({"releases", std::to_string(stats.releases), format_bytes(stats.blob_bytes), ""});
  table.add_row({"file", "", format_bytes(stats.file_bytes),
                 "raw / file " + format_ratio(stats.artifact_raw_bytes, stats.file_bytes)});
  std::fputs(table.text().c_str(), stdout);
  return 0;
}

Result<int> make_backup(const Options& options) {
  TRY_ASSIGN(const store::Store store, open_for_reading(options));
  TRY(store::backup(store, options.destination));
  TRY_ASSIGN(const store::Store copy, store::Store::open(options.destination, {}));
  TRY_ASSIGN(const store::Stats stats, store::stats(copy));
  if (options.json) {
    print_json(json::Object{{"backup", options.destination},
                            {"bytes", stats.file_bytes},
                            {"artifacts", stats.artifacts},
                            {"releases", stats.releases}});
  } else {
    std::printf("%s: %s, %llu artifacts, %llu releases\n", options.destination.c_str(),
                format_bytes(stats.file_bytes).c_str(),
                static_cast<unsigned long long>(stats.artifacts),
                static_cast<unsigned long long>(stats.releases));
  }
  return 0;
}

Result<int> check(const Options& options) {
  TRY_ASSIGN(const store::Store store, open_for_reading(options));
  TRY_ASSIGN(const std::vector<std::string> findings, store::fsck(store));
  if (options.json) {
    print_json(json::Object{{"sound", findings.empty()},
                            {"findings", json::Array(findings.begin(), findings.end())}});
  } else if (findings.empty()) {
    std::printf("%s is sound: every artifact, dictionary and blob has its digest\n",
                options.store.c_str());
  } else {
    for (const std::string& finding : findings) {
      std::printf("%s\n", finding.c_str());
    }
    std::printf("%zu findings; restore a backup, or build and release again what is named\n",
                findings.size());
  }
  return findings.empty() ? 0 : 1;
}

Result<int> collect(const Options& options) {
  TRY_ASSIGN(store::Store store,
             store::Store::open(options.store, {store::Access::write, false, "cubinary store gc"}));
  TRY_ASSIGN(const store::GcResult result, store::gc(store, options.dry_run));
  if (options.json) {
    print_json(json::Object{{"dry_run", options.dry_run},
                            {"candidates", result.candidates},
                            {"measurements", result.measurements},
                            {"artifacts", result.artifacts},
                            {"blobs", result.blobs},
                            {"bytes", result.bytes}});
    return 0;
  }
  std::printf("%s %llu candidates with %llu measurements, %llu artifacts and %llu blobs: %s\n",
              options.dry_run ? "would drop" : "dropped",
              static_cast<unsigned long long>(result.candidates),
              static_cast<unsigned long long>(result.measurements),
              static_cast<unsigned long long>(result.artifacts),
              static_cast<unsigned long long>(result.blobs), format_bytes(result.bytes).c_str());
  return 0;
}

CLI::App* add_verb(Cli& cli, CLI::App* parent, const std::shared_ptr<Options>& options,
                   const char* name, const char* help, Result<int> (*verb)(const Options&)) {
  CLI::App* app = parent->add_subcommand(name, help);
  app->add_option("--store", options->store, "the store's file")->required();
  app->add_flag("--json", options->json, "one JSON object");
  app->callback([&cli, options, verb] { cli.run = [options, verb] { return verb(*options); }; });
  return app;
}

}  // namespace

void add_store(Cli& cli) {
  CLI::App* app = cli.app.add_subcommand("store", "Look after a store: backup, fsck, gc, stats");
  app->require_subcommand(1);
  const auto options = std::make_shared<Options>();

  CLI::App* backup = add_verb(cli, app, options, "backup",
                              "Copy a store, also one in use, to a new file", make_backup);
  backup->add_option("FILE", options->destination, "the copy; must not exist")->required();
  backup->footer("Example:\n  cubinary store backup copy.db --store kernels.db");

  add_verb(cli, app, options, "fsck", "Check the whole store and every digest in it", check)
      ->footer(
          "Example:\n  cubinary store fsck --store kernels.db\nExit status 1 when anything is "
          "damaged; one line names each.");

  CLI::App* gc =
      add_verb(cli, app, options, "gc", "Drop what no current build and no release needs", collect);
  gc->add_flag("--dry-run", options->dry_run, "only say what would go");
  gc->footer(
      "Example:\n  cubinary store gc --store kernels.db --dry-run\nCandidates no longer "
      "current go with their measurements; nothing a release holds ever does.");

  add_verb(cli, app, options, "stats", "Count what is in the store and what it takes", print_stats)
      ->footer("Example:\n  cubinary store stats --store kernels.db");
}

}  // namespace cubinary::cli
