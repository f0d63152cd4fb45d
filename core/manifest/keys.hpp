// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

/// Inside of the manifest room: every key a manifest may hold, in one place.
namespace cubinary::core {

/// A kind of table with fixed keys; named as in schema/manifest.schema.json ("root": the file).
struct ManifestSection {
  std::string_view name;
  std::vector<std::string> keys;
};

[[nodiscard]] std::span<const ManifestSection> manifest_sections();
/// The section of that name, which must exist.
[[nodiscard]] const ManifestSection& manifest_section(std::string_view name);

}  // namespace cubinary::core
