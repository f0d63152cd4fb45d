// SPDX-License-Identifier: Apache-2.0
#include "builder/release/packer.hpp"

#include <algorithm>
#include <thread>
#include <utility>

namespace cubinary::builder {

using core::Result;

Result<void> Packer::add(core::Bytes raw, Take take) {
  if (m_running.size() >= std::max(1U, std::thread::hardware_concurrency())) {
    TRY(finish_one());
  }
  auto frame = std::async(std::launch::async, [level = m_level, bytes = std::move(raw)] {
    core::CompressOptions options;
    options.level = level;
    return core::compress(bytes, options);
  });
  m_running.push_back({std::move(frame), std::move(take)});
  return {};
}

Result<void> Packer::finish() {
  while (!m_running.empty()) {
    TRY(finish_one());
  }
  return {};
}

Result<void> Packer::finish_one() {
  Running oldest = std::move(m_running.front());
  m_running.pop_front();
  TRY_ASSIGN(const core::Bytes frame, oldest.frame.get());
  return oldest.take(frame);
}

}  // namespace cubinary::builder
