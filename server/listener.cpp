// SPDX-License-Identifier: Apache-2.0
#include "server/listener.hpp"

#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

namespace cubinary::server {
namespace {

/// Clients that arrive all at once wait here, not in their retries.
constexpr int k_backlog = 4096;

bool is_loopback_v4(std::uint32_t host_order) {
  return (host_order >> 24U) == 127;
}

}  // namespace

core::Result<ListenAddress> parse_listen(std::string_view text) {
  const auto bad = [&] {
    return core::fail(core::ErrorCode::usage,
                      "--listen takes ADDR:PORT such as 127.0.0.1:8421 or "
                      "[::1]:8421, not \"" +
                          std::string(text) + "\"");
  };
  const auto colon = text.rfind(':');
  if (colon == std::string_view::npos || colon == 0) {
    return bad();
  }
  std::string_view host = text.substr(0, colon);
  const std::string_view port = text.substr(colon + 1);
  if (host.starts_with('[') && host.ends_with(']')) {
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string_view::npos) {
    return bad();
  }
  ListenAddress result;
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), result.port);
  if (host.empty() || error != std::errc() || end != port.data() + port.size()) {
    return bad();
  }
  result.host = host;
  return result;
}

PeerAddress describe_peer(const sockaddr* address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (address->sa_family == AF_INET) {
    const auto* v4 = reinterpret_cast<const sockaddr_in*>(address);
    inet_ntop(AF_INET, &v4->sin_addr, text.data(), text.size());
    return {text.data(), is_loopback_v4(ntohl(v4->sin_addr.s_addr))};
  }
  if (address->sa_family == AF_INET6) {
    const auto* v6 = reinterpret_cast<const sockaddr_in6*>(address);
    if (IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr)) {
      in_addr v4{};
      std::memcpy(&v4, &v6->sin6_addr.s6_addr[12], sizeof v4);
      inet_ntop(AF_INET, &v4, text.data(), text.size());
      return {text.data(), is_loopback_v4(ntohl(v4.s_addr))};
    }
    inet_ntop(AF_INET6, &v6->sin6_addr, text.data(), text.size());
    return {text.data(), IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr) != 0};
  }
  return {"unknown", false};
}

core::Result<Listener> open_listener(const ListenAddress& address, bool loopback_only) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* raw = nullptr;
  if (const int code =
          getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(), &hints, &raw);
      code != 0) {
    return core::fail(core::ErrorCode::usage,
                      "--listen: cannot resolve \"" + address.host + "\": " + gai_strerror(code));
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> found(raw, &freeaddrinfo);
  int last_error = 0;
  for (const addrinfo* one = found.get(); one != nullptr; one = one->ai_next) {
    const PeerAddress where = describe_peer(one->ai_addr);
    if (loopback_only && !where.loopback) {
      return core::fail(core::ErrorCode::usage, "refusing to listen on " + where.text +
                                                    ", which other machines reach: give --tls-cert "
                                                    "and --tls-key, or --behind-proxy when a "
                                                    "TLS proxy stands before this server");
    }
    core::UniqueFd fd(::socket(one->ai_family, one->ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC,
                               one->ai_protocol));
    const int on = 1;
    sockaddr_storage bound{};
    socklen_t size = sizeof bound;
    if (!fd || ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
        ::bind(fd.get(), one->ai_addr, one->ai_addrlen) != 0 ||
        ::listen(fd.get(), k_backlog) != 0 ||
        ::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&bound), &size) != 0) {
      last_error = errno;
      continue;
    }
    Listener listener;
    listener.fd = std::move(fd);
    listener.loopback = where.loopback;
    const bool v6 = bound.ss_family == AF_INET6;
    listener.url_host = v6 ? "[" + where.text + "]" : where.text;
    listener.port = ntohs(v6 ? reinterpret_cast<const sockaddr_in6*>(&bound)->sin6_port
                             : reinterpret_cast<const sockaddr_in*>(&bound)->sin_port);
    return listener;
  }
  const std::string where = address.host + ":" + std::to_string(address.port);
  if (last_error == EADDRINUSE) {
    return core::fail(core::ErrorCode::busy, "cannot listen on " + where +
                                                 ": another program does; choose another port with "
                                                 "--listen, or port 0 for any free one");
  }
  return core::fail(core::errno_error("cannot listen on " + where, last_error));
}

}  // namespace cubinary::server
