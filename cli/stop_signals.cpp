// SPDX-License-Identifier: Apache-2.0
#include "cli/stop_signals.hpp"

#include <cerrno>
#include <cstdint>

#include <sys/eventfd.h>
#include <unistd.h>

namespace cubinary::cli {

namespace {

volatile std::sig_atomic_t g_stop_fd = -1;

void on_stop_signal(int) {
  const int saved = errno;
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(g_stop_fd, &one, sizeof one);
  errno = saved;
}

}  // namespace

StopSignals::StopSignals() : m_event(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  g_stop_fd = m_event.get();
  struct sigaction action{};
  action.sa_handler = on_stop_signal;
  action.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);
  sigaction(SIGINT, &action, &m_interrupt);
  sigaction(SIGTERM, &action, &m_terminate);
}

StopSignals::~StopSignals() {
  sigaction(SIGINT, &m_interrupt, nullptr);
  sigaction(SIGTERM, &m_terminate, nullptr);
  g_stop_fd = -1;
}

}  // namespace cubinary::cli
