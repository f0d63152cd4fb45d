// SPDX-License-Identifier: Apache-2.0
#include "cli/release_reads.hpp"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "builder/release/diff.hpp"
#include "builder/release/release.hpp"
#include "builder/release/view.hpp"
#include "cli/table.hpp"
#include "core/base/json.hpp"
#include "store/store.hpp"

namespace cubinary::cli {
namespace {

namespace json = core::json;
using core::Result;

struct Options {
  std::string name;
  std::string other;
  std::string store;
  bool entries = false;
  bool json = false;
};

void print_json(const json::Value& value) {
  std::printf("%s\n", json::to_text(value).c_str());
}

std::string join(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) {
    text += (text.empty() ? "" : ", ") + word;
  }
  return text;
}

json::Array to_array(const std::vector<std::string>& items) {
  return json::Array(items.begin(), items.end());
}

json::Object to_json(const std::map<std::string, std::string>& map) {
  json::Object object;
  for (const auto& [key, value] : map) {
    object.emplace(key, value);
  }
  return object;
}

/// The values' own canonical JSON, as a value to put into another document.
template <typename T>
Result<json::Value> embed(const T& values) {
  return json::parse(core::to_json(values));
}

Result<store::Store> open_for_reading(const Options& options) {
  return store::Store::open(options.store, {store::Access::read, false, "cubinary release"});
}

json::Object to_json(const builder::ReleaseSummary& summary) {
  const store::Release& release = summary.release;
  return {{"name", release.name},
          {"serial", release.serial},
          {"index", release.index.text()},
          {"created", release.created},
          {"expires", release.expires},
          {"signed", release.signature_manifest.has_value()},
          {"channels", to_array(summary.channels)},
          {"targets", to_array(release.targets)},
          {"kernels", summary.kernels},
          {"bytes", summary.bytes}};
}

Result<int> list(const Options& options) {
  TRY_ASSIGN(const store::Store store, open_for_reading(options));
  TRY_ASSIGN(const store::Reader reader, store.reader());
  TRY_ASSIGN(const auto summaries, builder::summarise_all(reader));
  if (options.json) {
    json::Array array;
    for (const builder::ReleaseSummary& summary : summaries) {
      array.emplace_back(to_json(summary));
    }
    print_json(array);
    return 0;
  }
  if (summaries.empty()) {
    std::printf("no releases yet: make one with `cubinary release create NAME --store %s`\n",
                options.store.c_str());
    return 0;
  }
  Table table({"name", ">serial", "created", "expires", "signed", "channels", "targets", ">kernels",
               ">size"});
  for (const builder::ReleaseSummary& summary : summaries) {
    const store::Release& release = summary.release;
    table.add_row({release.name, std::to_string(release.serial), format_time(release.created),
                   format_time(release.expires), release.signature_manifest ? "yes" : "no",
                   join(summary.channels), join(release.targets), std::to_string(summary.kernels),
                   format_bytes(summary.bytes)});
  }
  std::fputs(table.text().c_str(), stdout);
  return 0;
}

Result<json::Value> to_json(const core::TableEntry& entry) {
  TRY_ASSIGN(json::Value types, embed(entry.types));
  TRY_ASSIGN(json::Value shape, embed(entry.shape));
  TRY_ASSIGN(json::Value config, embed(entry.config));
  json::Array symbols;
  for (const core::EntrySymbol& symbol : entry.symbols) {
    symbols.emplace_back(json::Object{{"symbol", symbol.symbol},
                                      {"max_threads", symbol.max_threads},
                                      {"registers", symbol.registers},
                                      {"static_smem", symbol.static_smem},
                                      {"spill_bytes", symbol.spill_bytes}});
  }
  json::Object object{{"types", std::move(types)},
                      {"shape", std::move(shape)},
                      {"config", std::move(config)},
                      {"device_class", entry.device_class},
                      {"origin", entry.origin == core::Origin::tuned ? "tuned" : "fallback"},
                      {"rank", entry.rank},
                      {"artifact", entry.artifact.text()},
                      {"size", entry.size},
                      {"symbols", std::move(symbols)},
                      {"provenance", to_json(entry.provenance)}};
  if (entry.time_us) {
    object.emplace("time_us", *entry.time_us);
  }
  if (entry.confidence) {
    object.emplace("confidence", *entry.confidence);
  }
  return object;
}

std::size_t count_tuned(const core::KernelTable& table) {
  return static_cast<std::size_t>(std::count_if(
      table.entries.begin(), table.entries.end(),
      [](const core::TableEntry& entry) { return entry.origin == core::Origin::tuned; }));
}

std::size_t count_artifacts(const core::KernelTable& table) {
  std::set<core::Digest> artifacts;
  for (const core::TableEntry& entry : table.entries) {
    artifacts.insert(entry.artifact);
  }
  return artifacts.size();
}

Result<json::Value> to_json(const builder::ReleasedTarget& target) {
  json::Array kernels;
  for (const core::KernelTable& table : target.catalogue.kernels) {
    json::Array entries;
    for (const core::TableEntry& entry : table.entries) {
      TRY_ASSIGN(json::Value value, to_json(entry));
      entries.push_back(std::move(value));
    }
    kernels.emplace_back(json::Object{{"name", table.name},
                                      {"summary", table.summary},
                                      {"interface", table.interface.text()},
                                      {"pack", table.pack.text()},
                                      {"pack_bytes", table.pack_size},
                                      {"raw_bytes", table.pack_raw_size},
                                      {"artifacts", count_artifacts(table)},
                                      {"tuned", count_tuned(table)},
                                      {"entries", std::move(entries)}});
  }
  return json::Object{{"target", target.catalogue.target.text()},
                      {"manifest", target.manifest_digest.text()},
                      {"toolkit", target.catalogue.toolkit.text()},
                      {"minimum_driver", target.catalogue.minimum_driver},
                      {"kernels", std::move(kernels)}};
}

void add_rows(Table& table, const builder::ReleasedTarget& target) {
  for (const core::KernelTable& kernel : target.catalogue.kernels) {
    const std::size_t tuned = count_tuned(kernel);
    table.add_row({target.catalogue.target.text(), kernel.name,
                   std::to_string(kernel.entries.size()), std::to_string(tuned),
                   std::to_string(kernel.entries.size() - tuned),
                   std::to_string(count_artifacts(kernel)), format_bytes(kernel.pack_raw_size),
                   format_bytes(kernel.pack_size), target.catalogue.toolkit.text(),
                   std::to_string(target.catalogue.minimum_driver)});
  }
}

void add_entry_rows(Table& table, const builder::ReleasedTarget& target) {
  for (const core::KernelTable& kernel : target.catalogue.kernels) {
    for (const core::TableEntry& entry : kernel.entries) {
      std::int64_t registers = 0;
      std::int64_t smem = 0;
      std::int64_t spills = 0;
      for (const core::EntrySymbol& symbol : entry.symbols) {
        registers = std::max(registers, symbol.registers);
        smem = std::max(smem, symbol.static_smem);
        spills += symbol.spill_bytes;
      }
      const bool tuned = entry.origin == core::Origin::tuned;
      char time[32] = "";
      if (entry.time_us) {
        std::snprintf(time, sizeof time, "%.2f", *entry.time_us);
      }
      table.add_row({target.catalogue.target.text(), kernel.name, core::to_display(entry.types),
                     core::to_display(entry.shape), tuned ? entry.device_class : "any",
                     core::to_display(entry.config),
                     tuned ? "tuned" : "default " + std::to_string(entry.rank), time,
                     std::to_string(registers), std::to_string(smem), std::to_string(spills),
                     format_bytes(entry.size)});
    }
  }
}

void print_head(const builder::ReleaseSummary& summary, const std::vector<std::string>& keys) {
  const store::Release& release = summary.release;
  std::printf("release  %s (serial %llu)\nindex    %s\ncreated  %s, expires %s\n",
              release.name.c_str(), static_cast<unsigned long long>(release.serial),
              release.index.text().c_str(), format_time(release.created).c_str(),
              format_time(release.expires).c_str());
  if (!summary.channels.empty()) {
    std::printf("channels %s\n", join(summary.channels).c_str());
  }
  std::printf("signed   %s\nsize     %s\n\n",
              keys.empty() ? "no: clients refuse it" : ("by key " + join(keys)).c_str(),
              format_bytes(summary.bytes).c_str());
}

Result<int> show(const Options& options) {
  TRY_ASSIGN(const store::Store store, open_for_reading(options));
  TRY_ASSIGN(const store::Reader reader, store.reader());
  TRY_ASSIGN(const store::Release release, builder::require_release(reader, options.name));
  TRY_ASSIGN(const auto summary, builder::summarise(reader, release));
  TRY_ASSIGN(const auto keys, builder::signing_keys(reader, release));

  json::Array targets;
  Table kernels({"target", "kernel", ">entries", ">tuned", ">untuned", ">artifacts", ">raw",
                 ">packed", ">toolkit", ">driver"});
  Table entries({"target", "kernel", "types", "shape", "device class", "config", "origin", ">us",
                 ">regs", ">smem", ">spills", ">cubin"});
  const auto visit = [&](const builder::ReleasedTarget& target) -> Result<void> {
    if (options.json) {
      TRY_ASSIGN(json::Value value, to_json(target));
      targets.push_back(std::move(value));
    } else {
      add_rows(kernels, target);
      if (options.entries) {
        add_entry_rows(entries, target);
      }
    }
    return {};
  };
  TRY(builder::for_each_target(reader, release, visit));

  if (options.json) {
    json::Object object = to_json(summary);
    object.insert_or_assign("targets", std::move(targets));
    object.insert_or_assign("key_ids", to_array(keys));
    print_json(object);
    return 0;
  }
  print_head(summary, keys);
  std::fputs(kernels.text().c_str(), stdout);
  if (options.entries) {
    std::printf("\n%s", entries.text().c_str());
  }
  return 0;
}

Result<int> diff(const Options& options) {
  TRY_ASSIGN(const store::Store store, open_for_reading(options));
  TRY_ASSIGN(const store::Reader reader, store.reader());
  TRY_ASSIGN(const auto changes, builder::diff_releases(reader, options.name, options.other));
  if (options.json) {
    json::Array array;
    for (const builder::ReleaseChange& change : changes) {
      array.emplace_back(json::Object{{"kind", builder::kind_name(change.kind)},
                                      {"target", change.target},
                                      {"kernel", change.kernel},
                                      {"entry", change.entry},
                                      {"what", change.what}});
    }
    print_json(array);
    return 0;
  }
  if (changes.empty()) {
    std::printf("%s and %s do the same\n", options.name.c_str(), options.other.c_str());
    return 0;
  }
  Table table({"", "target", "kernel", "entry", "what"});
  for (const builder::ReleaseChange& change : changes) {
    table.add_row({std::string(builder::kind_name(change.kind)), change.target, change.kernel,
                   change.entry, change.what});
  }
  std::fputs(table.text().c_str(), stdout);
  return 0;
}

}  // namespace

