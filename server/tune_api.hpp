// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "server/http.hpp"
#include "server/router.hpp"
#include "store/store.hpp"

namespace cubinary::server {

/// What tuners need under /api/v1: sessions, leases, the journal of launches, measurements and what
/// came of a job. A lease belongs to the token and owner that took it, and ends by itself.
/// Thread-safe.
class TuneApi {
 public:
  explicit TuneApi(store::Store& store) : m_store(&store) {}

  [[nodiscard]] core::Result<Response> answer(const Request& request,
                                              const RouteMatch& match) const;

 private:
  [[nodiscard]] core::Result<Response> put_session(const Request& request) const;
  [[nodiscard]] core::Result<Response> put_facts(const Request& request, std::string_view id) const;
  [[nodiscard]] core::Result<Response> measurements(const Request& request) const;
  [[nodiscard]] core::Result<Response> put_measurements(const Request& request) const;
  [[nodiscard]] core::Result<Response> acquire(const Request& request) const;
  [[nodiscard]] core::Result<Response> lease(const Request& request, std::string_view id) const;
  [[nodiscard]] core::Result<Response> journal(const Request& request) const;
  [[nodiscard]] core::Result<Response> tuning(const Request& request) const;
  [[nodiscard]] core::Result<Response> put_tuning(const Request& request) const;

  store::Store* m_store;
};

}  // namespace cubinary::server
