// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/digest.hpp"
#include "core/base/result.hpp"
#include "core/manifest/manifest.hpp"
#include "core/model/target.hpp"
#include "core/model/values.hpp"

namespace cubinary::core {

/// Why an entry's config is in the table.
enum class Origin : std::uint8_t {
  fallback,  ///< the manifest's default or `prefer` config: nobody measured it
  tuned,     ///< won on the entry's device class
};

/// One launch's compiled function in an artifact.
struct EntrySymbol {
  std::string symbol;            ///< mangled name for cuModuleGetFunction
  std::int64_t max_threads = 0;  ///< a block of this function may have, as compiled
  std::int64_t registers = 0;
  std::int64_t static_smem = 0;  ///< bytes
  std::int64_t spill_bytes = 0;  ///< stores + loads
};

/// One way to run the kernel: a config, the artifact that holds its code, and what it is good for.
struct TableEntry {
  Types types;
  Shape shape;               ///< compile axes always; all axes when tuned
  std::string device_class;  ///< empty: any device the target runs on
  Config config;             ///< all tunables
  Origin origin = Origin::fallback;
  int rank = 0;  ///< order among fallbacks: lower is tried first
  Digest artifact;
  std::uint64_t offset = 0;  ///< in the unpacked pack
  std::uint64_t size = 0;
  std::vector<EntrySymbol> symbols;               ///< one a step
  std::optional<double> time_us;                  ///< median, when measured
  std::optional<double> confidence;               ///< half width of the interval / median
  std::map<std::string, std::string> provenance;  ///< toolkit, backend, build key, driver, …
};

/// Everything a client needs to choose and launch one kernel on one target.
///
/// The launch part is the manifest's own, as text: expressions are parsed again by the reader.
struct KernelTable {
  std::string name;
  std::string summary;
  Digest interface;
  std::vector<TypeParameter> types;
  std::vector<Axis> axes;
  std::vector<std::pair<std::string, LocatedExpression>> lets;
  std::vector<LocatedExpression> rules;
  std::vector<Argument> arguments;
  std::vector<Step> steps;          ///< `entry` kept for people
  std::vector<TableEntry> entries;  ///< sorted: types, shape, device class, rank, config

  Digest pack;                      ///< the zstd frame's digest
  std::uint64_t pack_size = 0;      ///< of the frame
  std::uint64_t pack_raw_size = 0;  ///< unpacked
};

/// One target's kernel tables: the config blob of an OCI manifest.
struct Catalogue {
  std::string release;
  Target target;
  ToolkitVersion toolkit;            ///< newest toolkit that made any artifact
  int minimum_driver = 0;            ///< lowest driver branch that loads every artifact
  std::vector<KernelTable> kernels;  ///< sorted by name
};

/// The launch part of a table (no entries, no pack) from a manifest.
[[nodiscard]] KernelTable table_from_manifest(const Manifest& manifest);

/// schema/catalogue.schema.json is normative; the JSON is compact with sorted keys, so that equal
/// catalogues are equal bytes.
[[nodiscard]] std::string catalogue_to_json(const Catalogue& catalogue);
/// Checks everything a hostile but well-signed-looking catalogue could break: expressions parse and
/// use only known names, indices and offsets lie inside the pack, entries name every type, axis,
/// tunable and step, the interface is the digest of the arguments.
/// Errors are `corrupt`, or `newer_format` for a later version.
[[nodiscard]] Result<Catalogue> catalogue_from_json(std::string_view json);

/// One table alone, as the catalogue holds it: what the store and the server's resolve keep.
[[nodiscard]] std::string table_to_json(const KernelTable& table);
[[nodiscard]] Result<KernelTable> table_from_json(std::string_view json);

}  // namespace cubinary::core
