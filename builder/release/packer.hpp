// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <functional>
#include <future>

#include "core/base/result.hpp"
#include "core/wire/codec.hpp"

namespace cubinary::builder {

/// Compresses packs in the background, a pack a core, and hands the frames out in the order they
/// came, so that the same packs make the same release on any machine. Of one thread; what was not
/// handed out when it ends is waited for and dropped.
class Packer {
 public:
  /// Takes a frame, in the caller's thread, from within `add` or `finish`.
  using Take = std::function<core::Result<void>(const core::Bytes& frame)>;

  explicit Packer(int level) : m_level(level) {}

  /// Waits for the oldest pack while every core has one. Errors: of compressing or taking any pack.
  [[nodiscard]] core::Result<void> add(core::Bytes raw, Take take);
  /// Waits until all are handed out.
  [[nodiscard]] core::Result<void> finish();

 private:
  struct Running {
    std::future<core::Result<core::Bytes>> frame;
    Take take;
  };
  [[nodiscard]] core::Result<void> finish_one();

  int m_level;
  std::deque<Running> m_running;
};

}  // namespace cubinary::builder