void add_release_reads(Cli& cli, CLI::App& release) {
  const auto add = [&](const std::string& name, const std::string& what, auto run) {
    auto options = std::make_shared<Options>();
    CLI::App* app = release.add_subcommand(name, what);
    app->add_option("--store", options->store, "store file; may be in use")->required();
    app->add_flag("--json", options->json, "JSON");
    app->callback([&cli, options, run] { cli.run = [options, run] { return run(*options); }; });
    return std::pair(app, options);
  };
  const auto [list_app, list_options] = add("list", "List all releases", list);
  list_app->footer("Example:\n  cubinary release list --store kernels.db");

  const auto [show_app, show_options] = add("show", "Show what a release holds", show);
  show_app->add_option("NAME", show_options->name, "release name")->required();
  show_app->add_flag("--entries", show_options->entries, "every entry: config, resources, time");
  show_app->footer("Example:\n  cubinary release show 2026.11 --entries --store kernels.db");

  const auto [diff_app, diff_options] = add("diff", "Say what changed between two releases", diff);
  diff_app->add_option("BEFORE", diff_options->name, "release name")->required();
  diff_app->add_option("AFTER", diff_options->other, "release name")->required();
  diff_app->footer("Example:\n  cubinary release diff 2026.10 2026.11 --store kernels.db");
}

}  // namespace cubinary::cli
