// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "core/base/file.hpp"
#include "core/base/result.hpp"

namespace cubinary::builder {

/// One GPU of this host, held by one tuner at a time, whatever store or user it works for: a lock
/// on a file in /tmp named by the GPU's UUID, whose text says who has it. The kernel drops the lock
/// with the process.
class GpuLock {
 public:
  /// None while another process has it; `holder` then says who.
  [[nodiscard]] static core::Result<std::optional<GpuLock>> try_take(const std::string& uuid,
                                                                     std::string_view purpose,
                                                                     std::string& holder);

 private:
  explicit GpuLock(core::UniqueFd fd) : m_fd(std::move(fd)) {}
  core::UniqueFd m_fd;
};

}  // namespace cubinary::builder
