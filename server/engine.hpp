// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string_view>

#include "server/access_log.hpp"
#include "server/connection.hpp"
#include "server/hot_answers.hpp"
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
  /// How far an answer from memory has come.
  enum class Progress : std::uint8_t { keep, close, waiting, broken };
  /// Answers a whole head out of memory, if nothing but memory and the socket is needed for it and
  /// without waiting for either: a plain GET of a blob or manifest that many ask for. Nothing: a
  /// worker must. `waiting`: the connection has an answer under way, to go on with once it has the
  /// events that `wait` tells.
  [[nodiscard]] std::optional<Progress> answer_from_memory(Connection& connection,
                                                           std::string_view head,
                                                           const HeadLimits& limits,
                                                           HotAnswers& hot, Connection::Io& wait);
  [[nodiscard]] Progress go_on(Connection& connection, Connection::Io& wait);
  /// The answer under way will never be whole.
  void give_up(Connection& connection);

  /// Says why bytes are no request; the connection is to be closed, lingering.
  void refuse(Connection& connection, const HeadRefusal& refusal);

  /// From now on answers tell clients to close.
  void begin_drain() { m_draining = true; }

 private:
  struct Sent {
    bool whole = false;
    std::string note;
  };
  [[nodiscard]] const HotAnswers::Answer* learn(const Connection& connection,
                                                const RequestHead& head, HotAnswers& hot) const;
  void finish_pending(Connection& connection, std::string_view note);
  [[nodiscard]] Sent send(Connection& connection, const Response& response, bool head_only,
                          bool close) const;
  void finish(const Connection& connection, const PendingRequest& pending, int status,
              std::string_view note, Clock::time_point begin);
  /// Counts and logs an answer; `bytes` and `peer` are the connection's.
  void record(const Connection& connection, LogEntry entry);

  Service* m_service;
  Metrics* m_metrics;
  const AccessLog* m_log;
  BodyBudget m_bodies;
  std::atomic<bool> m_draining{false};
};

}  // namespace cubinary::server
