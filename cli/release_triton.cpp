// SPDX-License-Identifier: Apache-2.0
#include "cli/release_triton.hpp"

#include <map>
#include <string>
#include <tuple>

namespace cubinary::cli {
namespace {

std::string or_any(const std::string& text) {
  return text.empty() ? "any" : text;
}

/// Files of a release by digest, with their sizes.
std::map<core::Digest, std::uint64_t> sizes_of(const core::TritonCatalogue& catalogue) {
  std::map<core::Digest, std::uint64_t> sizes;
  for (const core::TritonPack& pack : catalogue.packs) {
    for (const core::TritonPack::File& file : pack.files) {
      sizes.emplace(file.digest, file.size);
    }
  }
  return sizes;
}

/// One line of the table.
struct Line {
  std::size_t entries = 0;
  std::size_t files = 0;
  std::uint64_t bytes = 0;
};
/// what, name, key or device class, origin.
using LineKey = std::tuple<std::string, std::string, std::string, core::TritonOrigin>;

}  // namespace

Table release_triton_table(bool entries) {
  return entries ? Table({"target", "what", "name", "key", "triton", "python", "machine", ">files",
                          ">size"})
                 : Table({"target", "what", "name", ">entries", "triton", "python", "machine",
                          ">files", ">size"});
}

void add_release_triton_rows(Table& table, const core::TritonCatalogue& catalogue, bool entries) {
  const auto sizes = sizes_of(catalogue);
  std::map<LineKey, Line> lines;
  const auto add = [&](const std::string& what, const std::string& name, const std::string& key,
                       const core::TritonOrigin& origin, const core::TritonFiles& files) {
    Line& line = lines[LineKey(what, name, entries ? key : "", origin)];
    ++line.entries;
    line.files += files.size();
    for (const auto& [file, digest] : files) {
      line.bytes += sizes.at(digest);
    }
  };
  for (const core::TritonKernel& kernel : catalogue.kernels) {
    add("kernel", kernel.name, kernel.key, kernel.origin, kernel.files);
  }
  for (const core::TritonHost& host : catalogue.host) {
    add("host module", host.name, host.source.empty() ? host.keys.front() : host.source,
        host.origin, {{host.file, host.digest}});
  }
  for (const core::TritonAutotune& result : catalogue.autotune) {
    add("autotune", result.device_class, result.key, result.origin, result.files);
  }
  for (const auto& [key, line] : lines) {
    const auto& [what, name, entry, origin] = key;
    table.add_row({catalogue.target.text(), what, name,
                   entries ? entry : std::to_string(line.entries), or_any(origin.triton),
                   or_any(origin.python_abi), or_any(origin.machine), std::to_string(line.files),
                   format_bytes(line.bytes)});
  }
}

}  // namespace cubinary::cli
