// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/bytes.hpp"
#include "core/base/result.hpp"
#include "core/model/target.hpp"

namespace cubinary::builder {

/// A parameter of an entry, as its code reads it.
struct CubinParameter {
  std::int64_t offset = 0;
  std::int64_t size = 0;
};

/// One `__global__` function of a cubin and what it needs to run.
struct CubinEntry {
  std::string symbol;             ///< mangled name
  std::int64_t registers = 0;     ///< a thread
  std::int64_t static_smem = 0;   ///< bytes the code declares, without what the driver reserves
  std::int64_t max_threads = 0;   ///< a block: the launch bound, or what the registers allow
  std::int64_t launch_bound = 0;  ///< threads a block, of `__launch_bounds__`; 0: none
  /// The block and cluster it can be launched with alone (`__block_size__`, `__cluster_dims__`);
  /// zeros: any.
  std::array<std::int64_t, 3> required_block{};
  std::array<std::int64_t, 3> required_cluster{};
  std::int64_t stack_bytes = 0;     ///< frame of the function and what it calls, a thread
  std::int64_t constant_bytes = 0;  ///< bank 0: driver area and parameters
  std::int64_t parameter_bytes = 0;
  std::vector<CubinParameter> parameters;  ///< in order
  bool hollow = false;                     ///< it ends without having done a thing
};

struct CubinInfo {
  std::string target;               ///< what the bytes say they are for: `sm_120a`
  std::string compiler;             ///< build strings of `.note.nv.tkinfo`; empty before ABI 8
  std::vector<CubinEntry> entries;  ///< sorted by symbol

  [[nodiscard]] const CubinEntry* find(std::string_view symbol) const;
};

/// Parses bytes as an executable cubin. Errors are `bad_cubin`: no ELF, damaged, not linked,
/// another machine, an ABI version nobody taught us, an undefined symbol the driver will not
/// provide. Thread-safe; safe on hostile bytes.
[[nodiscard]] core::Result<CubinInfo> inspect_cubin(core::ByteView cubin);

/// Like inspect_cubin, and the cubin must be for `target`, suffix included.
[[nodiscard]] core::Result<CubinInfo> inspect_cubin(core::ByteView cubin,
                                                    const core::Target& target);

/// Spill bytes (stores + loads) by function, read from a `ptxas -v` log. Functions without a line
/// are not in the map.
[[nodiscard]] std::map<std::string, std::int64_t, std::less<>> spills_from_log(
    std::string_view log);

}  // namespace cubinary::builder
