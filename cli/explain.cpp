// SPDX-License-Identifier: Apache-2.0
#include <charconv>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "cli/command.hpp"
#include "cli/fetch.hpp"
#include "cli/table.hpp"
#include "client/lookup.hpp"
#include "core/base/json.hpp"
#include "core/base/nearest.hpp"
#include "core/driver/driver.hpp"
#include "core/launch/launch.hpp"
#include "core/table/resolve.hpp"

namespace cubinary::cli {
namespace {

namespace json = core::json;
using core::ErrorCode;
using core::fail;
using core::Result;

struct Arguments {
  std::string kernel;
  std::vector<std::string> values;
  std::vector<std::string> alignments;
  SourceArguments source;
  std::string cache;
  std::string device_class;
  std::string require = "default";
  bool json = false;
};

struct Device {
  core::DeviceClass device_class;
  core::DeviceFacts facts;
  std::optional<int> cuda_version;
};

Result<Device> device_of(const Arguments& arguments) {
  Device device;
  if (!arguments.device_class.empty()) {
    TRY_ASSIGN(device.device_class, core::DeviceClass::parse(arguments.device_class));
    device.facts.sm_count = device.device_class.sm_count;
    return device;
  }
  auto driver = core::Driver::get();
  if (!driver) {
    return fail(ErrorCode::usage,
                "which device? Give --device-class; this machine's own cannot "
                "be asked (" +
                    driver.error().message + ")");
  }
  TRY_ASSIGN(const core::DeviceFactsRead read, core::read_device(**driver, 0));
  device.device_class = read.device_class;
  device.facts = read.facts;
  device.cuda_version = (*driver)->cuda_version;
  return device;
}

Result<std::pair<std::string, std::string>> split_pair(const std::string& text) {
  const auto equals = text.find('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == text.size()) {
    return fail(ErrorCode::usage, "\"" + text + "\" is not of the form name=value");
  }
  return std::pair{text.substr(0, equals), text.substr(equals + 1)};
}

Result<std::int64_t> integer_of(const std::string& name, const std::string& text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    return fail(ErrorCode::usage, name + "=" + text + ": not an integer");
  }
  return value;
}

/// Sorts `k=v…` into types and axes by what the kernel has.
Result<void> read_values(const Arguments& arguments, const core::KernelTable& table,
                         core::ResolveQuery& query) {
  std::vector<std::string> known;
  for (const auto& type : table.types) {
    known.push_back(type.name);
  }
  const std::size_t types = known.size();
  for (const auto& axis : table.axes) {
    known.push_back(axis.name);
  }
  for (const auto& text : arguments.values) {
    TRY_ASSIGN(const auto pair, split_pair(text));
    const auto& [name, value] = pair;
    const auto at = std::find(known.begin(), known.end(), name);
    if (at == known.end()) {
      return fail(ErrorCode::usage, "kernel " + table.name + " has no type or axis \"" + name +
                                        "\"" + core::did_you_mean(name, known));
    }
    if (static_cast<std::size_t>(at - known.begin()) < types) {
      query.types.insert_or_assign(name, value);
    } else {
      TRY_ASSIGN(const std::int64_t number, integer_of(name, value));
      query.shape.insert_or_assign(name, number);
    }
  }
  for (const auto& text : arguments.alignments) {
    TRY_ASSIGN(const auto pair, split_pair(text));
    TRY_ASSIGN(const std::int64_t number, integer_of(pair.first, pair.second));
    query.alignments.insert_or_assign(pair.first, number);
  }
  return {};
}

std::string number_text(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", value);
  return text;
}

void print_trace(const std::vector<core::ResolveTrace>& trace) {
  Table table({"", "match", "target", "config", "tuned on", ">shape away", ">class away",
               ">time us", "why"});
  for (const auto& step : trace) {
    table.add_row(
        {step.accepted ? "*" : " ", std::string(core::match_name(step.match)), step.target.text(),
         core::to_display(step.entry->config), step.entry->device_class,
         number_text(step.shape_distance), number_text(step.class_distance),
         step.entry->time_us ? number_text(*step.entry->time_us) : std::string(), step.reason});
  }
  std::printf("%s", table.text().c_str());
}

std::string dimensions(const std::array<std::uint32_t, 3>& size) {
  return std::to_string(size[0]) + " x " + std::to_string(size[1]) + " x " +
         std::to_string(size[2]);
}

void print_plan(const core::Choice& choice) {
  std::printf("artifact   %s, %s\n", choice.entry->artifact.text().c_str(),
              format_bytes(choice.entry->size).c_str());
  for (const auto& step : choice.plan.steps) {
    std::printf("launch     %s: grid %s, block %s, %u bytes of dynamic shared memory%s\n",
                choice.table->steps.at(step.step).name.c_str(), dimensions(step.grid).c_str(),
                dimensions(step.block).c_str(), step.dynamic_smem,
                step.empty ? " (empty: not launched)" : "");
  }
  if (choice.plan.workspace_bytes != 0) {
    std::printf("workspace  %s\n", format_bytes(choice.plan.workspace_bytes).c_str());
  }
  std::string arguments;
  for (const auto& argument : choice.plan.arguments) {
    arguments += (arguments.empty() ? "" : ", ") + argument.name +
                 (argument.dtype.empty() ? "" : " " + argument.dtype) +
                 (argument.buffer_bytes != 0 ? "[]" : "");
  }
  std::printf("arguments  %s\ninterface  %s\n", arguments.c_str(),
              choice.table->interface.text().c_str());
}

json::Value to_json(const core::Choice& choice) {
  json::Array trace;
  for (const auto& step : choice.trace) {
    trace.emplace_back(json::Object{{"match", core::match_name(step.match)},
                                    {"target", step.target.text()},
                                    {"config", core::to_display(step.entry->config)},
                                    {"device_class", step.entry->device_class},
                                    {"shape_distance", step.shape_distance},
                                    {"class_distance", step.class_distance},
                                    {"accepted", step.accepted},
                                    {"reason", step.reason}});
  }
  json::Array steps;
  for (const auto& step : choice.plan.steps) {
    steps.emplace_back(
        json::Object{{"name", choice.table->steps.at(step.step).name},
                     {"grid", json::Array{step.grid[0], step.grid[1], step.grid[2]}},
                     {"block", json::Array{step.block[0], step.block[1], step.block[2]}},
                     {"dynamic_smem", step.dynamic_smem},
                     {"empty", step.empty}});
  }
  return json::Object{{"kernel", choice.table->name},
                      {"target", choice.target.text()},
                      {"match", core::match_name(choice.match)},
                      {"how", choice.how},
                      {"config", core::to_display(choice.entry->config)},
                      {"artifact", choice.entry->artifact.text()},
                      {"interface", choice.table->interface.text()},
                      {"steps", std::move(steps)},
                      {"workspace_bytes", choice.plan.workspace_bytes},
                      {"trace", std::move(trace)}};
}

Result<int> run_explain(const Arguments& arguments) {
  TRY_ASSIGN(const Device device, device_of(arguments));
  TRY_ASSIGN(const core::Match require, core::parse_match(arguments.require));
  const auto deadline = client::deadline_after(arguments.source.timeout_seconds);
  auto cache = std::make_shared<client::Cache>(client::Cache::Options{
      .directory = arguments.cache.empty() ? client::Cache::default_directory()
                                           : std::filesystem::path(arguments.cache),
      .log = print_warning});
  SourceArguments source = arguments.source;
  if (source.keys.empty()) {
    // It loads nothing, so that looking needs no key; the answer says that nobody vouches for it.
    source.allow_unsigned = true;
  }
  TRY_ASSIGN(const auto release, open_release(source, cache, deadline, false));
  TRY_ASSIGN(const client::KernelTables tables,
             client::find_kernel(*release,
                                 {.kernel = arguments.kernel,
                                  .capability = device.device_class.capability,
                                  .cuda_version = device.cuda_version,
                                  .interface_digest = std::nullopt},
                                 deadline));
  core::ResolveQuery query;
  query.device = device.device_class;
  query.facts = device.facts;
  query.require = require;
  TRY(read_values(arguments, *tables.tables.front().table, query));
  TRY_ASSIGN(const core::Choice choice, core::resolve(tables.tables, query, true));
  if (arguments.json) {
    std::printf("%s\n", json::to_text(to_json(choice)).c_str());
    return 0;
  }
  std::printf("kernel     %s of release %s%s\n", choice.table->name.c_str(),
              release->name().c_str(),
              release->statement() ? "" : " (signature not checked: no --key)");
  std::printf("device     %s\n", device.device_class.text().c_str());
  std::printf("chosen     %s: %s\n", std::string(core::match_name(choice.match)).c_str(),
              choice.how.c_str());
  std::printf("config     %s on %s\n", core::to_display(choice.entry->config).c_str(),
              choice.target.text().c_str());
  print_plan(choice);
  std::printf("\n");
  print_trace(choice.trace);
  return 0;
}

}  // namespace

