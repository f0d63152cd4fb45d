// SPDX-License-Identifier: Apache-2.0
#include "client/parallel.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

namespace cubinary::client {

using core::Result;

Result<void> parallel_for(std::size_t count, std::size_t width,
                          const std::function<Result<void>(std::size_t)>& work) {
  std::atomic<std::size_t> next{0};
  std::mutex mutex;
  std::optional<core::Error> error;
  const auto stop = [&](core::Error why) {
    next = count;
    const std::lock_guard lock(mutex);
    if (!error) {
      error = std::move(why);
    }
  };
  const auto run = [&] {
    try {
      for (std::size_t i = next.fetch_add(1); i < count; i = next.fetch_add(1)) {
        if (auto done = work(i); !done) {
          stop(std::move(done).error());
        }
      }
    } catch (const std::exception& thrown) {
      stop({core::ErrorCode::internal, std::string("internal error: ") + thrown.what()});
    }
  };
  std::vector<std::thread> threads;
  try {
    while (threads.size() + 1 < std::min(count, width)) {
      threads.emplace_back(run);
    }
  } catch (const std::system_error&) {
    width = threads.size() + 1;  // containers bound the number of threads: fewer do it too
  }
  run();
  for (auto& thread : threads) {
    thread.join();
  }
  if (error) {
    return core::fail(*std::move(error));
  }
  return {};
}

}  // namespace cubinary::client
