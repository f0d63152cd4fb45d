// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "client/session.hpp"
#include "core/driver/driver.hpp"
#include "core/launch/launch.hpp"
#include "core/table/resolve.hpp"

namespace cubinary::client {

/// An argument as the caller passes it: where its value lies, and its size.
struct ArgumentValue {
  const void* data = nullptr;
  std::size_t size = 0;
};

/// One kernel, resolved for one shape and device, and once prepared bound to one CUDA context.
/// Thread-safe.
class Kernel {
 public:
  /// Refuses a kernel with more parameters than a launch can pass.
  [[nodiscard]] static core::Result<std::unique_ptr<Kernel>> make(std::shared_ptr<Session> session,
                                                                  KernelTables tables,
                                                                  core::Choice choice,
                                                                  core::DeviceClass device);

  /// Fetches, verifies and loads into the calling thread's context; does nothing when done before.
  [[nodiscard]] core::Result<void> prepare();

  /// `workspace` in bytes of the plan must lie behind the one argument after the caller's, if any.
  /// Once prepared: no allocation, lock or load on the way to success.
  [[nodiscard]] core::Result<void> launch(std::span<const ArgumentValue> arguments,
                                          core::cuda::Stream stream);

  [[nodiscard]] const core::LaunchPlan& plan() const { return m_choice.plan; }
  [[nodiscard]] const core::Choice& choice() const { return m_choice; }
  [[nodiscard]] const core::DeviceClass& device() const { return m_device; }
  [[nodiscard]] const Session& session() const { return *m_session; }

 private:
  explicit Kernel(core::Choice choice) : m_choice(std::move(choice)) {}
  core::Result<void> prepare_locked();
  core::Result<void> check_arguments(std::span<const ArgumentValue> arguments) const;
  core::Error bad_argument(std::size_t index, std::span<const ArgumentValue> arguments) const;
  core::Result<void> launch_steps(std::span<const ArgumentValue> arguments,
                                  core::cuda::Stream stream);

  /// What launch checks of one argument, packed.
  struct ArgumentCheck {
    std::size_t size = 0;
    std::uint64_t misaligned = 0;  ///< bits of a pointer that must be zero
    bool pointer = false;
    bool may_be_null = false;
    bool has_default = false;
  };
  struct PreparedStep {
    core::cuda::Function function = nullptr;
    const core::StepPlan* plan = nullptr;
    bool extended = false;  ///< cluster or cooperative
  };

  std::shared_ptr<Session> m_session;
  KernelTables m_tables;  ///< owns what m_choice points to
  core::Choice m_choice;
  core::DeviceClass m_device;
  std::vector<ArgumentCheck> m_checks;
  bool m_empty = false;  ///< no step has anything to do

  std::mutex m_mutex;                 ///< preparing
  std::atomic<bool> m_ready = false;  ///< what follows is then immutable
  const core::Driver* m_driver = nullptr;
  CurrentContext m_context;
  std::shared_ptr<LoadedModule> m_module;
  std::vector<PreparedStep> m_steps;
};

}  // namespace cubinary::client
