// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <string>

#include "server/blob_cache.hpp"
#include "server/gate.hpp"
#include "server/http.hpp"
#include "server/metrics.hpp"
#include "server/registry.hpp"
#include "server/resolve_api.hpp"
#include "store/store.hpp"

namespace cubinary::server {

/// What the server says, apart from how it gets to and from the network. Thread-safe.
class Service {
 public:
  struct Options {
    std::string repository;
    Gate::Options gate;
    std::uint64_t cache_bytes = 0;       ///< bound on blobs held in memory
    std::uint64_t cache_blob_bytes = 0;  ///< larger blobs are streamed from the store
  };
  /// `store` and `metrics` must outlive the service.
  Service(const store::Store& store, Metrics& metrics, Options options);

  /// The answer to any request. Never throws: what goes wrong is an answer too.
  [[nodiscard]] Response handle(const Request& request, Route& route) noexcept;

  /// From now on /readyz says no, so that balancers send nobody new.
  void begin_drain() { m_draining = true; }

 private:
  [[nodiscard]] Response dispatch(const Request& request, const RouteMatch& match);
  [[nodiscard]] core::Result<Response> answer(const Request& request, const RouteMatch& match);
  [[nodiscard]] Response ready() const;
  [[nodiscard]] Response metrics_page() const;

  const store::Store* m_store;
  Metrics* m_metrics;
  BlobCache m_cache;
  Gate m_gate;
  Registry m_registry;
  ResolveApi m_resolve;
  std::atomic<bool> m_draining{false};
};

}  // namespace cubinary::server
