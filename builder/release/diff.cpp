// SPDX-License-Identifier: Apache-2.0
#include "builder/release/diff.hpp"

#include <array>
#include <cstdio>
#include <map>
#include <tuple>
#include <utility>

#include "builder/release/release.hpp"
#include "builder/release/view.hpp"

namespace cubinary::builder {
namespace {

using core::Result;
using Kind = ReleaseChange::Kind;

/// What a table entry answers: types, shape, device class, rank.
using EntryKey = std::tuple<core::Types, core::Shape, std::string, int>;
/// A release's entries are kept without their launch part: one table's is compared as text and
/// dropped.
struct Kernel {
  core::Digest interface;
  core::Digest launch;  ///< of the table without entries and pack
  std::map<EntryKey, core::TableEntry> entries;
};
/// What Triton finds under a key: the digest of its files and, of a kernel, its name.
struct TritonThing {
  std::string name;
  std::string sort;  ///< "triton kernel"
  core::Digest content;
};
struct TargetContent {
  std::map<std::string, Kernel> kernels;
  std::map<std::string, TritonThing> triton;  ///< by sort and key
};
using Contents = std::map<std::string, TargetContent>;  // by target

core::Digest digest_of(const core::TritonFiles& files) {
  core::Hasher hasher;
  for (const auto& [name, digest] : files) {
    hasher.field(name).update(digest.raw());
  }
  return hasher.finish();
}

std::map<std::string, TritonThing> triton_things(const core::TritonCatalogue& catalogue) {
  std::map<std::string, TritonThing> things;
  for (const core::TritonKernel& kernel : catalogue.kernels) {
    things.emplace("kernel " + kernel.key,
                   TritonThing{kernel.name, "triton kernel", digest_of(kernel.files)});
  }
  for (const core::TritonHost& host : catalogue.host) {
    const std::string key = host.source.empty() ? host.keys.front() : host.source;
    things.emplace(
        "host " + key + " " + host.origin.python_abi + " " + host.origin.machine + " " + host.file,
        TritonThing{host.name, "triton host module", host.digest});
  }
  for (const core::TritonAutotune& result : catalogue.autotune) {
    things.emplace("autotune " + result.device_class + " " + result.key,
                   TritonThing{result.files.begin()->first, "triton autotune result",
                               digest_of(result.files)});
  }
  return things;
}

Result<Contents> read_contents(const store::Reader& reader, std::string_view name) {
  TRY_ASSIGN(const store::Release release, require_release(reader, name));
  Contents contents;
  const auto visit = [&](const ReleasedTarget& target) -> Result<void> {
    TargetContent& content = contents[target.catalogue.target.text()];
    if (target.triton) {
      content.triton = triton_things(*target.triton);
    }
    for (const core::KernelTable& table : target.catalogue.kernels) {
      Kernel& kernel = content.kernels[table.name];
      kernel.interface = table.interface;
      core::KernelTable launch = table;
      launch.entries.clear();
      launch.pack = core::Digest();
      launch.pack_size = 0;
      launch.pack_raw_size = 0;
      kernel.launch = core::sha256(core::table_to_json(launch));
      for (const core::TableEntry& entry : table.entries) {
        kernel.entries.emplace(EntryKey(entry.types, entry.shape, entry.device_class, entry.rank),
                               entry);
      }
    }
    return {};
  };
  TRY(for_each_target(reader, release, visit));
  return contents;
}

std::string describe(const core::TableEntry& entry) {
  std::string text = core::to_display(entry.types);
  if (!entry.shape.empty()) {
    text += " " + core::to_display(entry.shape);
  }
  return text + (entry.device_class.empty() ? " default " + std::to_string(entry.rank)
                                            : " " + entry.device_class);
}

std::string time_text(const core::TableEntry& entry) {
  if (!entry.time_us) {
    return "not measured";
  }
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.3f us", *entry.time_us);
  return text.data();
}

std::string what_changed(const core::TableEntry& before, const core::TableEntry& after) {
  std::string what;
  const auto add = [&](const std::string& part) { what += (what.empty() ? "" : "; ") + part; };
  if (before.config != after.config) {
    add("config " + core::to_display(before.config) + " -> " + core::to_display(after.config));
  }
  if (before.artifact != after.artifact && before.config == after.config) {
    constexpr std::size_t k_short = 12;
    add("artifact " + before.artifact.hex().substr(0, k_short) + " -> " +
        after.artifact.hex().substr(0, k_short));
  }
  if (before.time_us != after.time_us) {
    add("time " + time_text(before) + " -> " + time_text(after));
  }
  return what;
}

/// Walks two ordered maps side by side: `only` for what one has, `both` for what both have.
template <typename Map, typename Only, typename Both>
void walk(const Map& before, const Map& after, const Only& only, const Both& both) {
  auto a = before.begin();
  auto b = after.begin();
  while (a != before.end() || b != after.end()) {
    if (b == after.end() || (a != before.end() && a->first < b->first)) {
      only(Kind::removed, *a++);
    } else if (a == before.end() || b->first < a->first) {
      only(Kind::added, *b++);
    } else {
      both(a->first, a->second, b->second);
      ++a;
      ++b;
    }
  }
}

}  // namespace

std::string_view kind_name(Kind kind) {
  constexpr std::array<std::string_view, 3> k_names = {"added", "removed", "changed"};
  return k_names.at(static_cast<std::size_t>(kind));
}

Result<std::vector<ReleaseChange>> diff_releases(const store::Reader& reader,
                                                 std::string_view before, std::string_view after) {
  TRY_ASSIGN(const Contents from, read_contents(reader, before));
  TRY_ASSIGN(const Contents to, read_contents(reader, after));
  std::vector<ReleaseChange> changes;

  const auto compare_kernels = [&](const std::string& target, const std::string& name,
                                   const Kernel& a, const Kernel& b) {
    if (a.interface != b.interface) {
      changes.push_back(
          {Kind::changed, target, name, "", "interface: programs must be compiled again"});
    } else if (a.launch != b.launch) {
      changes.push_back({Kind::changed, target, name, "", "rules or launch expressions"});
    }
    walk(
        a.entries, b.entries,
        [&](Kind kind, const auto& item) {
          changes.push_back(
              {kind, target, name, describe(item.second), core::to_display(item.second.config)});
        },
        [&](const EntryKey&, const core::TableEntry& x, const core::TableEntry& y) {
          if (std::string what = what_changed(x, y); !what.empty()) {
            changes.push_back({Kind::changed, target, name, describe(y), std::move(what)});
          }
        });
  };
  const auto compare_triton = [&](const std::string& target, const TargetContent& a,
                                  const TargetContent& b) {
    walk(
        a.triton, b.triton,
        [&](Kind kind, const auto& item) {
          changes.push_back({kind, target, item.second.name, item.second.sort,
                             item.first.substr(item.first.find(' ') + 1)});
        },
        [&](const std::string& key, const TritonThing& x, const TritonThing& y) {
          if (x.content != y.content) {
            changes.push_back({Kind::changed, target, y.name, y.sort,
                               "other content under " + key.substr(key.find(' ') + 1)});
          }
        });
  };
  walk(
      from, to,
      [&](Kind kind, const auto& item) {
        const std::size_t kernels = item.second.kernels.size();
        const std::size_t triton = item.second.triton.size();
        changes.push_back({kind, item.first, "", "",
                           std::to_string(kernels) + (kernels == 1 ? " kernel" : " kernels") +
                               (triton == 0 ? "" : ", " + std::to_string(triton) + " of Triton")});
      },
      [&](const std::string& target, const TargetContent& a, const TargetContent& b) {
        compare_triton(target, a, b);
        walk(
            a.kernels, b.kernels,
            [&](Kind kind, const auto& item) {
              changes.push_back({kind, target, item.first, "",
                                 std::to_string(item.second.entries.size()) +
                                     (item.second.entries.size() == 1 ? " entry" : " entries")});
            },
            [&](const std::string& name, const Kernel& x, const Kernel& y) {
              compare_kernels(target, name, x, y);
            });
      });
  return changes;
}

}  // namespace cubinary::builder
