// SPDX-License-Identifier: Apache-2.0
#include "builder/fatbin/fatbin.hpp"

#include <algorithm>
#include <system_error>
#include <tuple>

#include <sys/wait.h>

#include "builder/compile/toolchain.hpp"
#include "builder/process/run_program.hpp"
#include "core/base/file.hpp"
#include "core/base/json.hpp"
#include "core/base/temporary_folder.hpp"
#include "core/wire/codec.hpp"

namespace cubinary::builder {

namespace fs = std::filesystem;
namespace json = core::json;
using core::ErrorCode;
using core::fail;
using core::Result;

namespace {

/// A kernel of the release: its table on each target.
using Tables = std::map<std::string, const core::KernelTable*>;

/// The fat binaries of one kernel, without file names.
std::vector<FatBinary> plan(const Tables& tables) {
  std::map<std::tuple<core::Types, core::Shape, core::Config>, FatBinary> by_config;
  for (const auto& [target, table] : tables) {
    for (const core::TableEntry& entry : table->entries) {
      core::Shape axes;
      for (const core::Axis& axis : table->axes) {
        if (const auto value = entry.shape.find(axis.name);
            axis.compile && value != entry.shape.end()) {
          axes.insert(*value);
        }
      }
      FatBinary& fat = by_config[{entry.types, axes, entry.config}];
      fat.kernel = table->name;
      fat.types = entry.types;
      fat.axes = axes;
      fat.configs = {entry.config};
      FatBinary::Image& image = fat.images[target];
      image.artifact = entry.artifact;
      image.symbols.clear();
      for (const core::EntrySymbol& symbol : entry.symbols) {
        image.symbols.push_back(symbol.symbol);
      }
    }
  }
  // Configs that differ in their launch only have the same code.
  const auto is_part = [](const FatBinary& one, const FatBinary& other) {
    return std::all_of(one.images.begin(), one.images.end(), [&](const auto& image) {
      const auto found = other.images.find(image.first);
      return found != other.images.end() && found->second.artifact == image.second.artifact;
    });
  };
  std::vector<FatBinary> all;
  std::vector<FatBinary> sorted;
  for (auto& [key, fat] : by_config) {
    sorted.push_back(std::move(fat));
  }
  std::sort(sorted.begin(), sorted.end(), [](const FatBinary& a, const FatBinary& b) {
    const std::size_t in_a = b.images.size();  // more targets first
    const std::size_t in_b = a.images.size();
    return std::tie(in_a, a.types, a.axes, a.configs.front()) <
           std::tie(in_b, b.types, b.axes, b.configs.front());
  });
  for (FatBinary& fat : sorted) {
    const auto whole = std::find_if(all.begin(), all.end(),
                                    [&](const FatBinary& other) { return is_part(fat, other); });
    if (whole == all.end()) {
      all.push_back(std::move(fat));
    } else {
      whole->configs.push_back(std::move(fat.configs.front()));
    }
  }
  return all;
}

/// `rmsnorm-bf16-128-3f2a90c1b7de.fatbin`: kernel, dtypes, compiled axes, and what tells codes
/// apart.
std::string file_name(const FatBinary& fat) {
  std::string name = fat.kernel;
  for (const auto& [type, dtype] : fat.types) {
    name += "-" + dtype;
  }
  for (const auto& [axis, value] : fat.axes) {
    name += "-" + std::to_string(value);
  }
  std::string parts;
  for (const auto& [target, image] : fat.images) {
    parts += target + image.artifact.text();
  }
  constexpr std::size_t k_digits = 12;
  return name + "-" + core::sha256(parts).hex().substr(0, k_digits) + ".fatbin";
}

Result<void> make_file(const fs::path& fatbinary, const FatBinary& fat, const fs::path& cubins,
                       const fs::path& file) {
  const fs::path made = cubins / "made.fatbin";
  std::vector<std::string> command{fatbinary.string(), "-64", "--create=" + made.string()};
  for (const auto& [target, image] : fat.images) {
    command.push_back("--image3=kind=elf,sm=" + target.substr(target.find('_') + 1) +
                      ",file=" + (cubins / image.artifact.hex()).string());
  }
  TRY_ASSIGN(const Ended ended, run_program(command));
  if (!WIFEXITED(ended.status) || WEXITSTATUS(ended.status) != 0) {
    return fail(ErrorCode::environment,
                fatbinary.string() + " could not pack " + fat.kernel + ": " +
                    (ended.output.empty() ? "it cannot be run" : ended.output));
  }
  constexpr std::uint64_t k_most = 1U << 30U;
  TRY_ASSIGN(const core::Bytes bytes, core::read_file(made, k_most));
  return core::write_file_atomic(file, bytes);
}

/// Each artifact of the kernel as a file named by its digest.
Result<void> unpack(const ReadBlob& read, const core::KernelTable& table, const fs::path& folder) {
  TRY_ASSIGN(const core::Bytes frame, read(table.pack, table.pack_size));
  core::DecompressOptions options;
  options.max_bytes = table.pack_raw_size;
  TRY_ASSIGN(const core::Bytes pack, core::decompress(frame, options));
  for (const core::TableEntry& entry : table.entries) {
    const fs::path file = folder / entry.artifact.hex();
    std::error_code missing;
    if (fs::exists(file, missing)) {
      continue;
    }
    // The catalogue was checked: offsets lie inside the pack.
    const core::ByteView cubin = core::ByteView(pack).subspan(entry.offset, entry.size);
    if (core::sha256(cubin) != entry.artifact) {
      return fail(ErrorCode::corrupt,
                  "the pack of " + table.name + " does not hold artifact " + entry.artifact.text());
    }
    TRY(core::write_file_atomic(file, cubin));
  }
  return {};
}

json::Value value_of(const std::string& text) {
  return *json::parse(text);
}

json::Value to_json(const FatBinary& fat) {
  json::Array configs;
  for (const core::Config& config : fat.configs) {
    configs.emplace_back(value_of(core::to_json(config)));
  }
  json::Object images;
  for (const auto& [target, image] : fat.images) {
    images.emplace(
        target, json::Object{{"artifact", image.artifact.text()},
                             {"symbols", json::Array(image.symbols.begin(), image.symbols.end())}});
  }
  return json::Object{{"file", fat.file},
                      {"kernel", fat.kernel},
                      {"types", value_of(core::to_json(fat.types))},
                      {"axes", value_of(core::to_json(fat.axes))},
                      {"configs", std::move(configs)},
                      {"images", std::move(images)}};
}

}  // namespace

Result<std::vector<FatBinary>> export_fatbins(const ReadBlob& read, const store::Release& release,
                                              const fs::path& directory, const fs::path& toolkit) {
  TRY_ASSIGN(const fs::path fatbinary, find_fatbinary(toolkit));
  std::vector<core::Catalogue> catalogues;
  TRY(for_each_target(read, release.index, [&](const ReleasedTarget& target) -> Result<void> {
    catalogues.push_back(target.catalogue);
    return {};
  }));
  std::map<std::string, Tables> kernels;
  for (const core::Catalogue& catalogue : catalogues) {
    for (const core::KernelTable& table : catalogue.kernels) {
      kernels[table.name].emplace(catalogue.target.text(), &table);
    }
  }
  if (kernels.empty()) {
    return fail(ErrorCode::not_found, "release " + release.name + " holds no kernels");
  }
  std::error_code error;
  fs::create_directories(directory, error);
  if (error) {
    return fail(core::errno_error("cannot make folder " + directory.string(), error.value()));
  }
  std::vector<FatBinary> all;
  json::Array listed;
  for (const auto& [name, tables] : kernels) {
    TRY_ASSIGN(const core::TemporaryFolder cubins,
               core::TemporaryFolder::make({}, "cubinary-fatbin-"));
    for (const auto& [target, table] : tables) {
      TRY(unpack(read, *table, cubins.path()));
    }
    for (FatBinary& fat : plan(tables)) {
      fat.file = file_name(fat);
      TRY(make_file(fatbinary, fat, cubins.path(), directory / fat.file));
      listed.emplace_back(to_json(fat));
      all.push_back(std::move(fat));
    }
  }
  const json::Object index{{"release", release.name},
                           {"index", release.index.text()},
                           {"fatbinaries", std::move(listed)}};
  TRY(core::write_file_atomic(directory / "fatbins.json",
                              core::as_bytes(json::to_text(index) + "\n")));
  return all;
}

}  // namespace cubinary::builder
