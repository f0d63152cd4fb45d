// SPDX-License-Identifier: Apache-2.0
#include "cli/hydrate.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cli/fetch.hpp"
#include "cli/table.hpp"
#include "client/triton_hydrate.hpp"
#include "core/base/json.hpp"

namespace cubinary::cli {
namespace {

namespace fs = std::filesystem;
namespace json = core::json;
using core::ErrorCode;
using core::fail;
using core::Result;

struct HydrateArguments {
  SourceArguments source;
  std::string cache;
  std::string seen_at;
  std::vector<std::string> targets;
  std::string device_class;
  std::string python_abi;
  std::string triton;
  std::string machine;
  bool json = false;
};

Result<client::TritonFilter> filter_of(const HydrateArguments& arguments) {
  client::TritonFilter filter;
  for (const std::string& text : arguments.targets) {
    TRY_ASSIGN(const core::Target target, core::Target::parse(text));
    filter.targets.push_back(target);
  }
  if (!arguments.device_class.empty()) {
    TRY_ASSIGN(filter.device_class, core::DeviceClass::parse(arguments.device_class));
  }
  filter.python_abi = arguments.python_abi;
  filter.triton = arguments.triton;
  filter.machine = arguments.machine;
  if (filter.machine.empty()) {
    filter.machine = client::this_machine();
  }
  return filter;
}

void print_report(const client::Release& release, const client::HydrateReport& report,
                  double seconds) {
  Table table({"what", ">entries"});
  table.add_row({"kernels", std::to_string(report.kernels)});
  table.add_row({"host modules", std::to_string(report.host)});
  table.add_row({"autotune results", std::to_string(report.autotune)});
  std::fputs(table.text().c_str(), stdout);
  std::printf("\n%s: release %s, %s\n", report.folder.c_str(), release.name().c_str(),
              release.statement() ? "verified" : "NOT SIGNED, or not checked");
  if (report.files_written == 0) {
    std::printf("complete already, every byte checked: nothing written (%.2f s)\n", seconds);
  } else {
    std::printf("%zu files, %s written, %zu of %zu folders were there (%.2f s)\n",
                report.files_written, format_bytes(report.bytes_written).c_str(),
                report.folders_kept, report.folders_kept + report.folders_written, seconds);
  }
}

json::Value to_json(const client::Release& release, const client::HydrateReport& report,
                    double seconds) {
  json::Array notes;
  for (const std::string& note : report.notes) {
    notes.emplace_back(note);
  }
  return json::Object{{"release", release.name()},
                      {"index", release.index_digest().text()},
                      {"signed", release.statement().has_value()},
                      {"cache", report.folder.string()},
                      {"cache_index", report.index.hex()},
                      {"kernels", report.kernels},
                      {"host", report.host},
                      {"autotune", report.autotune},
                      {"autotune_class", report.autotune_class},
                      {"folders_written", report.folders_written},
                      {"folders_kept", report.folders_kept},
                      {"files_written", report.files_written},
                      {"bytes_written", report.bytes_written},
                      {"packs_received", report.packs_received},
                      {"bytes_received", report.bytes_received},
                      {"seconds", seconds},
                      {"notes", std::move(notes)}};
}

Result<int> run_hydrate(const HydrateArguments& arguments) {
  constexpr unsigned k_most_threads = 16;
  const auto begin = std::chrono::steady_clock::now();
  client::HydrateOptions options;
  TRY_ASSIGN(options.filter, filter_of(arguments));
  options.folder = arguments.cache.empty() ? triton_cache_folder() : fs::path(arguments.cache);
  if (options.folder.empty()) {
    return fail(ErrorCode::usage, "no cache folder: give --cache DIR, or set TRITON_CACHE_DIR");
  }
  options.seen_at = arguments.seen_at;
  if (!options.seen_at.empty() && !options.seen_at.is_absolute()) {
    return fail(ErrorCode::usage, "--seen-at " + arguments.seen_at + " is no absolute path");
  }
  options.source = arguments.source.source;
  options.width = std::clamp(std::thread::hardware_concurrency(), 4U, k_most_threads);

  const auto deadline = client::deadline_after(arguments.source.timeout_seconds);
  const auto cache = client::triton_document_cache(options.folder, print_warning);
  TRY_ASSIGN(const auto release, open_release(arguments.source, cache, deadline, true));
  TRY_ASSIGN(const client::HydrateReport report,
             client::hydrate_triton(*release, options, deadline));
  if (auto written = cache->flush(); !written) {
    print_warning("the release's documents could not be kept: " + written.error().message);
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  if (arguments.json) {
    std::printf("%s\n", json::to_text(to_json(*release, report, took.count())).c_str());
    return 0;
  }
  print_report(*release, report, took.count());
  std::fflush(stdout);
  for (const std::string& note : report.notes) {
    print_warning(note);
  }
  return 0;
}

}  // namespace

fs::path triton_cache_folder() {
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return value == nullptr ? fs::path() : fs::path(value);
  };
  if (const fs::path cache = variable("TRITON_CACHE_DIR"); !cache.empty()) {
    return cache;
  }
  for (const char* home : {"TRITON_HOME", "HOME"}) {
    if (const fs::path folder = variable(home); !folder.empty()) {
      return folder / ".triton" / "cache";
    }
  }
  return {};
}

std::function<Result<int>()> describe_hydrate(CLI::App& app) {
  const auto arguments = std::make_shared<HydrateArguments>();
  app.add_option(
         "SOURCE", arguments->source.source,
         "DIR[:TAG], http[s]://HOST[:PORT][/REPOSITORY][:TAG] or oci://HOST/REPOSITORY[:TAG]")
      ->required();
  describe_trust(app, arguments->source);
  app.add_option("--cache", arguments->cache,
                 "Triton's cache folder (default: TRITON_CACHE_DIR, ~/.triton/cache)");
  app.add_option("--seen-at", arguments->seen_at,
                 "where programs will see the folder, when it is mounted elsewhere");
  app.add_option("--target", arguments->targets, "only these targets (sm_90,sm_120)")
      ->delimiter(',');
  app.add_option("--device-class", arguments->device_class,
                 "only targets that run on it; its autotune results are laid where Triton looks");
  app.add_option("--python-abi", arguments->python_abi, "only for this Python (cp312)");
  app.add_option("--triton", arguments->triton, "only for this Triton (3.6.0)");
  app.add_option("--machine", arguments->machine, "only for this CPU (default: this machine's)");
  app.add_flag("--json", arguments->json, "print one JSON object");
  app.footer(
      "Example:\n  cubinary-fetch hydrate https://kernels.example.com:prod --key release.pub "
      "--cache /opt/triton-cache\nThen run the program with TRITON_CACHE_DIR=/opt/triton-cache "
      "(`cubinary triton env` prints what else helps).");
  return [arguments] { return run_hydrate(*arguments); };
}

}  // namespace cubinary::cli