void add_explain(Cli& cli) {
  CLI::App* app = cli.app.add_subcommand(
      "explain", "Show which config a client would get for a shape and device, and why");
  const auto arguments = std::make_shared<Arguments>();
  app->add_option("KERNEL", arguments->kernel, "kernel's name")->required();
  app->add_option("VALUES", arguments->values, "types and axes: T=bf16 rows=4096 cols=1024");
  app->add_option("--source", arguments->source.source, "where the release is")
      ->required()
      ->envname("CUBINARY_SOURCE");
  app->add_option("--align", arguments->alignments,
                  "alignment of pointers in bytes: x=16,y=16 (default: of their element)")
      ->delimiter(',');
  app->add_option("--device-class", arguments->device_class,
                  "device class to resolve for (default: this machine's GPU)");
  app->add_option("--require", arguments->require,
                  "loosest answer to take: exact, nearest-shape, other-class or default");
  app->add_option("--cache", arguments->cache, "cache folder");
  app->add_flag("--offline", arguments->source.offline, "touch no network");
  describe_trust(*app, arguments->source);
  app->add_flag("--json", arguments->json, "print one JSON object");
  app->footer(
      "Example:\n  cubinary explain rmsnorm T=bf16 rows=4096 cols=1024 --source ./layout:v1 "
      "--device-class sm90-s132-l50M-b5120-m144G");
  app->callback([&cli, arguments] { cli.run = [arguments] { return run_explain(*arguments); }; });
}

}  // namespace cubinary::cli
