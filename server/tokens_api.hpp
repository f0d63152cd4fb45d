// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "server/http.hpp"
#include "server/router.hpp"
#include "store/store.hpp"

namespace cubinary::server {

/// Access tokens under /api/v1/tokens: list, make, revoke. Thread-safe.
class TokensApi {
 public:
  explicit TokensApi(store::Store& store) : m_store(&store) {}

  [[nodiscard]] core::Result<Response> answer(const Request& request,
                                              const RouteMatch& match) const;

 private:
  store::Store* m_store;
};

}  // namespace cubinary::server
