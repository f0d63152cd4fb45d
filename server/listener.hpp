// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/file.hpp"
#include "core/base/result.hpp"

struct sockaddr;

namespace cubinary::server {

/// ADDR:PORT taken apart: `127.0.0.1:8421`, `[::1]:0`, `build.example:8421`.
struct ListenAddress {
  std::string host;
  std::uint16_t port = 0;
};
[[nodiscard]] core::Result<ListenAddress> parse_listen(std::string_view text);

/// A bound, listening, non-blocking socket.
struct Listener {
  core::UniqueFd fd;
  std::string url_host;    ///< as it stands in a URL: brackets around an IPv6 address
  std::uint16_t port = 0;  ///< the real one, also when 0 was asked for
  bool loopback = false;
};
/// Resolves and binds to the first address that works. Whether it is loopback is decided before
/// anything is bound: with `loopback_only`, any other address is `usage`.
[[nodiscard]] core::Result<Listener> open_listener(const ListenAddress& address,
                                                   bool loopback_only);

/// The numeric address of a peer, and whether it is this machine's loopback.
struct PeerAddress {
  std::string text;
  bool loopback = false;
};
[[nodiscard]] PeerAddress describe_peer(const sockaddr* address);

}  // namespace cubinary::server
