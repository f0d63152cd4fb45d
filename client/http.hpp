// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "client/source.hpp"
#include "core/base/bytes.hpp"
#include "core/base/result.hpp"

namespace cubinary::client {

struct HttpReply {
  int status = 0;
  std::map<std::string, std::string> headers;  ///< names in lower case; the first of each

  /// The header's value, or "".
  [[nodiscard]] std::string_view header(const std::string& name) const;
};

struct HttpRequest {
  std::string target;  ///< path and query, already encoded
  std::vector<std::pair<std::string, std::string>> headers;
  Deadline deadline;
  /// Called once, before any body byte; false ends the exchange there (success).
  std::function<bool(const HttpReply&)> head;
  /// Called with body bytes in order; false ends the exchange there (success).
  std::function<bool(core::ByteView)> body;
};

/// A keep-alive connection to one origin; one exchange at a time (calls from several threads wait).
class HttpConnection {
 public:
  /// `origin` as SourceName has it, already validated.
  explicit HttpConnection(const std::string& origin);
  ~HttpConnection();

  /// One GET, no retry, no redirect. Errors: `network` (the peer could not be reached or broke off,
  /// TLS included), `timeout` (the deadline passed, or nothing came for 15 s); they do not name the
  /// origin.
  [[nodiscard]] core::Result<HttpReply> get(const HttpRequest& request);

 private:
  struct Impl;
  std::unique_ptr<Impl> m_impl;
};

/// What to say where no connection to `origin` came about: that its host has no address, or that it
/// does not answer. Looks the host up.
[[nodiscard]] std::string describe_no_connection(const std::string& origin);

}  // namespace cubinary::client
