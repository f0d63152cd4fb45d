// SPDX-License-Identifier: Apache-2.0
#include "core/manifest/keys.hpp"

#include <algorithm>

namespace cubinary::core {

std::span<const ManifestSection> manifest_sections() {
  static const std::vector<ManifestSection> sections = {
      {"root", {"manifest", "name",    "summary", "source", "sources",  "include", "flags",
                "backend",  "targets", "types",   "axes",   "tunables", "rules",   "entry",
                "launch",   "args",    "step",    "prefer", "check",    "measure"}},
      {"type", {"values", "macro", "spelling"}},
      {"axis", {"tune", "bucket", "compile", "macro"}},
      {"tunable", {"values", "default", "as", "macro", "flag"}},
      {"rules", {"let", "shapes", "require"}},
      {"launch", {"grid", "block", "smem", "cluster", "cooperative", "args"}},
      {"step", {"name", "entry", "grid", "block", "smem", "cluster", "cooperative", "args"}},
      {"argument",
       {"name", "in", "out", "inout", "scalar", "workspace", "bytes", "handle", "vector", "len",
        "is", "default", "nullable", "fill", "init", "align"}},
      {"check", {"reference", "prepare", "tolerance", "also"}},
      {"helper", {"source", "entry", "grid", "block", "smem", "cluster", "cooperative", "args"}},
      {"measure", {"cache", "bytes", "flops"}},
  };
  return sections;
}

const ManifestSection& manifest_section(std::string_view name) {
  return *std::ranges::find(manifest_sections(), name, &ManifestSection::name);
}

}  // namespace cubinary::core
