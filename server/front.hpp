// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
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
#include "server/front_options.hpp"
#include "server/listener.hpp"
#include "server/loop.hpp"
#include "server/metrics.hpp"
#include "server/tls.hpp"

namespace cubinary::server {

/// Owns every socket: accepts, enforces limits, and has requests answered.
///
/// A few loops wait for the connections, read requests and send hot blobs. What needs the store, or
/// a body looked at, goes to one of `workers` threads, which may wait for both. A connection takes
/// a worker only while one answers it: clients that connect and say nothing, drip their request or
/// its body, read their answer slowly, or keep the connection for later cost a socket each and
/// little more, and are the first to go when room is needed.
class Front {
 public:
  /// `tls` may be null. All references must outlive the front.
  Front(FrontOptions options, Listener listener, const TlsContext* tls, Engine& engine,
        Metrics& metrics);
  ~Front();
  Front(const Front&) = delete;
  Front& operator=(const Front&) = delete;

  [[nodiscard]] core::Result<void> start();
  /// Takes no more connections and closes the idle ones; requests under way are finished.
  void begin_drain();
  [[nodiscard]] std::size_t open_connections() const;
  /// Breaks what is still under way and ends the threads.
  void stop();

 private:
  void accept_some();
  void admit(core::UniqueFd fd, PeerAddress peer);
  [[nodiscard]] bool make_room(const std::string& key);
  [[nodiscard]] bool evict_oldest(const std::string* peer);
  void count_out(const Connection& connection);

  // --- On a worker's thread ---
  void work();
  void serve(Connection& connection);
  /// What to do with a connection next; nothing: read more.
  enum class Step : std::uint8_t { again, wait, linger };
  /// Takes a request head from the input once it is whole.
  [[nodiscard]] std::optional<Step> admit_request(Connection& connection);
  /// Answers the pending request once its body is whole.
  [[nodiscard]] std::optional<Step> answer(Connection& connection);
  void linger(Connection& connection);
  void drop(Connection& connection);

  FrontOptions m_options;
  Listener m_listener;
  const TlsContext* m_tls;
  Engine* m_engine;
  Metrics* m_metrics;
  SendPatience m_patience;
  std::atomic<bool> m_draining{false};

  std::vector<std::unique_ptr<Loop>> m_loops;  ///< the first accepts
  std::uint64_t m_next_id = 0;                 ///< its thread's

  mutable std::mutex m_peers_mutex;
  std::unordered_map<std::string, std::size_t> m_peers;
  std::size_t m_open = 0;  ///< those in m_peers

  std::mutex m_queue_mutex;
  std::deque<Connection*> m_queue;  ///< held, for a worker to serve
  /// A worker with nothing to do. The one that came last is called first: its memory is warm.
  struct Idle {
    std::condition_variable wake;
    bool called = false;
  };
  std::vector<Idle*> m_idle;
  bool m_stopping = false;
  std::vector<std::thread> m_workers;
};

}  // namespace cubinary::server
