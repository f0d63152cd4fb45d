// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <memory>
#include <string_view>

#include "server/access_log.hpp"
#include "server/connection.hpp"
#include "server/metrics.hpp"
#include "server/request_head.hpp"
#include "server/service.hpp"

namespace cubinary::server {

/// Turns a checked request head into an answer on its connection. cpp-httplib decodes the request
/// target and writes the response; the header of that library is included by this class's source
/// alone. Thread-safe, one connection a thread.
class Engine {
 public:
  Engine(Service& service, Metrics& metrics, const AccessLog& log);
  ~Engine();

  /// Answers one request. False: the connection is to be closed. `head` ends with its empty line.
  [[nodiscard]] bool answer(Connection& connection, std::string_view head,
                            const HeadLimits& limits);
  /// Says why a request is refused; the connection is to be closed, lingering.
  void refuse(Connection& connection, const HeadRefusal& refusal);

  /// From now on answers tell clients to close.
  void begin_drain() { m_draining = true; }
  /// Makes answers that are being streamed stop.
  void abort();

 private:
  class Http;

  Service* m_service;
  Metrics* m_metrics;
  const AccessLog* m_log;
  std::atomic<bool> m_draining{false};
  std::unique_ptr<Http> m_http;
};

}  // namespace cubinary::server
