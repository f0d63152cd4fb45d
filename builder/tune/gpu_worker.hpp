// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "builder/process/child.hpp"
#include "builder/tune/message.hpp"
#include "core/base/result.hpp"

namespace cubinary::builder {

struct GpuWorkerOptions {
  /// The program and arguments that end up in serve_tune_requests; empty: this very program with
  /// the argument `tune-worker`.
  std::vector<std::string> command;
  int device = 0;
  int stop = -1;  ///< a file descriptor that becomes readable when the tuner is to stop
};

/// The coordinator's side of the process that opens the device. It is started anew whenever it has
/// ended or must not be used any more; what it had loaded is gone then. One thread.
class GpuWorker {
 public:
  explicit GpuWorker(GpuWorkerOptions options) : m_options(std::move(options)) {}

  struct Answer {
    enum class Outcome : std::uint8_t {
      replied,
      ended,      ///< crashed, or ended by itself
      timed_out,  ///< killed
      garbled,    ///< said something that is no answer; killed
      stopped,    ///< the tuner is to stop; killed
    };
    Outcome outcome = Outcome::ended;
    TuneReply reply;
    std::string message;  ///< unless replied
  };

  /// Asks the running process, or a new one that has not opened the device.
  [[nodiscard]] Answer ask(const TuneRequest& request, std::chrono::milliseconds limit);

  /// What the device is, without a context on it. Errors are `environment`, with what the driver
  /// said, and `cancelled`.
  [[nodiscard]] core::Result<DeviceSpec> identify();
  /// A process with the device open; does nothing when there is one.
  [[nodiscard]] core::Result<DeviceSpec> open();
  /// Ends the process; the next `open` starts another.
  void end() { m_child.reset(); }
  [[nodiscard]] bool is_open() const { return m_child.has_value() && m_device_open; }
  /// How many processes were started.
  [[nodiscard]] std::uint64_t starts() const { return m_starts; }

 private:
  [[nodiscard]] core::Result<DeviceSpec> ask_device(TuneRequest::Kind kind);
  GpuWorkerOptions m_options;
  std::optional<Child> m_child;
  bool m_device_open = false;
  DeviceSpec m_device;
  std::uint64_t m_starts = 0;
};

}  // namespace cubinary::builder
