// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mutex>

#include "server/http.hpp"
#include "server/router.hpp"
#include "store/store.hpp"

namespace cubinary::server {

/// Looking after the served store under /api/v1/store, and its log of changes. Of fsck, gc and
/// backup one runs at a time, each while everything else goes on. Thread-safe.
class MaintenanceApi {
 public:
  explicit MaintenanceApi(store::Store& store) : m_store(&store) {}

  [[nodiscard]] core::Result<Response> answer(const Request& request, const RouteMatch& match);

 private:
  [[nodiscard]] core::Result<Response> changes(const Request& request) const;
  [[nodiscard]] core::Result<Response> collect(const Request& request);
  [[nodiscard]] core::Result<Response> backup(const Request& request);
  [[nodiscard]] core::Result<std::unique_lock<std::mutex>> begin();

  store::Store* m_store;
  std::mutex m_running;
};

}  // namespace cubinary::server
