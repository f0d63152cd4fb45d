// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "server/http.hpp"
#include "server/router.hpp"
#include "store/store.hpp"

namespace cubinary::server {

/// `GET /api/v1/audit/QUERY`: winners, compare, coverage and stale, as JSON or (`format=csv`) CSV.
/// Thread-safe.
class AuditApi {
 public:
  explicit AuditApi(const store::Store& store) : m_store(&store) {}

  [[nodiscard]] core::Result<Response> answer(const Request& request,
                                              const RouteMatch& match) const;

 private:
  const store::Store* m_store;
};

}  // namespace cubinary::server
