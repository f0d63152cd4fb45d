// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <optional>
#include <string>

#include "server/audit_api.hpp"
#include "server/blob_cache.hpp"
#include "server/gate.hpp"
#include "server/http.hpp"
#include "server/listener.hpp"
#include "server/maintenance_api.hpp"
#include "server/metrics.hpp"
#include "server/publish_api.hpp"
#include "server/registry.hpp"
#include "server/releases_api.hpp"
#include "server/resolve_api.hpp"
#include "server/tokens_api.hpp"
#include "server/triton_api.hpp"
#include "server/tune_api.hpp"
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
    /// Requests that change the store, running and waiting: more are told to come back, so that
    /// writers in line never take the threads readers need.
    std::int64_t max_writes = 16;
  };
  /// A store opened for reading is served, and what would change it is refused. `store` and
  /// `metrics` must outlive the service.
  Service(store::Store& store, Metrics& metrics, Options options);

  /// Whether a body may be sent at all, by the request's head: who asks, the route's limit, what is
  /// spoken there. Gives the answer to send when not. Never throws.
  [[nodiscard]] std::optional<Response> refuse_body(Request& request, Route route) const noexcept;

  /// Whether `handle` would answer a GET of this out of memory, unless it must look for a token.
  [[nodiscard]] bool in_memory(const RouteMatch& match) const;
  /// Whether a request without a token may read what such a request may read at all.
  [[nodiscard]] bool open_to(std::string_view host, const PeerAddress& peer) const {
    return m_gate.open_to(host, peer.loopback);
  }

  /// The answer to any request. Never throws: what goes wrong is an answer too.
  [[nodiscard]] Response handle(Request& request, const RouteMatch& match) noexcept;

  /// From now on /readyz says no, so that balancers send nobody new.
  void begin_drain() { m_draining = true; }

 private:
  [[nodiscard]] std::optional<Response> refuse(Request& request, Route route) const;
  [[nodiscard]] Response dispatch(Request& request, const RouteMatch& match);
  [[nodiscard]] Response change(Request& request, const RouteMatch& match);
  [[nodiscard]] core::Result<Response> answer(const Request& request, const RouteMatch& match);
  [[nodiscard]] Response ready() const;
  [[nodiscard]] Response metrics_page() const;

  store::Store* m_store;
  Metrics* m_metrics;
  std::int64_t m_max_writes;
  BlobCache m_cache;
  Gate m_gate;
  Registry m_registry;
  ResolveApi m_resolve;
  ReleasesApi m_releases;
  PublishApi m_publish;
  TritonApi m_triton;
  TuneApi m_tune;
  AuditApi m_audit;
  TokensApi m_tokens;
  MaintenanceApi m_maintenance;
  std::atomic<bool> m_draining{false};
};

}  // namespace cubinary::server
