// SPDX-License-Identifier: Apache-2.0
#include "cli/release_reads.hpp"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>

#include "builder/release/release_json.hpp"
#include "cli/answer.hpp"
#include "cli/release_triton.hpp"
#include "cli/table.hpp"
#include "cli/verb.hpp"
#include "store/store.hpp"

namespace cubinary::cli {
namespace {

namespace json = core::json;
using core::Result;

struct Options : VerbOptions {
  std::string name;
  std::string other;
  bool entries = false;
};

Result<store::Store> open_for_reading(const Options& options) {
  return store::Store::open(options.choice.file, {store::Access::read, false, "cubinary release"});
}

std::string size_at(const json::Value& object, std::string_view key) {
  return format_bytes(static_cast<std::uint64_t>(integer_at(object, key)));
}

// --- list ---

Result<json::Value> get_releases(const Options& options) {
  if (options.choice.remote()) {
    TRY_ASSIGN(Remote remote, Remote::open(options.choice));
    return remote.get("/api/v1/releases");
  }
  TRY_ASSIGN(const store::Store store, open_for_reading(options));
  TRY_ASSIGN(const store::Reader reader, store.reader());
  TRY_ASSIGN(json::Array releases, builder::releases_json(reader));
  return json::Value(std::move(releases));
}

Result<int> list(const Options& options) {
  TRY_ASSIGN(const json::Value releases, get_releases(options));
  if (options.json) {
    print_json(releases);
    return 0;
  }
  if (array_of(releases).empty()) {
    std::printf("no releases yet: make one with `cubinary release create NAME`\n");
    return 0;
  }
  Table table({"name", ">serial", "created", "expires", "signed", "channels", "targets", ">kernels",
               ">size"});
  for (const json::Value& release : array_of(releases)) {
    table.add_row({text_at(release, "name"), std::to_string(integer_at(release, "serial")),
                   format_time(integer_at(release, "created")),
                   format_time(integer_at(release, "expires")),
                   flag_at(release, "signed") ? "yes" : "no", list_at(release, "channels"),
                   list_at(release, "targets"), std::to_string(integer_at(release, "kernels")),
                   size_at(release, "bytes")});
  }
  std::fputs(table.text().c_str(), stdout);
  return 0;
}

// --- show ---

Result<json::Value> get_release(const Options& options) {
  if (options.choice.remote()) {
    TRY_ASSIGN(Remote remote, Remote::open(options.choice));
    return remote.get("/api/v1/releases/" + encode(options.name));
  }
  TRY_ASSIGN(const store::Store store, open_for_reading(options));
  TRY_ASSIGN(const store::Reader reader, store.reader());
  TRY_ASSIGN(json::Object release, builder::release_json(reader, options.name));
  return json::Value(std::move(release));
}

void add_row(Table& table, const json::Value& target, const json::Value& kernel) {
  const auto entries = static_cast<std::int64_t>(array_at(kernel, "entries").size());
  const std::int64_t tuned = integer_at(kernel, "tuned");
  table.add_row({text_at(target, "target"), text_at(kernel, "name"), std::to_string(entries),
                 std::to_string(tuned), std::to_string(entries - tuned),
                 std::to_string(integer_at(kernel, "artifacts")), size_at(kernel, "raw_bytes"),
                 size_at(kernel, "pack_bytes"), text_at(target, "toolkit"),
                 std::to_string(integer_at(target, "minimum_driver"))});
}

void add_entry_row(Table& table, const json::Value& target, const json::Value& kernel,
                   const json::Value& entry) {
  std::int64_t registers = 0;
  std::int64_t smem = 0;
  std::int64_t spills = 0;
  for (const json::Value& symbol : array_at(entry, "symbols")) {
    registers = std::max(registers, integer_at(symbol, "registers"));
    smem = std::max(smem, integer_at(symbol, "static_smem"));
    spills += integer_at(symbol, "spill_bytes");
  }
  const bool tuned = text_at(entry, "origin") == "tuned";
  char time[32] = "";
  if (const double us = number_at(entry, "time_us"); us > 0) {
    std::snprintf(time, sizeof time, "%.2f", us);
  }
  table.add_row({text_at(target, "target"), text_at(kernel, "name"), display_at(entry, "types"),
                 display_at(entry, "shape"), tuned ? text_at(entry, "device_class") : "any",
                 display_at(entry, "config"),
                 tuned ? "tuned" : "default " + std::to_string(integer_at(entry, "rank")), time,
                 std::to_string(registers), std::to_string(smem), std::to_string(spills),
                 size_at(entry, "size")});
}

void print_head(const json::Value& release) {
  std::printf(
      "release  %s (serial %lld)\nindex    %s\ncreated  %s, expires %s\n",
      text_at(release, "name").c_str(), static_cast<long long>(integer_at(release, "serial")),
      text_at(release, "index").c_str(), format_time(integer_at(release, "created")).c_str(),
      format_time(integer_at(release, "expires")).c_str());
  if (const std::string channels = list_at(release, "channels"); !channels.empty()) {
    std::printf("channels %s\n", channels.c_str());
  }
  const std::string keys = list_at(release, "key_ids");
  std::printf("signed   %s\nsize     %s\n\n",
              keys.empty() ? "no: clients refuse it" : ("by key " + keys).c_str(),
              size_at(release, "bytes").c_str());
}

Result<void> add_triton(Table& table, const json::Value& target, bool entries) {
  const auto* members = target.get_if<json::Object>();
  const auto part = members == nullptr ? json::Object::const_iterator() : members->find("triton");
  if (members == nullptr || part == members->end()) {
    return {};
  }
  TRY_ASSIGN(const auto catalogue, core::triton_catalogue_from_json(json::to_text(part->second)));
  add_release_triton_rows(table, catalogue, entries);
  return {};
}

Result<int> show(const Options& options) {
  TRY_ASSIGN(const json::Value release, get_release(options));
  if (options.json) {
    print_json(release);
    return 0;
  }
  Table kernels({"target", "kernel", ">entries", ">tuned", ">untuned", ">artifacts", ">raw",
                 ">packed", ">toolkit", ">driver"});
  Table entries({"target", "kernel", "types", "shape", "device class", "config", "origin", ">us",
                 ">regs", ">smem", ">spills", ">cubin"});
  Table triton = release_triton_table(options.entries);
  for (const json::Value& target : array_at(release, "targets")) {
    for (const json::Value& kernel : array_at(target, "kernels")) {
      add_row(kernels, target, kernel);
      for (const json::Value& entry : array_at(kernel, "entries")) {
        add_entry_row(entries, target, kernel, entry);
      }
    }
    TRY(add_triton(triton, target, options.entries));
  }
  print_head(release);
  const char* before = "";
  const auto print = [&](const Table& table, bool wanted) {
    if (wanted && table.rows() > 0) {
      std::printf("%s%s", std::exchange(before, "\n"), table.text().c_str());
    }
  };
  print(kernels, true);
  print(entries, options.entries);
  print(triton, true);
  return 0;
}

// --- diff ---

Result<json::Value> get_changes(const Options& options) {
  if (options.choice.remote()) {
    TRY_ASSIGN(Remote remote, Remote::open(options.choice));
    return remote.get("/api/v1/releases/" + encode(options.other) + "/diff",
                      {{"since", options.name}});
  }
  TRY_ASSIGN(const store::Store store, open_for_reading(options));
  TRY_ASSIGN(const store::Reader reader, store.reader());
  TRY_ASSIGN(json::Array changes, builder::release_diff_json(reader, options.name, options.other));
  return json::Value(std::move(changes));
}

Result<int> diff(const Options& options) {
  TRY_ASSIGN(const json::Value changes, get_changes(options));
  if (options.json) {
    print_json(changes);
    return 0;
  }
  if (array_of(changes).empty()) {
    std::printf("%s and %s do the same\n", options.name.c_str(), options.other.c_str());
    return 0;
  }
  Table table({"", "target", "kernel", "entry", "what"});
  for (const json::Value& change : array_of(changes)) {
    table.add_row({text_at(change, "kind"), text_at(change, "target"), text_at(change, "kernel"),
                   text_at(change, "entry"), text_at(change, "what")});
  }
  std::fputs(table.text().c_str(), stdout);
  return 0;
}

}  // namespace

void add_release_reads(Cli& cli, CLI::App& release) {
  const auto listed = std::make_shared<Options>();
  add_verb(cli, release, listed, "list", "List all releases", list)
      ->footer("Example:\n  cubinary release list --store kernels.db");

  const auto shown = std::make_shared<Options>();
  CLI::App* show_app = add_verb(cli, release, shown, "show", "Show what a release holds", show);
  show_app->add_option("NAME", shown->name, "release name")->required();
  show_app->add_flag("--entries", shown->entries, "every entry: config, resources, time");
  show_app->footer("Example:\n  cubinary release show 2026.11 --entries --store kernels.db");

  const auto compared = std::make_shared<Options>();
  CLI::App* diff_app =
      add_verb(cli, release, compared, "diff", "Say what changed between two releases", diff);
  diff_app->add_option("BEFORE", compared->name, "release name")->required();
  diff_app->add_option("AFTER", compared->other, "release name")->required();
  diff_app->footer("Example:\n  cubinary release diff 2026.10 2026.11 --store kernels.db");
}

}  // namespace cubinary::cli
