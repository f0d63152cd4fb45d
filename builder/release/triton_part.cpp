// SPDX-License-Identifier: Apache-2.0
#include "builder/release/triton_part.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

#include <fnmatch.h>

#include "builder/inspect/inspect.hpp"
#include "builder/release/packer.hpp"
#include "core/model/device_class.hpp"
#include "store/artifacts.hpp"
#include "store/triton.hpp"

namespace cubinary::builder {
namespace {

using core::ErrorCode;
using core::fail;
using core::Result;

/// Intermediate code is text and plenty: beyond this, seconds buy hardly any bytes.
constexpr int k_level = 15;
/// A pack is unpacked in one piece.
constexpr std::uint64_t k_max_raw = 64U << 20U;
constexpr std::string_view k_autotune_ending = ".autotune.json";

bool matches(const std::string& glob, std::string_view name) {
  return glob.empty() || ::fnmatch(glob.c_str(), std::string(name).c_str(), 0) == 0;
}

/// Files that are fetched together.
using GroupKey = std::tuple<core::TritonOrigin, std::string>;
/// By ending and digest: files of a sort beside each other compress better.
using FileKey = std::pair<std::string, core::Digest>;

std::string ending_of(std::string_view name) {
  const std::size_t dot = name.rfind('.');
  return std::string(dot == std::string_view::npos ? name : name.substr(dot));
}

/// Which file goes into which pack.
class Grouping {
 public:
  void add(const core::TritonOrigin& origin, const std::string& name,
           const core::TritonFiles& files) {
    for (const auto& [file, digest] : files) {
      if (m_placed.insert(digest).second) {
        m_groups[GroupKey(origin, name)].emplace(ending_of(file), digest);
      }
    }
  }
  [[nodiscard]] const std::map<GroupKey, std::set<FileKey>>& groups() const { return m_groups; }
  [[nodiscard]] const std::set<core::Digest>& files() const { return m_placed; }

