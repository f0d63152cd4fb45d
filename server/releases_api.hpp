// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "server/http.hpp"
#include "server/router.hpp"
#include "store/store.hpp"

namespace cubinary::server {

/// Releases under /api/v1: list, show, compare, make, attach a signature, promote, revoke. The
/// server holds no key: it makes releases of what is current in its store and never signs one.
/// Thread-safe.
class ReleasesApi {
 public:
  explicit ReleasesApi(store::Store& store) : m_store(&store) {}

  [[nodiscard]] core::Result<Response> answer(const Request& request,
                                              const RouteMatch& match) const;

 private:
  [[nodiscard]] core::Result<Response> create(const Request& request) const;
  [[nodiscard]] core::Result<Response> promote(const Request& request,
                                               std::string_view channel) const;
  [[nodiscard]] core::Result<Response> channel(std::string_view name) const;

  [[nodiscard]] core::Result<Response> revocations(const Request& request) const;

  store::Store* m_store;
};

}  // namespace cubinary::server
