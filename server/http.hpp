// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/bytes.hpp"
#include "core/base/result.hpp"

namespace cubinary::server {

/// One request as handlers see it: checked, decoded, without a body (no route takes one).
struct Request {
  std::string method;  ///< as sent
  std::string path;    ///< percent-decoded; no control characters, no encoded slash
  std::vector<std::pair<std::string, std::string>> query;  ///< decoded, in no particular order
  std::string host;
  std::string authorization;
  std::string if_none_match;
  std::string if_range;
  std::string range;
  std::string peer;       ///< address of the other end of the connection
  bool loopback = false;  ///< the peer is this machine
};

/// Where the pieces of a body go; false says the client is gone.
using BodySink = std::function<bool(core::ByteView)>;
/// Produces [offset, offset + length) of a body that is not held in memory.
using BodyReader =
    std::function<core::Result<void>(std::uint64_t offset, std::uint64_t length, const BodySink&)>;

/// One answer. The body is `body`, or `length` bytes that `reader` produces while they are sent.
struct Response {
  int status = 200;
  std::string content_type;
  std::vector<std::pair<std::string, std::string>> headers;
  std::string body;
  BodyReader reader;
  std::uint64_t length = 0;  ///< of the body; with `body` set, its size
  std::string etag;          ///< quoted; set: If-None-Match and Range are honoured
  std::string token;         ///< id of the token the request was allowed by, for the access log

  void set_body(std::string text, std::string type) {
    length = text.size();
    body = std::move(text);
    content_type = std::move(type);
  }
};

/// `{"errors":[{"code":…,"message":…}]}`, the distribution spec's form, used by every route.
[[nodiscard]] Response error_response(int status, std::string_view code, std::string_view message);
/// The same from an Error: status and code by the error table.
[[nodiscard]] Response error_response(const core::Error& error);

/// The value of a query parameter; null when absent. One given twice is `usage`.
[[nodiscard]] core::Result<const std::string*> query_value(const Request& request,
                                                           std::string_view name);

/// Answers 304, 206 or 416 where the request's If-None-Match, If-Range and Range ask for it and the
/// response carries an etag; otherwise returns the response as it is.
[[nodiscard]] Response apply_conditions(const Request& request, Response response);

}  // namespace cubinary::server
