// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/result.hpp"
#include "core/model/target.hpp"

namespace cubinary::core {

/// The silicon, not the label: `sm120-s188-l128M-b512-m96G`.
struct DeviceClass {
  Capability capability;
  int sm_count = 0;
  std::int64_t l2_mib = 0;      ///< L2 size in MiB
  int bus_bits = 0;             ///< memory bus width
  std::int64_t memory_gib = 0;  ///< total memory rounded to 8 GiB

  [[nodiscard]] static Result<DeviceClass> parse(std::string_view text);
  /// Rounds raw driver attributes into a class; sizes in bytes.
  [[nodiscard]] static DeviceClass from_attributes(Capability capability, int sm_count,
                                                   std::int64_t l2_bytes, int bus_bits,
                                                   std::int64_t memory_bytes);
  [[nodiscard]] std::string text() const;

  friend auto operator<=>(const DeviceClass&, const DeviceClass&) = default;
};

/// How unlike two classes are, ≥ 0: Σ|log2| over SM count, L2, bus and memory, plus 4 for another
/// minor and 64 for another major capability. Zero only for equal classes.
[[nodiscard]] double distance(const DeviceClass& a, const DeviceClass& b);

}  // namespace cubinary::core
