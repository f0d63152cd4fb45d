// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/http.hpp"
#include "server/router.hpp"
#include "store/store.hpp"

namespace cubinary::server {

/// The one place that decides who may ask: every request passes it before any handler.
///
/// Health probes are open. All else needs a token with the scope that the route's method names;
/// without one, a caller on this very machine may do what needs `read`, as long as no proxy stands
/// before the server (a proxy makes the whole internet look like loopback). A token that is sent is
/// always checked. Thread-safe.
class Gate {
 public:
  struct Options {
    bool behind_proxy = false;
    std::vector<std::string> hosts;  ///< names allowed in Host besides localhost and IP addresses
  };
  Gate(const store::Store& store, Options options);

  struct Pass {
    std::string token;                ///< id of the token; empty for a local caller
    std::string actor;                ///< the token's id and holder, or "local"
    std::optional<Response> refusal;  ///< set: send this instead
  };
  /// Looks at the request's head alone. A method the route does not answer needs `read`.
  [[nodiscard]] Pass check(const Request& request, Route route) const;
  /// Whether a caller without a token may do what needs `read`.
  [[nodiscard]] bool open_to(std::string_view host, bool loopback) const {
    return loopback && !m_options.behind_proxy && host_allowed(host);
  }

 private:
  [[nodiscard]] bool host_allowed(std::string_view host) const;

  const store::Store* m_store;
  Options m_options;
};

/// The secret in an Authorization header: `Bearer SECRET`, or `Basic` with the secret as password
/// (any user name). None for anything else.
[[nodiscard]] std::optional<std::string> secret_of(std::string_view authorization);

}  // namespace cubinary::server
