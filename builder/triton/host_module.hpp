// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "core/base/bytes.hpp"
#include "core/base/result.hpp"

namespace cubinary::builder {

/// What a shared object says it needs, read from its ELF.
struct HostModuleInfo {
  std::string machine;              ///< as `uname -m` says it: `x86_64`, `aarch64`
  std::string glibc_floor;          ///< newest `GLIBC_x.y` a symbol asks for; empty: none
  std::vector<std::string> needed;  ///< DT_NEEDED, in order
  friend bool operator==(const HostModuleInfo&, const HostModuleInfo&) = default;
};

/// Errors are `unsupported`: no shared object, a damaged one, a machine no CUDA runs on. Safe on
/// hostile bytes.
[[nodiscard]] core::Result<HostModuleInfo> inspect_host_module(core::ByteView bytes);

}  // namespace cubinary::builder
