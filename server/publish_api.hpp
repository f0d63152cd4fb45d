// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <utility>

#include "core/base/digest.hpp"
#include "server/http.hpp"
#include "server/router.hpp"
#include "store/store.hpp"

namespace cubinary::server {

/// What builders put and tuners get under /api/v1: artifacts, candidates, kernels. Thread-safe.
///
/// A builder sends artifacts, then the candidates that name them, in groups as they are made; none
/// of it is in any release until one last request makes a kernel's candidates the current ones.
/// Each request is whole or nothing and may be sent again.
class PublishApi {
 public:
  explicit PublishApi(store::Store& store) : m_store(&store) {}

  [[nodiscard]] core::Result<Response> answer(const Request& request,
                                              const RouteMatch& match) const;

 private:
  [[nodiscard]] core::Result<Response> put_artifact(const Request& request,
                                                    std::string_view digest) const;
  [[nodiscard]] core::Result<Response> put_artifacts(const Request& request) const;
  [[nodiscard]] core::Result<Response> store_artifacts(
      const Request& request,
      std::span<const std::pair<core::Digest, core::ByteView>> artifacts) const;
  [[nodiscard]] core::Result<Response> known_artifacts(const Request& request) const;
  [[nodiscard]] core::Result<Response> get_artifact(std::string_view digest) const;
  [[nodiscard]] core::Result<Response> put_candidates(const Request& request) const;
  [[nodiscard]] core::Result<Response> list_candidates(const Request& request) const;
  [[nodiscard]] core::Result<Response> known_candidates(const Request& request) const;
  [[nodiscard]] core::Result<Response> list_kernels() const;
  [[nodiscard]] core::Result<Response> get_kernel(std::string_view name) const;
  [[nodiscard]] core::Result<Response> put_current(const Request& request,
                                                   std::string_view name) const;

  store::Store* m_store;
};

}  // namespace cubinary::server
