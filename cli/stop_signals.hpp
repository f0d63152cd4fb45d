// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <csignal>

#include "core/base/file.hpp"

namespace cubinary::cli {

/// Turns SIGINT and SIGTERM into a readable file descriptor while it lives; one at a time. A second
/// signal ends the program at once, as if nobody handled it.
class StopSignals {
 public:
  StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;
  ~StopSignals();
  [[nodiscard]] int descriptor() const { return m_event.get(); }

 private:
  core::UniqueFd m_event;
  struct sigaction m_interrupt{};
  struct sigaction m_terminate{};
};

}  // namespace cubinary::cli
