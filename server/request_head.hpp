// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <tl/expected.hpp>

namespace cubinary::server {

/// Bounds on what comes before a request's body.
struct HeadLimits {
  std::size_t bytes = 32U << 10U;        ///< request line and all fields
  std::size_t target_bytes = 8U << 10U;  ///< the request target
  std::size_t fields = 100;              ///< header lines
};

/// A request line and the fields handlers use, checked. Everything else a client sends is dropped
/// here and seen by nobody.
struct RequestHead {
  std::string method;
  std::string target;  ///< path and query as sent
  bool close = false;  ///< the client wants the connection closed after the answer
  std::string host;
  std::string authorization;
  std::string if_none_match;
  std::string if_range;
  std::string range;
  std::string forwarded_for;
  std::string content_type;
  std::string content_encoding;
  std::uint64_t body_bytes = 0;   ///< as Content-Length announces
  bool expects_continue = false;  ///< the client waits for "100 Continue" before its body
};

/// Why a head is refused, as the answer to send before the connection is closed.
struct HeadRefusal {
  int status = 400;
  std::string message;
};

/// How far a buffer that grows at its end holds a head.
struct HeadScan {
  enum class State : std::uint8_t { partial, complete, refused };
  State state = State::partial;
  std::size_t size = 0;  ///< bytes of the head with its empty line, when complete
  HeadRefusal refusal;
};

/// Looks for the head's end. `from` is how much of the buffer an earlier scan has seen. Refuses a
/// bare line feed and a head that outgrows the limits as soon as that shows.
[[nodiscard]] HeadScan scan_head(std::string_view buffer, std::size_t from,
                                 const HeadLimits& limits);

/// Parses a complete head strictly: HTTP/1.0 or 1.1, token names, no control characters, no
/// folding, no space before a colon, one Host, no field given twice that must be given once, an
/// absolute path as target, no encoded slash or control character in it. A body comes with its
/// length: a transfer coding is 411, so that there is one way only to say where a request ends.
[[nodiscard]] tl::expected<RequestHead, HeadRefusal> parse_head(std::string_view head,
                                                                const HeadLimits& limits);

}  // namespace cubinary::server
