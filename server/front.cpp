// SPDX-License-Identifier: Apache-2.0
#include "server/front.hpp"

#include <algorithm>
#include <cerrno>
#include <exception>
#include <tuple>
#include <utility>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

namespace cubinary::server {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t k_listener_id = 0;
constexpr std::uint64_t k_wake_id = 1;
constexpr std::uint64_t k_first_id = 2;
/// An upload slower than this is given up.
constexpr std::uint64_t k_body_bytes_a_second = 64U << 10U;
constexpr auto k_linger_time = 5s;
constexpr auto k_drain_linger_time = 1s;

std::uint32_t events_of(Connection::Io wait) {
  return (wait == Connection::Io::wait_write ? EPOLLOUT : EPOLLIN) | EPOLLONESHOT;
}

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
      m_patience(static_cast<std::int64_t>(options.workers)),
      m_next_id(k_first_id) {
}

Front::~Front() {
  stop();
}

core::Result<void> Front::start() {
  m_epoll = core::UniqueFd(::epoll_create1(EPOLL_CLOEXEC));
  m_wake = core::UniqueFd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  epoll_event listening{EPOLLIN | EPOLLONESHOT, {.u64 = k_listener_id}};
  epoll_event waking{EPOLLIN, {.u64 = k_wake_id}};
  if (!m_epoll || !m_wake ||
      ::epoll_ctl(m_epoll.get(), EPOLL_CTL_ADD, m_listener.fd.get(), &listening) != 0 ||
      ::epoll_ctl(m_epoll.get(), EPOLL_CTL_ADD, m_wake.get(), &waking) != 0) {
    return core::fail(core::errno_error("cannot wait for connections", errno));
  }
  try {
    for (std::size_t i = 0; i < m_options.workers; ++i) {
      m_threads.emplace_back([this] { work(); });
    }
  } catch (const std::exception& error) {
    return core::fail(core::ErrorCode::environment,
                      "cannot start " + std::to_string(m_options.workers) +
                          " threads: " + error.what() + "; give fewer with --workers");
  }
  return {};
}

void Front::work() {
  while (true) {
    epoll_event event{};
    const int count = ::epoll_wait(m_epoll.get(), &event, 1, -1);
    if (count < 0 && errno != EINTR) {
      return;
    }
    if (count <= 0) {
      continue;
    }
    if (event.data.u64 == k_wake_id) {
      return;
    }
    if (event.data.u64 == k_listener_id) {
      accept_some();
      continue;
    }
    Connection* const connection = claim(event.data.u64);
    if (connection == nullptr) {
      continue;
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
        std::unique_lock lock(m_mutex);
        const bool made_room = evict_oldest(nullptr);
        lock.unlock();
        if (!made_room) {
          std::this_thread::sleep_for(10ms);
        }
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
  if (!m_draining) {
    epoll_event listening{EPOLLIN | EPOLLONESHOT, {.u64 = k_listener_id}};
    ::epoll_ctl(m_epoll.get(), EPOLL_CTL_MOD, m_listener.fd.get(), &listening);
  }
}

void Front::admit(core::UniqueFd fd, PeerAddress peer) {
  const int on = 1;
  ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  TlsContext::Session session = m_tls != nullptr ? m_tls->session(fd.get()) : nullptr;
  const std::string key = peer_key(peer.text);
  auto connection =
      std::make_unique<Connection>(std::move(fd), std::move(peer), std::move(session), m_patience);

  const std::scoped_lock lock(m_mutex);
  std::size_t& of_peer = m_peers[key];
  const bool peer_full = m_options.max_per_peer > 0 && of_peer >= m_options.max_per_peer;
  const bool all_full = m_connections.size() >= m_options.max_connections;
  if (m_draining || (peer_full && !evict_oldest(&key)) ||
      (!peer_full && all_full && !evict_oldest(nullptr))) {
    if (of_peer == 0) {
      m_peers.erase(key);
    }
    m_metrics->refused.fetch_add(1);
    return;
  }
  Connection& added = *connection;
  added.id = m_next_id++;
  added.parked = Clock::now();
  added.deadline = added.parked + m_options.head_time;
  added.busy = false;
  ++m_peers[key];
  m_connections.emplace(added.id, std::move(connection));
  m_metrics->accepted.fetch_add(1);
  m_metrics->connections.store(static_cast<std::int64_t>(m_connections.size()));
  epoll_event event{events_of(Connection::Io::wait_read), {.u64 = added.id}};
  ::epoll_ctl(m_epoll.get(), EPOLL_CTL_ADD, added.fd(), &event);
}

Connection* Front::claim(std::uint64_t id) {
  const std::scoped_lock lock(m_mutex);
  const auto found = m_connections.find(id);
  if (found == m_connections.end() || found->second->busy) {
    return nullptr;
  }
  found->second->busy = true;
  return found->second.get();
}

std::unique_ptr<Connection> Front::take_out(std::uint64_t id) {
  const auto found = m_connections.find(id);
  std::unique_ptr<Connection> connection = std::move(found->second);
  m_connections.erase(found);
  const auto peer = m_peers.find(peer_key(connection->peer().text));
  if (peer != m_peers.end() && --peer->second == 0) {
    m_peers.erase(peer);
  }
  m_metrics->connections.store(static_cast<std::int64_t>(m_connections.size()));
  return connection;
}

void Front::drop(Connection& connection) {
  std::unique_ptr<Connection> gone;  // closed after the lock is given back
  const std::scoped_lock lock(m_mutex);
  gone = take_out(connection.id);
}

bool Front::evict_oldest(const std::string* peer) {
  const Connection* oldest = nullptr;
  // Idle ones go first, then those that begin a request, then those whose body is under way.
  const auto rank = [](const Connection& one) {
    const int worth = one.phase == Connection::Phase::body   ? 2
                      : one.phase == Connection::Phase::head ? 1
                                                             : 0;
    return std::tuple(worth, one.parked);
  };
  for (const auto& [id, one] : m_connections) {
    if (one->busy || (peer != nullptr && peer_key(one->peer().text) != *peer)) {
      continue;
    }
    if (oldest == nullptr || rank(*one) < rank(*oldest)) {
      oldest = one.get();
    }
  }
  if (oldest == nullptr) {
    return false;
  }
  m_metrics->evicted.fetch_add(1);
  const auto gone = take_out(oldest->id);
  return true;
}

void Front::park(Connection& connection, Connection::Io wait) {
  // Within the lock: once not busy, the sweeper may close the socket at any moment.
  const std::scoped_lock lock(m_mutex);
  connection.parked = Clock::now();
  connection.busy = false;
  epoll_event event{events_of(wait), {.u64 = connection.id}};
  ::epoll_ctl(m_epoll.get(), EPOLL_CTL_MOD, connection.fd(), &event);
}

void Front::linger(Connection& connection) {
  connection.begin_linger();
  connection.deadline = Clock::now() + (m_draining ? Clock::duration(k_drain_linger_time)
                                                   : Clock::duration(k_linger_time));
  park(connection, Connection::Io::wait_read);
}

void Front::serve(Connection& connection) {
  if (connection.phase == Connection::Phase::linger) {
    if (connection.discard()) {
      park(connection, Connection::Io::wait_read);
    } else {
      drop(connection);
    }
    return;
  }
  while (true) {
    const std::optional<Step> step =
        connection.pending ? answer(connection) : admit_request(connection);
    if (step == Step::again) {
      continue;
    }
    if (step) {
      return *step == Step::linger ? linger(connection)
                                   : park(connection, Connection::Io::wait_read);
    }
    const Connection::Io outcome = connection.fill();
    if (outcome == Connection::Io::closed) {
      return drop(connection);
    }
    if (outcome != Connection::Io::ok) {
      return park(connection, outcome);
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

void Front::sweep() {
  const Clock::time_point now = Clock::now();
  std::vector<std::unique_ptr<Connection>> gone;
  const std::scoped_lock lock(m_mutex);
  std::vector<std::uint64_t> late;
  for (const auto& [id, one] : m_connections) {
    if (!one->busy && one->deadline < now) {
      late.push_back(id);
    }
  }
  for (const std::uint64_t id : late) {
    gone.push_back(take_out(id));
    if (gone.back()->phase == Connection::Phase::head ||
        gone.back()->phase == Connection::Phase::body) {
      m_metrics->timed_out.fetch_add(1);
    }
  }
}

void Front::begin_drain() {
  m_draining = true;
  // Makes the kernel refuse newcomers; the descriptor stays, since a thread may be about to use it.
  ::shutdown(m_listener.fd.get(), SHUT_RDWR);
  const Clock::time_point soon = Clock::now() + k_drain_linger_time;
  const std::scoped_lock lock(m_mutex);
  std::vector<std::uint64_t> idle;
  for (const auto& [id, one] : m_connections) {
    if (one->busy) {
      continue;
    }
    if (one->phase == Connection::Phase::idle) {
      idle.push_back(id);
    } else if (one->input.empty() && !one->pending) {
      one->deadline = std::min(one->deadline, soon);
    }
  }
  for (const std::uint64_t id : idle) {
    const auto gone = take_out(id);
  }
}

std::size_t Front::open_connections() const {
  const std::scoped_lock lock(m_mutex);
  return m_connections.size();
}

void Front::stop() {
  if (m_threads.empty()) {
    return;
  }
  m_patience.abort = true;
  {
    const std::scoped_lock lock(m_mutex);
    for (const auto& [id, one] : m_connections) {
      ::shutdown(one->fd(), SHUT_RDWR);
    }
  }
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(m_wake.get(), &one, sizeof one);
  for (std::thread& thread : m_threads) {
    thread.join();
  }
  m_threads.clear();
}

}  // namespace cubinary::server
