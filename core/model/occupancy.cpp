// SPDX-License-Identifier: Apache-2.0
#include "core/model/occupancy.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

namespace cubinary::core {
namespace {

constexpr std::int64_t k_unlimited = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t k_quarters = 4;
constexpr std::int64_t k_warp = 32;

std::int64_t round_up(std::int64_t value, std::int64_t unit) {
  return (value + unit - 1) / unit * unit;
}

/// Blocks that the registers of an SM hold: each quarter of an SM has its own. Whether a block fits
/// at all is judged as if its warps were spread evenly over all four.
std::int64_t by_registers(const TargetLimits& limits, std::int64_t registers, std::int64_t warps) {
  if (registers <= 0) {
    return k_unlimited;
  }
  const std::int64_t a_warp = round_up(registers * k_warp, 256);
  const std::int64_t warps_held = limits.regs / k_quarters / a_warp * k_quarters;
  return a_warp * round_up(warps, k_quarters) > limits.regs ? 0 : warps_held / warps;
}

std::int64_t by_smem(const Target& target, std::int64_t smem) {
  const bool first = target.capability() < Capability{8, 0};
  const std::int64_t kept = first ? 0 : 1024;
  const std::int64_t used = round_up(smem + kept, first ? 256 : 128);
  return used == 0 ? k_unlimited : (target.limits().smem_optin + kept) / used;
}

}  // namespace

Occupancy occupancy(const Target& target, const BlockResources& block) {
  const TargetLimits& limits = target.limits();
  if (block.threads <= 0 || block.threads > limits.max_threads) {
    return {.blocks = 0, .warps = 0, .limit = "threads"};
  }
  const std::int64_t warps = (block.threads + k_warp - 1) / k_warp;
  const std::int64_t most_warps = limits.max_threads_per_sm / k_warp;
  const std::array<std::pair<std::int64_t, std::string_view>, 4> bounds = {
      {{most_warps / warps, "threads"},
       {by_registers(limits, block.registers, warps), "registers"},
       {by_smem(target, block.smem), "smem"},
       {max_blocks_per_sm(target), "blocks"}}};
  const auto& [blocks, limit] = *std::ranges::min_element(
      bounds, {},
      [](const std::pair<std::int64_t, std::string_view>& bound) { return bound.first; });
  return {.blocks = blocks,
          .warps = static_cast<double>(blocks * warps) / static_cast<double>(most_warps),
          .limit = limit};
}

}  // namespace cubinary::core
