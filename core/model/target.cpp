// SPDX-License-Identifier: Apache-2.0
#include "core/model/target.hpp"

#include <algorithm>
#include <array>
#include <vector>

#include "core/base/nearest.hpp"
#include "core/model/occupancy.hpp"

namespace cubinary::core {
namespace {

/// One compute capability and everything that is known of it.
struct Silicon {
  Capability capability;
  bool embedded;          ///< binary compatible with no other minor
  int family;             ///< members of one run its `f` code; 0: no `f` target
  bool has_architecture;  ///< an `a` target exists
  ToolkitVersion first;   ///< toolkit of the base and `a` targets
  int driver;             ///< lowest driver branch that knows the silicon
  TargetLimits limits;
  std::int64_t max_blocks;  ///< an SM holds at once
};

constexpr std::int64_t kib(std::int64_t n) {
  return n * 1024;
}

// 10.1 became 11.0 with toolkit 13.0: one silicon, two names, and no cubin serves both.
constexpr std::array k_silicon = {
    Silicon{{7, 5}, false, 0, false, {10, 0}, 418, {kib(64), 1024, 1024, 65536}, 16},
    Silicon{{8, 0}, false, 0, false, {11, 0}, 450, {kib(163), 1024, 2048, 65536}, 32},
    Silicon{{8, 6}, false, 0, false, {11, 1}, 455, {kib(99), 1024, 1536, 65536}, 16},
    Silicon{{8, 7}, true, 0, false, {11, 4}, 470, {kib(163), 1024, 1536, 65536}, 16},
    Silicon{{8, 8}, true, 0, false, {13, 0}, 580, {kib(99), 1024, 1536, 65536}, 16},
    Silicon{{8, 9}, false, 0, false, {11, 8}, 520, {kib(99), 1024, 1536, 65536}, 24},
    Silicon{{9, 0}, false, 0, true, {11, 8}, 520, {kib(227), 1024, 2048, 65536}, 32},
    Silicon{{10, 0}, false, 100, true, {12, 8}, 570, {kib(227), 1024, 2048, 65536}, 32},
    Silicon{{10, 1}, true, 101, true, {12, 8}, 570, {kib(227), 1024, 1536, 65536}, 24},
    Silicon{{10, 3}, false, 100, true, {12, 9}, 575, {kib(227), 1024, 2048, 65536}, 32},
    Silicon{{11, 0}, true, 110, true, {13, 0}, 580, {kib(227), 1024, 1536, 65536}, 24},
    Silicon{{12, 0}, false, 120, true, {12, 8}, 570, {kib(99), 1024, 1536, 65536}, 24},
    Silicon{{12, 1}, false, 120, true, {12, 9}, 575, {kib(99), 1024, 1536, 65536}, 24},
};

const Silicon* find_silicon(Capability capability) {
  const auto found = std::ranges::find(k_silicon, capability, &Silicon::capability);
  return found == k_silicon.end() ? nullptr : &*found;
}

// A Target is only ever made from the table.
const Silicon& silicon_of(const Target& target) {
  return *find_silicon(target.capability());
}

std::string text_of(Capability capability, TargetSuffix suffix) {
  std::string text = "sm_" + std::to_string(capability.major) + std::to_string(capability.minor);
  if (suffix == TargetSuffix::family) {
    text += 'f';
  } else if (suffix == TargetSuffix::architecture) {
    text += 'a';
  }
  return text;
}

bool has_suffix(const Silicon& silicon, TargetSuffix suffix) {
  switch (suffix) {
    case TargetSuffix::none:
      return true;
    case TargetSuffix::family:
      return silicon.family != 0;
    case TargetSuffix::architecture:
      return silicon.has_architecture;
  }
  return false;
}

constexpr std::array k_suffixes = {TargetSuffix::none, TargetSuffix::family,
                                   TargetSuffix::architecture};

std::vector<std::string> all_targets() {
  std::vector<std::string> names;
  for (const Silicon& silicon : k_silicon) {
    for (const TargetSuffix suffix : k_suffixes) {
      if (has_suffix(silicon, suffix)) {
        names.push_back(text_of(silicon.capability, suffix));
      }
    }
  }
  return names;
}

}  // namespace

Result<Target> Target::parse(std::string_view text) {
  for (const Silicon& silicon : k_silicon) {
    for (const TargetSuffix suffix : k_suffixes) {
      if (has_suffix(silicon, suffix) && text == text_of(silicon.capability, suffix)) {
        return Target(silicon.capability, suffix);
      }
    }
  }
  return fail(ErrorCode::target,
              "unknown target \"" + std::string(text) + "\"" + did_you_mean(text, known_targets()));
}

std::string Target::text() const {
  return text_of(m_capability, m_suffix);
}

std::int64_t max_blocks_per_sm(const Target& target) {
  return silicon_of(target).max_blocks;
}

const TargetLimits& Target::limits() const {
  return silicon_of(*this).limits;
}

bool Target::runs_on(Capability device) const {
  if (device == m_capability) {
    return true;
  }
  const Silicon& ours = silicon_of(*this);
  const Silicon* theirs = find_silicon(device);
  if (device < m_capability || device.major != m_capability.major) {
    return false;
  }
  switch (m_suffix) {
    case TargetSuffix::architecture:
      return false;
    case TargetSuffix::family:
      return theirs != nullptr && theirs->family == ours.family;
    case TargetSuffix::none:
      break;
  }
  // A later minor that this table does not know yet is taken for a desktop part.
  return !ours.embedded && (theirs == nullptr || !theirs->embedded);
}

std::string ToolkitVersion::text() const {
  return std::to_string(major) + "." + std::to_string(minor);
}

ToolkitVersion first_toolkit(const Target& target) {
  const Silicon& silicon = silicon_of(target);
  switch (target.suffix()) {
    case TargetSuffix::family:
      return std::max(silicon.first, ToolkitVersion{12, 9});
    case TargetSuffix::architecture:
      return std::max(silicon.first, ToolkitVersion{12, 0});
    case TargetSuffix::none:
      break;
  }
  return silicon.first;
}

std::optional<ToolkitVersion> last_toolkit(const Target& target) {
  if (target.capability() == Capability{10, 1}) {
    return ToolkitVersion{12, 9};
  }
  return std::nullopt;
}

int minimum_driver(ToolkitVersion toolkit, const Target& target) {
  const int toolkit_floor = toolkit.major >= 13 ? 580 : toolkit.major == 12 ? 525 : 450;
  return std::max(toolkit_floor, silicon_of(target).driver);
}

std::span<const std::string> known_targets() {
  static const std::vector<std::string> names = all_targets();
  return names;
}

}  // namespace cubinary::core
