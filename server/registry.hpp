// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "server/blob_cache.hpp"
#include "server/http.hpp"
#include "server/router.hpp"
#include "store/store.hpp"

namespace cubinary::server {

/// The pull half of the OCI distribution API over a store's releases. Thread-safe.
class Registry {
 public:
  Registry(const store::Store& store, BlobCache& cache, std::string repository)
      : m_store(&store), m_cache(&cache), m_repository(std::move(repository)) {}

  /// Answers one of the registry routes for GET and HEAD.
  [[nodiscard]] core::Result<Response> answer(const Request& request,
                                              const RouteMatch& match) const;

  /// Whether the blob or manifest a route names by its digest is held in memory.
  [[nodiscard]] bool holds(const RouteMatch& match) const;

 private:
  [[nodiscard]] core::Result<Response> manifest(std::string_view reference) const;
  [[nodiscard]] core::Result<Response> blob(const Request& request, std::string_view text) const;
  [[nodiscard]] core::Result<Response> tags(const Request& request) const;
  [[nodiscard]] core::Result<Response> referrers(const Request& request,
                                                 std::string_view text) const;
  /// From memory or the store, digest checked; null when there is no such blob.
  [[nodiscard]] core::Result<std::shared_ptr<const CachedBlob>> load(const core::Digest& digest,
                                                                     std::uint64_t max_bytes) const;

  const store::Store* m_store;
  BlobCache* m_cache;
  std::string m_repository;
};

}  // namespace cubinary::server
