// SPDX-License-Identifier: Apache-2.0
#include "core/driver/process.hpp"

#include <atomic>

#include <pthread.h>

namespace cubinary::core {
namespace {

std::atomic<unsigned> g_generation{0};

// Registered before main, so that no fork is missed.
const int g_registered = ::pthread_atfork(nullptr, nullptr, [] { g_generation.fetch_add(1); });

}  // namespace

unsigned fork_generation() {
  (void)g_registered;
  return g_generation.load(std::memory_order_relaxed);
}

}  // namespace cubinary::core
