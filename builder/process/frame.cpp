// SPDX-License-Identifier: Apache-2.0
#include "builder/process/frame.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <span>

#include <poll.h>
#include <sys/socket.h>

namespace cubinary::builder {

using core::Bytes;
using core::ByteView;

namespace {

FrameEnd send_all(int socket, ByteView bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0) {
      if (errno == EINTR) {
        continue;
      }
      return FrameEnd::closed;
    }
    bytes = bytes.subspan(static_cast<std::size_t>(sent));
  }
  return FrameEnd::done;
}

/// Milliseconds for poll: -1 without a deadline, 0 when it has passed.
int time_left(const Deadline* deadline) {
  if (deadline == nullptr) {
    return -1;
  }
  const auto left =
      std::chrono::ceil<std::chrono::milliseconds>(*deadline - std::chrono::steady_clock::now());
  return static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 3'600'000));
}

FrameEnd receive_all(int socket, std::span<std::byte> bytes, const Deadline* deadline, int stop) {
  while (!bytes.empty()) {
    std::array<pollfd, 2> watched{{{socket, POLLIN, 0}, {stop, POLLIN, 0}}};
    const int wait = time_left(deadline);
    const int ready = poll(watched.data(), stop >= 0 ? 2 : 1, wait);
    if (ready < 0) {
      if (errno == EINTR) {
        continue;
      }
      return FrameEnd::closed;
    }
    if (stop >= 0 && (watched[1].revents & POLLIN) != 0) {
      return FrameEnd::stopped;
    }
    if (ready == 0) {
      if (wait == 0) {
        return FrameEnd::timed_out;
      }
      continue;
    }
    const ssize_t got = recv(socket, bytes.data(), bytes.size(), 0);
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got <= 0) {
      return FrameEnd::closed;
    }
    bytes = bytes.subspan(static_cast<std::size_t>(got));
  }
  return FrameEnd::done;
}

}  // namespace

FrameEnd send_frame(int socket, ByteView bytes) {
  std::array<std::byte, 4> length{};
  for (std::size_t i = 0; i < length.size(); ++i) {
    length[i] = static_cast<std::byte>(bytes.size() >> (8 * i));
  }
  if (const FrameEnd end = send_all(socket, length); end != FrameEnd::done) {
    return end;
  }
  return send_all(socket, bytes);
}

FrameEnd receive_frame(int socket, Bytes& bytes, const Deadline* deadline, int stop) {
  std::array<std::byte, 4> header{};
  if (const FrameEnd end = receive_all(socket, header, deadline, stop); end != FrameEnd::done) {
    return end;
  }
  std::uint32_t length = 0;
  for (std::size_t i = 0; i < header.size(); ++i) {
    length |= std::to_integer<std::uint32_t>(header[i]) << (8 * i);
  }
  if (length > k_max_frame_bytes) {
    return FrameEnd::closed;
  }
  bytes.resize(length);
  return receive_all(socket, bytes, deadline, stop);
}

}  // namespace cubinary::builder
