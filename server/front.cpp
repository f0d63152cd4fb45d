// SPDX-License-Identifier: Apache-2.0
#include "server/front.hpp"

#include <algorithm>
#include <cerrno>
#include <exception>
#include <tuple>
#include <utility>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

namespace cubinary::server {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t k_max_loops = 32;
/// An upload slower than this is given up.
constexpr std::uint64_t k_body_bytes_a_second = 64U << 10U;

/// Whom a connection counts against: an IPv6 customer has a whole /64.
std::string peer_key(const std::string& address) {
  if (address.find(':') == std::string::npos) {
    return address;
  }
  std::size_t colons = 0;
  for (std::size_t i = 0; i < address.size(); ++i) {
    if (address[i] == ':' && ++colons == 4) {
      return address.substr(0, i);
    }
  }
  return address;
}

}  // namespace

Front::Front(FrontOptions options, Listener listener, const TlsContext* tls, Engine& engine,
             Metrics& metrics)
    : m_options(options),
      m_listener(std::move(listener)),
      m_tls(tls),
      m_engine(&engine),
      m_metrics(&metrics),
      m_patience(static_cast<std::int64_t>(options.workers)) {
}

Front::~Front() {
  stop();
}

core::Result<void> Front::start() {
  const std::size_t processors = std::max(1U, std::thread::hardware_concurrency());
  const std::size_t loops =
      m_options.loops > 0 ? m_options.loops : std::min(processors, k_max_loops);
  const Loop::Hooks hooks{.hand_over =
                              [this](Connection& connection) {
                                const std::scoped_lock lock(m_queue_mutex);
                                m_queue.push_back(&connection);
                                if (!m_idle.empty()) {
                                  m_idle.back()->called = true;
                                  m_idle.back()->wake.notify_one();
                                  m_idle.pop_back();
                                }
                              },
                          .closed =
                              [this](const Connection& connection) {
                                if (connection.hold != Connection::Hold::doomed) {
                                  count_out(connection);
                                }
                              },
                          .accept = [this] { accept_some(); }};
  try {
    for (std::size_t i = 0; i < m_options.workers; ++i) {
      m_workers.emplace_back([this] { work(); });
    }
  } catch (const std::exception& error) {
    return core::fail(core::ErrorCode::environment,
                      "cannot start " + std::to_string(m_options.workers) +
                          " threads: " + error.what() + "; give fewer with --workers");
  }
  for (std::size_t i = 0; i < loops; ++i) {
    m_loops.push_back(std::make_unique<Loop>(m_options, *m_engine, *m_metrics, hooks));
  }
  // The one that accepts starts last: it gives newcomers to the others.
  for (std::size_t i = loops; i-- > 0;) {
    TRY(m_loops[i]->start(i == 0 ? m_listener.fd.get() : -1));
  }
  return {};
}

void Front::work() {
  Idle me;
  while (true) {
    Connection* connection = nullptr;
    {
      std::unique_lock lock(m_queue_mutex);
      while (m_queue.empty() && !m_stopping) {
        me.called = false;
        m_idle.push_back(&me);
        me.wake.wait(lock, [&] { return me.called || m_stopping; });
      }
      if (m_stopping) {
        return;
      }
      connection = m_queue.front();
      m_queue.pop_front();
    }
    try {
      serve(*connection);
    } catch (const std::exception&) {
      // Out of memory, most likely: this connection gives back what it holds.
      drop(*connection);
    }
  }
}

