// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/bytes.hpp"
#include "core/base/json.hpp"
#include "core/base/result.hpp"

namespace cubinary::server {

class CachedBlob;

/// One request as handlers see it: checked and decoded.
struct Request {
  std::string method;  ///< as sent
  std::string path;    ///< percent-decoded; no control characters, no encoded slash
  std::vector<std::pair<std::string, std::string>> query;  ///< decoded, in no particular order
  std::string host;
  std::string authorization;
  std::string if_none_match;
  std::string if_range;
  std::string range;
  std::string content_type;
  std::string content_encoding;  ///< of the body as sent
  std::uint64_t body_bytes = 0;  ///< announced
  std::string body;              ///< whole, unpacked; empty until it has arrived
  std::string forwarded_for;     ///< as a proxy said; not to be trusted
  std::string peer;              ///< address of the other end of the connection
  bool loopback = false;         ///< the peer is this machine
  std::string token;             ///< id of the token the request was allowed by; may be empty
  std::string actor;             ///< who asks, for the log of changes: token id and holder
};

/// Where the pieces of a body go; false says the client is gone.
using BodySink = std::function<bool(core::ByteView)>;
/// Produces [offset, offset + length) of a body that is not held in memory.
using BodyReader =
    std::function<core::Result<void>(std::uint64_t offset, std::uint64_t length, const BodySink&)>;

/// One answer. The body is `body`, or `length` bytes of `blob` from `offset` on, or `length` bytes
/// that `reader` produces while they are sent.
struct Response {
  int status = 200;
  std::string content_type;
  std::vector<std::pair<std::string, std::string>> headers;
  std::string body;
  std::shared_ptr<const CachedBlob> blob;
  std::uint64_t offset = 0;
  BodyReader reader;
  std::uint64_t length = 0;  ///< of the body; with `body` set, its size
  std::string etag;          ///< quoted; set: If-None-Match and Range are honoured

  void set_body(std::string text, std::string type) {
    length = text.size();
    body = std::move(text);
    content_type = std::move(type);
  }
};

/// A JSON document as an answer. `no-store` unless `cache_control` says otherwise.
[[nodiscard]] Response json_response(const core::json::Value& value,
                                     std::string_view cache_control = "no-store");
/// The request's body as JSON; `usage` when it is empty or is sent as something else, `corrupt`
/// when it is malformed.
[[nodiscard]] core::Result<core::json::Value> json_body(const Request& request);

/// `{"errors":[{"code":…,"message":…}]}`, the distribution spec's form, used by every route.
[[nodiscard]] Response error_response(int status, std::string_view code, std::string_view message);
/// The same from an Error: status and code by the error table.
[[nodiscard]] Response error_response(const core::Error& error);

/// The standard phrase of a status the server uses; "Unknown" for others.
[[nodiscard]] std::string_view status_phrase(int status);

/// A request target taken apart and percent-decoded. The target was checked by `parse_head`.
struct Target {
  std::string path;
  std::vector<std::pair<std::string, std::string>> query;  ///< `+` reads as a space
};
[[nodiscard]] Target decode_target(std::string_view target);

/// The value of a query parameter; null when absent. One given twice is `usage`.
[[nodiscard]] core::Result<const std::string*> query_value(const Request& request,
                                                           std::string_view name);

/// Answers 304, 206 or 416 where the request's If-None-Match, If-Range and Range ask for it and the
/// response carries an etag; otherwise returns the response as it is.
[[nodiscard]] Response apply_conditions(const Request& request, Response response);

}  // namespace cubinary::server
