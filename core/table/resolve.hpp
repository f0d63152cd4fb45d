// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.hpp"
#include "core/launch/launch.hpp"
#include "core/model/device_class.hpp"
#include "core/model/target.hpp"
#include "core/table/kernel_table.hpp"

namespace cubinary::core {

/// How far from the ideal an answer is; in order, so that a `require` level is a bound.
enum class Match : std::uint8_t {
  exact,          ///< this device class, this very shape
  nearest_shape,  ///< this device class, the nearest tuned shape
  other_class,    ///< same target, the nearest device class, its nearest shape
  fallback,       ///< the manifest's own choice, never measured
};
/// `exact nearest-shape other-class default`.
[[nodiscard]] std::string_view match_name(Match match);
[[nodiscard]] Result<Match> parse_match(std::string_view name);

struct ResolveQuery {
  Types types;
  Shape shape;  ///< every axis of the kernel, ≥ 0
  Alignments alignments;
  DeviceClass device;
  DeviceFacts facts;
  Match require = Match::fallback;  ///< the loosest answer the caller accepts
};

/// A kernel's table for one target the device can load.
struct ResolveTable {
  Target target;
  const KernelTable* table = nullptr;
  /// Looked at in place of the table's own, by who keeps a table and its entries apart.
  const std::vector<TableEntry>* entries = nullptr;
};

/// One step of the cascade, for `explain`.
struct ResolveTrace {
  const TableEntry* entry = nullptr;
  Target target;
  Match match = Match::fallback;
  double shape_distance = 0;  ///< Σ|log2((a+1)/(b+1))|
  double class_distance = 0;
  bool accepted = false;
  std::string reason;  ///< why it was passed over, or why it won
};

struct Choice {
  Target target;
  const KernelTable* table = nullptr;
  const TableEntry* entry = nullptr;
  Match match = Match::fallback;
  LaunchPlan plan = {};             ///< of `entry`, for the query's shape, alignments and device
  std::string how;                  ///< one sentence for people
  std::vector<ResolveTrace> trace;  ///< only when asked for
};

/// The cascade: exact device class and shape; same class, nearest shape; nearest class, its nearest
/// shape; default. Compile axes and `exact` axes must be equal; `log2` axes count
/// Σ|log2((a+1)/(b+1))|, ties to the larger shape. An entry is an answer only when its rules hold
/// and its launches fit the device for the query's own shape and alignments. Targets that cannot
/// run on the device are skipped.
///
/// In full, the first answer in this order wins: the better match; the nearer class; the nearer
/// shape; the larger shape (Σ log2(a+1)); the faster measured; target suffix a, f, none; the higher
/// target; the lower rank; then shape (larger first), device class, config and artifact, so that no
/// two entries tie.
///
/// Errors: `no_match` with the nearest miss and why; `usage` for an unknown or missing type, axis
/// or argument name, with the nearest correct one. Deterministic; touches no state. The tables must
/// outlive the Choice.
[[nodiscard]] Result<Choice> resolve(std::span<const ResolveTable> tables,
                                     const ResolveQuery& query, bool with_trace = false);

}  // namespace cubinary::core
