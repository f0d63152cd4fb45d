// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "server/http.hpp"
#include "server/router.hpp"
#include "store/store.hpp"

namespace cubinary::server {

/// What was captured of Triton, under /api/v1/triton: listed, and taken in. Thread-safe.
///
/// A builder sends the files as artifacts, which nothing names yet, then one request that names
/// them all: a capture is there whole or not at all, and may be sent again.
class TritonApi {
 public:
  explicit TritonApi(store::Store& store) : m_store(&store) {}

  [[nodiscard]] core::Result<Response> answer(const Request& request,
                                              const RouteMatch& match) const;

 private:
  [[nodiscard]] core::Result<Response> put(const Request& request) const;

  store::Store* m_store;
};

}  // namespace cubinary::server
