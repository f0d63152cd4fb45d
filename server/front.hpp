// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "core/base/file.hpp"
#include "core/base/result.hpp"
#include "server/connection.hpp"
#include "server/engine.hpp"
#include "server/listener.hpp"
#include "server/metrics.hpp"
#include "server/tls.hpp"

namespace cubinary::server {

struct FrontOptions {
  std::size_t workers = 64;  ///< answering threads
  std::size_t max_connections = 4096;
  std::size_t max_per_peer = 0;  ///< connections of one address (IPv6: one /64); 0: any number
  std::chrono::milliseconds head_time{
      10'000};  ///< from the first byte, or the accept, to a whole head
  std::chrono::milliseconds idle_time{30'000};  ///< between two requests
  HeadLimits head;
};

/// Owns every socket: accepts, waits, enforces limits and deadlines, and gives whole requests to
/// the engine.
///
/// A connection takes a thread only while there are bytes of it to look at or an answer to send:
/// clients that connect and say nothing, drip their request or its body, or keep the connection for
/// later cost a socket each and no more, and are the first to go when room is needed. `workers`
/// threads wait on one epoll set.
class Front {
 public:
  /// `tls` may be null. All references must outlive the front.
  Front(FrontOptions options, Listener listener, const TlsContext* tls, Engine& engine,
        Metrics& metrics);
  ~Front();
  Front(const Front&) = delete;
  Front& operator=(const Front&) = delete;

  [[nodiscard]] core::Result<void> start();
  /// Closes what is past its deadline; to be called a few times a second.
  void sweep();
  /// Takes no more connections and closes the idle ones; requests under way are finished.
  void begin_drain();
  [[nodiscard]] std::size_t open_connections() const;
  /// Breaks what is still under way and ends the threads.
  void stop();

 private:
  void work();
  void accept_some();
  void admit(core::UniqueFd fd, PeerAddress peer);
  [[nodiscard]] Connection* claim(std::uint64_t id);
  void serve(Connection& connection);
  /// What to do with a connection next; nothing: read more.
  enum class Step : std::uint8_t { again, wait, linger };
  /// Takes a request head from the input once it is whole.
  [[nodiscard]] std::optional<Step> admit_request(Connection& connection);
  /// Answers the pending request once its body is whole.
  [[nodiscard]] std::optional<Step> answer(Connection& connection);
  void park(Connection& connection, Connection::Io wait);
  void linger(Connection& connection);
  void drop(Connection& connection);
  [[nodiscard]] bool evict_oldest(const std::string* peer);
  [[nodiscard]] std::unique_ptr<Connection> take_out(std::uint64_t id);

  FrontOptions m_options;
  Listener m_listener;
  const TlsContext* m_tls;
  Engine* m_engine;
  Metrics* m_metrics;
  SendPatience m_patience;
  core::UniqueFd m_epoll;
  core::UniqueFd m_wake;
  std::atomic<bool> m_draining{false};

  mutable std::mutex m_mutex;  ///< guards the three below, and Connection::busy
  std::unordered_map<std::uint64_t, std::unique_ptr<Connection>> m_connections;
  std::unordered_map<std::string, std::size_t> m_peers;
  std::uint64_t m_next_id;

  std::vector<std::thread> m_threads;
};

}  // namespace cubinary::server
