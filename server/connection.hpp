// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "core/base/file.hpp"
#include "server/blob_cache.hpp"
#include "server/listener.hpp"
#include "server/tls.hpp"

namespace cubinary::server {

using Clock = std::chrono::steady_clock;
struct PendingRequest;

/// How long a client that does not read may keep an answering thread, and when the server is too
/// busy waiting for such clients to be patient. Shared by all connections; thread-safe.
struct SendPatience {
  explicit SendPatience(std::int64_t threads) : workers(threads) {}

  const std::int64_t workers;            ///< answering threads in all
  std::atomic<std::int64_t> waiting{0};  ///< those waiting for a client to read
  std::atomic<bool> abort{false};        ///< give up at once: the server is going away

  /// Three quarters of the threads wait: slow readers are cut, so that others are answered.
  [[nodiscard]] bool pressed() const { return waiting.load() * 4 >= workers * 3; }
};

/// An answer whose bytes are all in memory, and how far it has come.
struct Outgoing {
  std::string_view head;
  const CachedBlob* blob = nullptr;  ///< null: the head is all
  std::uint64_t offset = 0;          ///< of the blob's bytes, the next to send
  std::uint64_t end = 0;

  [[nodiscard]] bool done() const { return head.empty() && offset == end; }
};
struct PendingAnswer;
class Loop;

/// One accepted socket, plain or TLS: reads never block, sends wait within bounds. Used by one
/// thread at a time: its loop's, or a worker's while the loop has handed it over.
class Connection {
 public:
  enum class Io : std::uint8_t { ok, wait_read, wait_write, closed };
  /// What the connection is waiting for while no thread works on it; decides its deadline. `gone`:
  /// for its loop to close it.
  enum class Phase : std::uint8_t { head, body, idle, answer, linger, gone };
  /// Who may touch it. A loop and a worker hold it while they work on it; `doomed`: it had to make
  /// room, and its loop is to close it.
  enum class Hold : std::uint8_t { free, working, doomed };
  /// How long anybody is waited for who has nothing to say, once the server drains.
  static constexpr std::chrono::seconds k_drain_time{1};

  Connection(core::UniqueFd fd, PeerAddress peer, TlsContext::Session session,
             SendPatience& patience);
  ~Connection();

  /// Reads what is there into `input` (completing the TLS handshake first), one call of the socket.
  [[nodiscard]] Io fill();
  /// Bytes received and not yet taken as part of a request.
  std::string input;
  std::size_t scanned = 0;  ///< of input, already searched for the head's end
  /// A request whose head was admitted and whose body is awaited in `input`.
  std::unique_ptr<PendingRequest> pending;
  /// Whether decrypted bytes wait inside the TLS session, which no event will announce.
  [[nodiscard]] bool has_hidden_input() const;

  /// Marks the start of an answer, from which its speed is judged.
  void begin_answer();
  /// Sends both parts in order; waits while the client reads, gives up on one that stalls or
  /// crawls.
  [[nodiscard]] bool send(std::string_view first, std::string_view second = {});
  [[nodiscard]] bool send(Outgoing outgoing);
  /// Sends what the socket takes now, at most about `most` bytes; `ok` says that some may follow at
  /// once, or that all is sent.
  [[nodiscard]] Io push(Outgoing& outgoing, std::uint64_t most);
  /// Whether the client takes the answer more slowly than anybody has to.
  [[nodiscard]] bool too_slow(Clock::time_point now, bool pressed) const;
  [[nodiscard]] std::uint64_t sent() const { return m_sent; }

  /// Tells the client that nothing more comes, and reads on only to throw away: a client still
  /// sending could otherwise lose the answer to a connection reset. `draining`: not for long.
  void begin_linger(bool draining);
  /// Throws away what arrived; false once it is time to close.
  [[nodiscard]] bool discard();

  [[nodiscard]] int fd() const { return m_fd.get(); }
  [[nodiscard]] const PeerAddress& peer() const { return m_peer; }

  /// The answer that the loop sends as the client takes it.
  std::unique_ptr<PendingAnswer> answer;

  std::atomic<Hold> hold{Hold::working};
  std::atomic<Phase> phase{Phase::head};
  std::atomic<Clock::time_point> parked{};  ///< since when nobody works on it
  Clock::time_point deadline{};
  Loop* loop = nullptr;
  std::uint64_t id = 0;
  std::uint32_t awaited = 0;  ///< events its loop is told of

 private:
  [[nodiscard]] Io after_tls(int result);
  [[nodiscard]] Io send_some(std::string_view first, std::string_view second, bool more_follows,
                             std::size_t& sent);
  [[nodiscard]] Io send_file(const Outgoing& outgoing, std::uint64_t most, std::size_t& sent);
  [[nodiscard]] bool wait_for_client(short events);

  core::UniqueFd m_fd;
  PeerAddress m_peer;
  TlsContext::Session m_session;
  SendPatience* m_patience;
  Clock::time_point m_answer_begin{};
  std::uint64_t m_sent = 0;
  std::uint64_t m_discarded = 0;
};

}  // namespace cubinary::server
