// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <memory>
#include <string_view>

#include "server/access_log.hpp"
#include "server/connection.hpp"
#include "server/metrics.hpp"
#include "server/pending_request.hpp"
#include "server/request_head.hpp"
#include "server/service.hpp"

namespace cubinary::server {

/// Turns request heads and bodies into answers on their connections. Thread-safe, one connection a
/// thread.
class Engine {
 public:
  /// `body_bytes` bounds the request bodies in memory at once.
  Engine(Service& service, Metrics& metrics, const AccessLog& log, std::uint64_t body_bytes)
      : m_service(&service), m_metrics(&metrics), m_log(&log), m_bodies(body_bytes) {}

  /// Checks a whole head, which ends with its empty line, and whether its sender may ask. Null: it
  /// was refused, with an answer, and the connection is to be closed, lingering. Nothing of a body
  /// is read before its sender is known to be allowed to send it.
  [[nodiscard]] std::unique_ptr<PendingRequest> admit(Connection& connection, std::string_view head,
                                                      const HeadLimits& limits);
  /// Answers an admitted request, its body complete. False: the connection is to be closed.
  [[nodiscard]] bool answer(Connection& connection, PendingRequest& pending);
  /// Says why bytes are no request; the connection is to be closed, lingering.
  void refuse(Connection& connection, const HeadRefusal& refusal);

  /// From now on answers tell clients to close.
  void begin_drain() { m_draining = true; }

 private:
  struct Sent {
    bool whole = false;
    std::string note;
  };
  [[nodiscard]] Sent send(Connection& connection, const Response& response, bool head_only,
                          bool close) const;
  void finish(const Connection& connection, const PendingRequest& pending, int status,
              std::string_view note, Clock::time_point begin);

  Service* m_service;
  Metrics* m_metrics;
  const AccessLog* m_log;
  BodyBudget m_bodies;
  std::atomic<bool> m_draining{false};
};

}  // namespace cubinary::server
