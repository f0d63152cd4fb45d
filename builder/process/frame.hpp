// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>

#include "core/base/bytes.hpp"

namespace cubinary::builder {

/// How an exchange of a frame on a socket ended.
enum class FrameEnd : std::uint8_t { done, closed, timed_out, stopped };

inline constexpr std::uint32_t k_max_frame_bytes = 1U << 30U;

using Deadline = std::chrono::steady_clock::time_point;

/// Sends a frame: 4-byte little-endian length, then the bytes. Blocks; never raises SIGPIPE.
[[nodiscard]] FrameEnd send_frame(int socket, core::ByteView bytes);
/// Receives a frame. Without `deadline` waits for ever; `stop`, if not negative, is watched too. A
/// length beyond k_max_frame_bytes counts as closed.
[[nodiscard]] FrameEnd receive_frame(int socket, core::Bytes& bytes, const Deadline* deadline,
                                     int stop);

}  // namespace cubinary::builder
