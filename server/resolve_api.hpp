// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "core/table/resolve.hpp"
#include "server/http.hpp"
#include "server/metrics.hpp"
#include "server/table_cache.hpp"
#include "store/releases.hpp"
#include "store/store.hpp"

namespace cubinary::server {

/// `GET /api/v1/resolve`: which entry of a release serves a kernel, types, shape and device class.
/// Thread-safe.
class ResolveApi {
 public:
  ResolveApi(const store::Store& store, Metrics& metrics) : m_store(&store), m_metrics(&metrics) {}

  [[nodiscard]] core::Result<Response> answer(const Request& request);

 private:
  [[nodiscard]] core::Result<Response> resolve(const Request& request);

  const store::Store* m_store;
  Metrics* m_metrics;
  TableCache m_tables{2048};
};

/// A resolve request's parameters, parsed.
struct ResolveParameters {
  std::string kernel;
  std::string release;  ///< a release's name or a channel tag; empty: the newest release
  core::ResolveQuery query;
};
/// `kernel=K&types=T:bf16&shape=rows:64,cols:4096&device=CLASS[&align=x:16][&require=LEVEL]
/// [&release=NAME]`. Errors are `usage` and name the parameter.
[[nodiscard]] core::Result<ResolveParameters> parse_resolve(const Request& request);

}  // namespace cubinary::server
