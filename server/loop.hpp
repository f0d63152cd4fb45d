// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

#include "core/base/file.hpp"
#include "core/base/result.hpp"
#include "server/connection.hpp"
#include "server/engine.hpp"
#include "server/front_options.hpp"
#include "server/hot_answers.hpp"
#include "server/metrics.hpp"

namespace cubinary::server {

/// One thread that waits for a share of the connections: reads requests, answers those that need
/// nothing but memory as fast as the client takes the answer, and hands the others to a worker,
/// which holds the connection until it has answered. Nothing here ever blocks on a client, a disk
/// or a lock held across either.
///
/// Only the loop's own thread closes its connections.
class Loop {
 public:
  /// What the loop tells its owner, on its own thread.
  struct Hooks {
    std::function<void(Connection&)> hand_over;     ///< a worker's turn
    std::function<void(const Connection&)> closed;  ///< just before it is destroyed
    std::function<void()> accept;                   ///< newcomers wait; the listening loop only
  };
  /// All references must outlive the loop.
  Loop(const FrontOptions& options, Engine& engine, Metrics& metrics, Hooks hooks)
      : m_options(&options), m_engine(&engine), m_metrics(&metrics), m_hooks(std::move(hooks)) {}

  /// Starts the thread; with a listening socket, which must outlive the loop, it accepts too.
  [[nodiscard]] core::Result<void> start(int listener = -1);
  /// Takes a new connection. Any thread.
  void add(std::unique_ptr<Connection> connection);
  [[nodiscard]] std::size_t size() const { return m_size; }

  /// Gives a connection back that a worker is done with: the last thing the worker does with it.
  void release(Connection& connection, Connection::Io wait);

  /// The connection longest waited for that nobody works on, of those that `counts` (may be empty)
  /// says yes to.
  struct Idle {
    std::uint64_t id = 0;
    int worth = 0;  ///< the less, the sooner it goes
    Clock::time_point parked{};
  };
  [[nodiscard]] std::optional<Idle> oldest_idle(
      const std::function<bool(const Connection&)>& counts) const;
  /// Ends that connection; false when it is gone, or somebody works on it now. `told` hears of it
  /// before it is closed.
  [[nodiscard]] bool doom(std::uint64_t id, const std::function<void(const Connection&)>& told);

  /// Closes what is idle, from now on sooner, and listens no more.
  void begin_drain();
  /// Breaks what clients still wait for.
  void shut_all();
  /// Ends the thread.
  void stop();

 private:
  void run();
  void turn(Connection& connection);
  void work(Connection& connection);
  /// Whether the connection has another turn at once.
  [[nodiscard]] bool after(Connection& connection, Engine::Progress progress, Connection::Io wait);
  [[nodiscard]] bool take_head(Connection& connection, bool& again);
  void hand_over(Connection& connection);
  void await(Connection& connection, Connection::Io wait);
  void linger(Connection& connection);
  void close(Connection& connection);
  void sweep(Clock::time_point now);

  const FrontOptions* m_options;
  Engine* m_engine;
  Metrics* m_metrics;
  Hooks m_hooks;
  int m_listener = -1;
  core::UniqueFd m_epoll;
  core::UniqueFd m_wake;
  HotAnswers m_hot;
  Clock::time_point m_now{};
  Clock::time_point m_swept{};
  std::atomic<bool> m_stop{false};
  std::atomic<bool> m_draining{false};
  std::atomic<std::size_t> m_size{0};

  mutable std::mutex m_mutex;  ///< guards the map, never held across anything slow
  std::unordered_map<std::uint64_t, std::unique_ptr<Connection>> m_connections;
  std::thread m_thread;
};

}  // namespace cubinary::server
