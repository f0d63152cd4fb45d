// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <mutex>
#include <string>
#include <string_view>

#include "client/source.hpp"
#include "core/base/result.hpp"

namespace cubinary::client {

/// The credentials of one origin: what the user gave, and what its token service made of it.
/// Thread-safe.
class RegistryAuth {
 public:
  /// A bearer token, USER:PASSWORD, or "" for none.
  explicit RegistryAuth(std::string credentials) : m_credentials(std::move(credentials)) {}

  /// Value of the Authorization header to send now; "" for none.
  [[nodiscard]] std::string header() const;

  /// Fetches a document: URL, Authorization value (may be ""), deadline.
  using GetDocument =
      std::function<core::Result<std::string>(const std::string&, const std::string&, Deadline)>;
  /// Answers a `WWW-Authenticate` challenge of `origin`. True: `header` changed, try again. False:
  /// nothing we can do. A token service on plain http is refused when the origin is https.
  [[nodiscard]] core::Result<bool> answer(std::string_view challenge, std::string_view origin,
                                          std::string_view repository, const GetDocument& get,
                                          Deadline deadline);

 private:
  std::string m_credentials;
  mutable std::mutex m_mutex;
  std::string m_token;   ///< from a token service
  bool m_basic = false;  ///< the server asked for Basic
};

}  // namespace cubinary::client
