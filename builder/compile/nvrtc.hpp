// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <memory>

#include "builder/compile/compile_job.hpp"
#include "core/base/result.hpp"

namespace cubinary::builder {

/// NVRTC, opened with dlopen. Lives in worker processes only: it may crash or hang.
class Nvrtc {
 public:
  /// Errors are `environment` and carry the loader's reason.
  [[nodiscard]] static core::Result<Nvrtc> open(const std::filesystem::path& library);
  Nvrtc(Nvrtc&&) noexcept;
  Nvrtc& operator=(Nvrtc&&) noexcept;
  ~Nvrtc();

  /// Compiles in the current folder. Never fails but through the reply's status.
  [[nodiscard]] CompileReply compile(const CompileJob& job) const;

 private:
  struct Impl;
  explicit Nvrtc(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> m_impl;
};

}  // namespace cubinary::builder
