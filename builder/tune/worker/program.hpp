// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "builder/tune/message.hpp"
#include "builder/tune/worker/gpu.hpp"
#include "core/base/result.hpp"

namespace cubinary::builder {

/// A loaded cubin.
class Module {
 public:
  [[nodiscard]] static core::Result<Module> load(const Gpu& gpu, core::ByteView cubin);
  Module(Module&& other) noexcept { swap(other); }
  Module& operator=(Module&& other) noexcept {
    swap(other);
    return *this;
  }
  ~Module();
  /// The function, loaded fully: later launches never wait for it.
  [[nodiscard]] core::Result<cuda::Function> function(const std::string& symbol) const;

 private:
  Module() = default;
  void swap(Module& other) noexcept {
    std::swap(m_gpu, other.m_gpu);
    std::swap(m_module, other.m_module);
  }
  const Gpu* m_gpu = nullptr;
  cuda::Module m_module = nullptr;
};

/// The launches of one kernel for one shape, ready to be queued any number of times. Its module
/// must outlive it.
class Program {
 public:
  /// Errors: `unsupported` when this device cannot launch it like this (a grid that cannot be
  /// resident, too much shared memory), which is the candidate's fault and harms nothing.
  [[nodiscard]] static core::Result<Program> make(const Gpu& gpu, const Module& module,
                                                  const ProgramSpec& spec);

  /// Queues all launches with these buffer addresses. `unsupported` as above.
  [[nodiscard]] core::Result<void> launch(const Gpu& gpu,
                                          const std::vector<cuda::DevicePointer>& buffers) const;
  [[nodiscard]] bool skipped() const { return m_skipped; }
  /// Queues the count of changed guard bytes around the workspace.
  [[nodiscard]] core::Result<void> count_damage(cuda::DevicePointer count) const;
  /// How many entries of the stream's queue a launch takes.
  [[nodiscard]] std::size_t queue_entries() const { return m_steps.size() + m_zeroed.size(); }

 private:
  struct Step {
    cuda::Function function = nullptr;
    KernelLaunch launch;
  };
  bool m_skipped = false;
  std::vector<Step> m_steps;
  GuardedBuffer m_workspace;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> m_zeroed;
};

}  // namespace cubinary::builder
