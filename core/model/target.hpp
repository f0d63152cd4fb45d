// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "core/base/result.hpp"

namespace cubinary::core {

/// A device's compute capability, X.Y.
struct Capability {
  int major = 0;
  int minor = 0;
  friend auto operator<=>(const Capability&, const Capability&) = default;
};

/// How far beyond the base instruction set a target's code reaches.
enum class TargetSuffix : std::uint8_t {
  none,          ///< `sm_120`: X.y with y ≥ Y, desktop and embedded parts apart
  family,        ///< `sm_120f`: the family's members with y ≥ Y
  architecture,  ///< `sm_120a`: exactly X.Y
};

/// Limits of the silicon as expressions see them (`target.*`).
struct TargetLimits {
  std::int64_t smem_optin = 0;      ///< bytes of shared memory a block may opt in to
  std::int64_t max_threads = 1024;  ///< a block
  std::int64_t max_threads_per_sm = 0;
  std::int64_t regs = 65536;  ///< 32-bit registers an SM
};

/// What code is compiled for. A value type; `parse` knows the table and nothing else is accepted.
class Target {
 public:
  /// Accepts `sm_90`, `sm_90a`, `sm_120f`, …; an unknown one is `target`, with the nearest known
  /// name.
  [[nodiscard]] static Result<Target> parse(std::string_view text);

  [[nodiscard]] std::string text() const;
  [[nodiscard]] Capability capability() const { return m_capability; }
  [[nodiscard]] TargetSuffix suffix() const { return m_suffix; }
  [[nodiscard]] const TargetLimits& limits() const;
  /// `X*10+Y`, what expressions call `target.cc`.
  [[nodiscard]] int cc() const { return m_capability.major * 10 + m_capability.minor; }

  /// Whether a device of this capability can load the code, by the rules of the one table.
  [[nodiscard]] bool runs_on(Capability device) const;

  friend auto operator<=>(const Target&, const Target&) = default;

 private:
  Target(Capability capability, TargetSuffix suffix) : m_capability(capability), m_suffix(suffix) {}
  Capability m_capability;
  TargetSuffix m_suffix = TargetSuffix::none;
};

/// A CUDA toolkit's version.
struct ToolkitVersion {
  int major = 0;
  int minor = 0;
  [[nodiscard]] std::string text() const;
  friend auto operator<=>(const ToolkitVersion&, const ToolkitVersion&) = default;
};

/// The first toolkit that compiles for `target`.
[[nodiscard]] ToolkitVersion first_toolkit(const Target& target);

/// The last toolkit that compiles for `target`, where later ones dropped it: `sm_101` is called
/// `sm_110` from 13.0 on.
[[nodiscard]] std::optional<ToolkitVersion> last_toolkit(const Target& target);

/// Lowest driver branch (525, 570, 580, …) that loads a cubin of this toolkit for this silicon: the
/// larger of the toolkit's major-version floor and the silicon's floor.
[[nodiscard]] int minimum_driver(ToolkitVersion toolkit, const Target& target);

/// All targets known, for messages and completion, in ascending order.
[[nodiscard]] std::span<const std::string> known_targets();

}  // namespace cubinary::core
