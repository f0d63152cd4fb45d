// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "core/base/result.hpp"

namespace cubinary::core {

/// Calls `make()` once a thread for what the thread works with, and `work(state, index)` for every
/// index below `count`, in no order, on at most `threads` threads; the calling one is among them.
/// `make` gives a Result of the state, `work` a Result<void>. Gives the first error after which no
/// index was begun. Neither may throw.
template <typename Make, typename Work>
[[nodiscard]] Result<void> for_each_index(std::size_t count, unsigned threads, const Make& make,
                                          const Work& work) {
  std::atomic<std::size_t> next = 0;
  std::atomic<bool> failed = false;
  std::mutex mutex;
  std::optional<Error> first;
  const auto stop = [&](const Error& error) {
    const std::scoped_lock lock(mutex);
    first = first.value_or(error);
    failed = true;
  };
  const auto run = [&] {
    std::size_t index = next.fetch_add(1);
    if (index >= count) {
      return;
    }
    auto state = make();
    if (!state) {
      return stop(state.error());
    }
    for (; index < count && !failed; index = next.fetch_add(1)) {
      if (const Result<void> done = work(*state, index); !done) {
        return stop(done.error());
      }
    }
  };
  std::vector<std::thread> helpers;
  for (std::size_t i = 1; i < threads && i < count; ++i) {
    helpers.emplace_back(run);
  }
  run();
  for (std::thread& helper : helpers) {
    helper.join();
  }
  return first ? Result<void>(fail(*first)) : Result<void>();
}

}  // namespace cubinary::core
