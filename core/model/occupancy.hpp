// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

#include "core/model/target.hpp"

namespace cubinary::core {

/// What one block of a launch takes of an SM.
struct BlockResources {
  std::int64_t threads = 0;
  std::int64_t registers = 0;  ///< a thread
  std::int64_t smem = 0;       ///< bytes, static and dynamic
};

/// How many blocks of a launch an SM holds at once.
struct Occupancy {
  std::int64_t blocks = 0;  ///< an SM; 0: not one fits
  double warps = 0;         ///< resident warps / the most an SM holds
  /// What allows no more blocks: `threads`, `registers`, `smem` or `blocks`, the first that does.
  std::string_view limit;
};

/// Blocks of any size that an SM holds at once.
[[nodiscard]] std::int64_t max_blocks_per_sm(const Target& target);

/// By the rules of NVIDIA's occupancy calculator (cuda_occupancy.h of CUDA 13.0), for compute
/// capability 7.5 and up: registers come in 256 a warp, a quarter of them to each quarter of the
/// SM; shared memory in 128 bytes (256 on 7.5), 1 KiB a block of it kept by the system from 8.0 on.
[[nodiscard]] Occupancy occupancy(const Target& target, const BlockResources& block);

}  // namespace cubinary::core