void Front::accept_some() {
  for (int i = 0; i < 64; ++i) {
    sockaddr_storage address{};
    socklen_t size = sizeof address;
    core::UniqueFd fd(::accept4(m_listener.fd.get(), reinterpret_cast<sockaddr*>(&address), &size,
                                SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!fd) {
      const int why = errno;
      if (why == EMFILE || why == ENFILE || why == ENOBUFS || why == ENOMEM) {
        // Whoever goes closes its descriptor on its loop's thread, in a moment.
        [[maybe_unused]] const bool made_room = evict_oldest(nullptr);
        std::this_thread::sleep_for(1ms);
      }
      if (why != ECONNABORTED && why != EINTR) {
        break;
      }
      continue;
    }
    try {
      admit(std::move(fd), describe_peer(reinterpret_cast<const sockaddr*>(&address)));
    } catch (const std::exception&) {
      m_metrics->refused.fetch_add(1);
    }
  }
}

void Front::admit(core::UniqueFd fd, PeerAddress peer) {
  const int on = 1;
  ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  TlsContext::Session session = m_tls != nullptr ? m_tls->session(fd.get()) : nullptr;
  const std::string key = peer_key(peer.text);
  auto connection =
      std::make_unique<Connection>(std::move(fd), std::move(peer), std::move(session), m_patience);

  if (m_draining || !make_room(key)) {
    m_metrics->refused.fetch_add(1);
    return;
  }
  {
    const std::scoped_lock lock(m_peers_mutex);
    ++m_peers[key];
    m_metrics->connections.store(static_cast<std::int64_t>(++m_open));
  }
  m_metrics->accepted.fetch_add(1);
  connection->id = m_next_id++;
  const auto least = std::ranges::min_element(
      m_loops, {}, [](const std::unique_ptr<Loop>& loop) { return loop->size(); });
  (*least)->add(std::move(connection));
}

bool Front::make_room(const std::string& key) {
  bool peer_full = false;
  bool all_full = false;
  {
    const std::scoped_lock lock(m_peers_mutex);
    const auto peer = m_peers.find(key);
    peer_full = m_options.max_per_peer > 0 && peer != m_peers.end() &&
                peer->second >= m_options.max_per_peer;
    all_full = m_open >= m_options.max_connections;
  }
  return peer_full ? evict_oldest(&key) : !all_full || evict_oldest(nullptr);
}

void Front::count_out(const Connection& connection) {
  const std::scoped_lock lock(m_peers_mutex);
  const auto peer = m_peers.find(peer_key(connection.peer().text));
  if (peer != m_peers.end() && --peer->second == 0) {
    m_peers.erase(peer);
  }
  m_metrics->connections.store(static_cast<std::int64_t>(--m_open));
}

bool Front::evict_oldest(const std::string* peer) {
  const auto counts = [peer](const Connection& one) {
    return peer == nullptr || peer_key(one.peer().text) == *peer;
  };
  // The one found may begin to work before it is told: then another is looked for.
  for (int attempt = 0; attempt < 4; ++attempt) {
    Loop* where = nullptr;
    Loop::Idle oldest;
    for (const auto& loop : m_loops) {
      const auto found = loop->oldest_idle(counts);
      if (found && (where == nullptr || std::tie(found->worth, found->parked) <
                                            std::tie(oldest.worth, oldest.parked))) {
        where = loop.get();
        oldest = *found;
      }
    }
    if (where == nullptr) {
      return false;
    }
    if (where->doom(oldest.id, [this](const Connection& one) { count_out(one); })) {
      m_metrics->evicted.fetch_add(1);
      return true;
    }
  }
  return false;
}

void Front::drop(Connection& connection) {
  connection.phase = Connection::Phase::gone;
  ::shutdown(connection.fd(), SHUT_RDWR);
  connection.loop->release(connection, Connection::Io::wait_read);
}

void Front::linger(Connection& connection) {
  connection.begin_linger(m_draining);
  connection.loop->release(connection, Connection::Io::wait_read);
}

void Front::serve(Connection& connection) {
  while (true) {
    const std::optional<Step> step =
        connection.pending ? answer(connection) : admit_request(connection);
    if (step == Step::again) {
      continue;
    }
    if (step) {
      return *step == Step::linger
                 ? linger(connection)
                 : connection.loop->release(connection, Connection::Io::wait_read);
    }
    const Connection::Io outcome = connection.fill();
    if (outcome == Connection::Io::closed) {
      return drop(connection);
    }
    if (outcome != Connection::Io::ok) {
      return connection.loop->release(connection, outcome);
    }
    if (connection.phase == Connection::Phase::idle) {
      connection.phase = Connection::Phase::head;
      connection.deadline = Clock::now() + m_options.head_time;
    }
  }
}

std::optional<Front::Step> Front::admit_request(Connection& connection) {
  const HeadScan scan = scan_head(connection.input, connection.scanned, m_options.head);
  if (scan.state == HeadScan::State::refused) {
    m_engine->refuse(connection, scan.refusal);
    return Step::linger;
  }
  if (scan.state == HeadScan::State::partial) {
    connection.scanned = connection.input.size();
    return std::nullopt;
  }
  const std::string_view head = std::string_view(connection.input).substr(0, scan.size);
  connection.pending = m_engine->admit(connection, head, m_options.head);
  if (!connection.pending) {
    return Step::linger;
  }
  connection.input.erase(0, scan.size);
  connection.scanned = 0;
  if (const std::uint64_t bytes = connection.pending->request.body_bytes; bytes > 0) {
    connection.phase = Connection::Phase::body;
    connection.deadline =
        Clock::now() + m_options.head_time + std::chrono::seconds(bytes / k_body_bytes_a_second);
  }
  return Step::again;
}

std::optional<Front::Step> Front::answer(Connection& connection) {
  PendingRequest& pending = *connection.pending;
  const auto bytes = static_cast<std::size_t>(pending.request.body_bytes);
  if (connection.input.size() < bytes) {
    return std::nullopt;
  }
  if (bytes > 0) {
    std::string rest = connection.input.substr(bytes);
    connection.input.resize(bytes);
    pending.request.body = std::exchange(connection.input, std::move(rest));
  }
  // A drain that began while the answer was sent ends the connection too.
  const bool keep = m_engine->answer(connection, pending) && !m_draining;
  connection.pending.reset();
  if (!keep) {
    return Step::linger;
  }
  const bool more = !connection.input.empty() || connection.has_hidden_input();
  connection.phase = more ? Connection::Phase::head : Connection::Phase::idle;
  connection.deadline = Clock::now() + (more ? m_options.head_time : m_options.idle_time);
  return more ? Step::again : Step::wait;
}

void Front::begin_drain() {
  m_draining = true;
  // Makes the kernel refuse newcomers; the descriptor stays, since a thread may be about to use it.
  ::shutdown(m_listener.fd.get(), SHUT_RDWR);
  for (const auto& loop : m_loops) {
    loop->begin_drain();
  }
}

std::size_t Front::open_connections() const {
  std::size_t open = 0;
  for (const auto& loop : m_loops) {
    open += loop->size();
  }
  return open;
}

void Front::stop() {
  m_patience.abort = true;
  for (const auto& loop : m_loops) {
    loop->shut_all();
  }
  {
    const std::scoped_lock lock(m_queue_mutex);
    m_stopping = true;
    for (Idle* const idle : m_idle) {
      idle->wake.notify_one();
    }
    m_idle.clear();
  }
  for (std::thread& thread : m_workers) {
    thread.join();
  }
  m_workers.clear();
  for (const auto& loop : m_loops) {
    loop->stop();
  }
}

}  // namespace cubinary::server