 private:
  std::map<GroupKey, std::set<FileKey>> m_groups;
  std::set<core::Digest> m_placed;
};

Result<void> note_cubin(TritonLayers& layers, const core::Target& target, core::ByteView bytes) {
  // Only from ABI 8, CUDA 13, on does a cubin name its compiler.
  constexpr int k_unnamed = 12;
  TRY_ASSIGN(const CubinInfo info, inspect_cubin(bytes));
  const core::ToolkitVersion toolkit{info.compiler.empty() ? k_unnamed : k_unnamed + 1, 0};
  layers.toolkit = std::max(layers.toolkit, toolkit);
  layers.minimum_driver = std::max(layers.minimum_driver, core::minimum_driver(toolkit, target));
  return {};
}

}  // namespace

Result<std::set<std::string>> triton_kernel_names(const store::Reader& reader) {
  TRY_ASSIGN(const auto kernels, store::list_triton_kernels(reader));
  std::set<std::string> names;
  for (const auto& stored : kernels) {
    names.insert(stored.kernel.name);
  }
  return names;
}

Result<std::map<std::string, TritonSelection>> select_triton(const store::Reader& reader,
                                                             const std::string& glob) {
  store::TritonEntries entries;
  TRY_ASSIGN(entries.kernels, store::list_triton_kernels(reader));
  TRY_ASSIGN(entries.host, store::list_triton_host(reader));
  TRY_ASSIGN(entries.autotune, store::list_triton_autotune(reader));
  return select_triton(std::move(entries), glob);
}

Result<std::map<std::string, TritonSelection>> select_triton(store::TritonEntries entries,
                                                             const std::string& glob) {
  std::map<std::string, TritonSelection> targets;
  std::map<std::string, std::set<core::TritonOrigin>> origins;
  for (auto& stored : entries.kernels) {
    if (matches(glob, stored.kernel.name)) {
      origins[stored.target].insert(stored.kernel.origin);
      targets[stored.target].kernels.push_back(std::move(stored.kernel));
    }
  }
  for (auto& [name, selection] : targets) {
    TRY_ASSIGN(const core::Target target, core::Target::parse(name));
    const auto& wanted = origins.at(name);
    const auto serves = [&](const core::TritonOrigin& origin) {
      return std::ranges::any_of(wanted, [&](const core::TritonOrigin& kernel) {
        const auto agree = [](const std::string& a, const std::string& b) {
          return a.empty() || b.empty() || a == b;
        };
        return agree(kernel.triton, origin.triton) && agree(kernel.python_abi, origin.python_abi) &&
               agree(kernel.machine, origin.machine);
      });
    };
    for (const core::TritonHost& host : entries.host) {
      if (serves(host.origin)) {
        selection.host.push_back(host);
      }
    }
    for (const core::TritonAutotune& result : entries.autotune) {
      TRY_ASSIGN(const core::DeviceClass device, core::DeviceClass::parse(result.device_class));
      const bool named = std::ranges::any_of(result.files, [&](const auto& file) {
        return matches(
            glob,
            std::string_view(file.first).substr(0, file.first.size() - k_autotune_ending.size()));
      });
      if (device.capability == target.capability() && named && serves(result.origin)) {
        selection.autotune.push_back(result);
      }
    }
  }
  return targets;
}

Result<TritonLayers> freeze_triton(const store::Reader& reader, TritonSelection selection,
                                   const std::string& release, const core::Target& target,
                                   const PutBlob& put) {
  Grouping grouping;
  // Shared by targets, so placed first: the same packs come out for each of them.
  for (const core::TritonHost& host : selection.host) {
    grouping.add(host.origin, "", {{host.file, host.digest}});
  }
  for (const core::TritonAutotune& result : selection.autotune) {
    grouping.add({}, "", result.files);
  }
  for (const core::TritonKernel& kernel : selection.kernels) {
    grouping.add(kernel.origin, kernel.name, kernel.files);
  }

  TritonLayers layers;
  core::TritonCatalogue catalogue{release, target, {}, {}, {}, {}};
  layers.layers.emplace_back();  // the catalogue's, known at the end
  Packer packer(k_level);
  const auto add = [&](core::TritonPack pack, core::Bytes raw) -> Result<void> {
    if (pack.files.empty()) {
      return {};
    }
    pack.raw_size = raw.size();
    layers.raw_bytes += raw.size();
    return packer.add(
        std::move(raw),
        [&, pack = std::move(pack)](const core::Bytes& frame) mutable -> Result<void> {
          TRY_ASSIGN(core::oci::Descriptor layer, put(core::k_triton_pack_type, frame));
          pack.digest = layer.digest;
          pack.size = layer.size;
          layers.pack_bytes += layer.size;
          layers.layers.push_back(std::move(layer));
          catalogue.packs.push_back(std::move(pack));
          return {};
        });
  };
  for (const auto& [key, files] : grouping.groups()) {
    core::TritonPack pack;
    core::Bytes raw;
    for (const auto& [ending, digest] : files) {
      TRY_ASSIGN(const core::Bytes bytes, store::read_artifact(reader, digest));
      if (ending == ".cubin") {
        TRY(note_cubin(layers, target, bytes));
      }
      if (raw.size() + bytes.size() > k_max_raw && !raw.empty()) {
        TRY(add(std::exchange(pack, {}), std::exchange(raw, {})));
      }
      raw.insert(raw.end(), bytes.begin(), bytes.end());
      pack.files.push_back({digest, bytes.size()});
    }
    TRY(add(std::move(pack), std::move(raw)));
  }
  TRY(packer.finish());
  layers.artifacts = grouping.files();

  catalogue.kernels = std::move(selection.kernels);
  catalogue.host = std::move(selection.host);
  catalogue.autotune = std::move(selection.autotune);
  const std::string json = core::triton_catalogue_to_json(catalogue);
  if (json.size() > core::k_max_triton_catalogue_bytes) {
    return fail(ErrorCode::too_large, target.text() + ": the Triton catalogue has " +
                                          std::to_string(json.size()) +
                                          " bytes and clients take at most " +
                                          std::to_string(core::k_max_triton_catalogue_bytes) +
                                          "; release fewer kernels at once (--kernel)");
  }
  // What clients would refuse must never be frozen, so it is read here as they will.
  if (const auto read = core::triton_catalogue_from_json(json); !read) {
    return fail(read.error().with_context("the Triton catalogue for " + target.text() +
                                          " would not be accepted by clients"));
  }
  TRY_ASSIGN(layers.layers.front(), put(core::k_triton_catalogue_type, core::as_bytes(json)));
  return layers;
}

}  // namespace cubinary::builder
