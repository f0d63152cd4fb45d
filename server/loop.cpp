// SPDX-License-Identifier: Apache-2.0
#include "server/loop.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <exception>
#include <tuple>
#include <utility>

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "server/pending_answer.hpp"
#include "server/pending_request.hpp"

namespace cubinary::server {
namespace {

using namespace std::chrono_literals;
using Phase = Connection::Phase;
using Hold = Connection::Hold;

/// Reads of one connection before others have their turn.
constexpr int k_turn_reads = 32;
constexpr auto k_sweep_time = 200ms;

std::uint32_t events_of(Connection::Io wait) {
  return wait == Connection::Io::wait_write ? EPOLLOUT : EPOLLIN;
}

}  // namespace

core::Result<void> Loop::start(int listener) {
  m_listener = listener;
  m_epoll = core::UniqueFd(::epoll_create1(EPOLL_CLOEXEC));
  m_wake = core::UniqueFd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  epoll_event listening{EPOLLIN, {.ptr = &m_listener}};
  epoll_event waking{EPOLLIN, {.ptr = &m_wake}};
  if (!m_epoll || !m_wake ||
      ::epoll_ctl(m_epoll.get(), EPOLL_CTL_ADD, m_wake.get(), &waking) != 0 ||
      (listener >= 0 && ::epoll_ctl(m_epoll.get(), EPOLL_CTL_ADD, listener, &listening) != 0)) {
    return core::fail(core::errno_error("cannot wait for connections", errno));
  }
  try {
    m_thread = std::thread([this] { run(); });
  } catch (const std::exception& error) {
    return core::fail(core::ErrorCode::environment,
                      std::string("cannot start a thread: ") + error.what());
  }
  return {};
}

void Loop::run() {
  std::array<epoll_event, 128> events;
  while (!m_stop) {
    const bool timed = m_size > 0;
    const int count = ::epoll_wait(m_epoll.get(), events.data(), static_cast<int>(events.size()),
                                   timed ? static_cast<int>(k_sweep_time / 1ms) : -1);
    if (count < 0 && errno != EINTR) {
      return;
    }
    m_now = Clock::now();
    for (int i = 0; i < count; ++i) {
      void* const about = events[static_cast<std::size_t>(i)].data.ptr;
      if (about == &m_wake) {
        std::uint64_t times = 0;
        [[maybe_unused]] const auto got = ::read(m_wake.get(), &times, sizeof times);
        m_swept = {};
      } else if (about == &m_listener) {
        m_hooks.accept();
      } else {
        turn(*static_cast<Connection*>(about));
      }
    }
    if (m_now - m_swept >= k_sweep_time) {
      m_swept = m_now;
      sweep(m_now);
    }
  }
}

void Loop::add(std::unique_ptr<Connection> connection) {
  Connection& added = *connection;
  added.loop = this;
  added.parked = Clock::now();
  added.deadline = added.parked.load() + m_options->head_time;
  const std::uint64_t id = added.id;
  {
    const std::scoped_lock lock(m_mutex);
    m_connections.emplace(id, std::move(connection));
    m_size = m_connections.size();
  }
  added.awaited = EPOLLIN;
  epoll_event event{EPOLLIN, {.ptr = &added}};
  ::epoll_ctl(m_epoll.get(), EPOLL_CTL_ADD, added.fd(), &event);
  added.hold.store(Hold::free, std::memory_order_release);
  if (m_size == 1) {
    const std::uint64_t one = 1;  // it waits without a time, and must sweep from now on
    [[maybe_unused]] const auto written = ::write(m_wake.get(), &one, sizeof one);
  }
}

void Loop::release(Connection& connection, Connection::Io wait) {
  connection.parked = Clock::now();
  connection.awaited = events_of(wait);
  // Before it is free: afterwards its loop may close it at any moment. The loop sees an event of a
  // held connection again.
  epoll_event event{connection.awaited, {.ptr = &connection}};
  ::epoll_ctl(m_epoll.get(), EPOLL_CTL_MOD, connection.fd(), &event);
  connection.hold.store(Hold::free, std::memory_order_release);
}

void Loop::turn(Connection& connection) {
  Hold expected = Hold::free;
  if (!connection.hold.compare_exchange_strong(expected, Hold::working,
                                               std::memory_order_acquire)) {
    if (expected == Hold::doomed) {
      close(connection);
    }
    return;
  }
  try {
    work(connection);
  } catch (const std::exception&) {
    // Out of memory, most likely: this connection gives back what it holds.
    close(connection);
  }
}

void Loop::work(Connection& connection) {
  if (connection.phase == Phase::gone) {
    return close(connection);
  }
  if (connection.phase == Phase::linger) {
    return connection.discard() ? await(connection, Connection::Io::wait_read) : close(connection);
  }
  if (connection.answer) {
    Connection::Io wait{};
    const Engine::Progress progress = m_engine->go_on(connection, wait);
    if (!after(connection, progress, wait)) {
      return;
    }
  }
  for (int reads = 0;; ++reads) {
    if (connection.pending) {
      if (connection.input.size() >= connection.pending->request.body_bytes) {
        return hand_over(connection);
      }
    } else if (!connection.input.empty()) {
      bool again = false;
      if (take_head(connection, again)) {
        return;
      }
      if (again) {
        continue;
      }
    }
    // Only after what the last read brought was looked at: it may be all there is to come.
    if (reads >= k_turn_reads && !connection.has_hidden_input()) {
      return await(connection, Connection::Io::wait_read);
    }
    const Connection::Io outcome = connection.fill();
    if (outcome == Connection::Io::closed) {
      return close(connection);
    }
    if (outcome != Connection::Io::ok) {
      return await(connection, outcome);
    }
    if (connection.phase == Phase::idle) {
      connection.phase = Phase::head;
      connection.deadline = m_now + m_options->head_time;
    }
  }
}

bool Loop::take_head(Connection& connection, bool& again) {
  const HeadScan scan = scan_head(connection.input, connection.scanned, m_options->head);
  if (scan.state == HeadScan::State::partial) {
    connection.scanned = connection.input.size();
    return false;
  }
  if (scan.state == HeadScan::State::refused) {
    hand_over(connection);
    return true;
  }
  const std::string_view head = std::string_view(connection.input).substr(0, scan.size);
  Connection::Io wait{};
  const auto progress =
      m_engine->answer_from_memory(connection, head, m_options->head, m_hot, wait);
  if (!progress) {
    hand_over(connection);
    return true;
  }
  connection.input.erase(0, scan.size);
  connection.scanned = 0;
  again = after(connection, *progress, wait);
  return !again;
}

bool Loop::after(Connection& connection, Engine::Progress progress, Connection::Io wait) {
  switch (progress) {
    case Engine::Progress::waiting:
      connection.phase = Phase::answer;
      await(connection, wait == Connection::Io::ok ? Connection::Io::wait_write : wait);
      return false;
    case Engine::Progress::broken:
      close(connection);
      return false;
    case Engine::Progress::close:
      linger(connection);
      return false;
    case Engine::Progress::keep:
      break;
  }
  const bool more = !connection.input.empty() || connection.has_hidden_input();
  connection.phase = more ? Phase::head : Phase::idle;
  connection.deadline = m_now + (more ? m_options->head_time : m_options->idle_time);
  if (m_draining && !more) {
    linger(connection);
    return false;
  }
  if (!more) {
    // What the client asks next is not there yet: it has just got its answer.
    await(connection, Connection::Io::wait_read);
  }
  return more;
}

void Loop::hand_over(Connection& connection) {
  connection.awaited = 0;
  epoll_event event{EPOLLONESHOT, {.ptr = &connection}};
  ::epoll_ctl(m_epoll.get(), EPOLL_CTL_MOD, connection.fd(), &event);
  m_hooks.hand_over(connection);
}

void Loop::await(Connection& connection, Connection::Io wait) {
  if (connection.awaited != events_of(wait)) {
    connection.awaited = events_of(wait);
    epoll_event event{connection.awaited, {.ptr = &connection}};
    ::epoll_ctl(m_epoll.get(), EPOLL_CTL_MOD, connection.fd(), &event);
  }
  connection.parked.store(m_now, std::memory_order_relaxed);
  connection.hold.store(Hold::free, std::memory_order_release);
}

void Loop::linger(Connection& connection) {
  connection.begin_linger(m_draining);
  await(connection, Connection::Io::wait_read);
}

void Loop::close(Connection& connection) {
  if (connection.answer) {
    m_engine->give_up(connection);
  }
  m_hooks.closed(connection);
  std::unique_ptr<Connection> gone;  // closed after the lock is given back
  const std::scoped_lock lock(m_mutex);
  const auto found = m_connections.find(connection.id);
  gone = std::move(found->second);
  m_connections.erase(found);
  m_size = m_connections.size();
}

void Loop::sweep(Clock::time_point now) {
  m_hot.prune();
  if (m_draining && m_listener >= 0) {
    ::epoll_ctl(m_epoll.get(), EPOLL_CTL_DEL, m_listener, nullptr);
    m_listener = -1;
  }
  // Only this thread takes anything out, so that what is found stays.
  std::vector<Connection*> late;
  {
    const std::scoped_lock lock(m_mutex);
    for (const auto& [id, one] : m_connections) {
      Hold expected = Hold::free;
      if (!one->hold.compare_exchange_strong(expected, Hold::working, std::memory_order_acquire)) {
        if (expected == Hold::doomed) {
          late.push_back(one.get());
        }
        continue;
      }
      if (m_draining && one->phase == Phase::idle) {
        one->deadline = {};
      } else if (m_draining && one->phase == Phase::head && one->input.empty()) {
        one->deadline = std::min(one->deadline, now + Connection::k_drain_time);
      }
      if (one->deadline < now || (one->answer && one->too_slow(now, false))) {
        late.push_back(one.get());
      } else {
        one->hold.store(Hold::free, std::memory_order_release);
      }
    }
  }
  for (Connection* const one : late) {
    const Phase phase = one->phase;
    if (one->hold != Hold::doomed &&
        (phase == Phase::head || phase == Phase::body || phase == Phase::answer)) {
      m_metrics->timed_out.fetch_add(1);
    }
    close(*one);
  }
}

std::optional<Loop::Idle> Loop::oldest_idle(
    const std::function<bool(const Connection&)>& counts) const {
  // Idle ones go first, then those that begin a request, then those whose body or answer is under
  // way.
  const auto worth = [](Phase phase) {
    return phase == Phase::body || phase == Phase::answer ? 2 : phase == Phase::head ? 1 : 0;
  };
  std::optional<Idle> oldest;
  const std::scoped_lock lock(m_mutex);
  for (const auto& [id, one] : m_connections) {
    if (one->hold != Hold::free || (counts && !counts(*one))) {
      continue;
    }
    const Idle idle{id, worth(one->phase), one->parked};
    if (!oldest || std::tie(idle.worth, idle.parked) < std::tie(oldest->worth, oldest->parked)) {
      oldest = idle;
    }
  }
  return oldest;
}

bool Loop::doom(std::uint64_t id, const std::function<void(const Connection&)>& told) {
  const std::scoped_lock lock(m_mutex);
  const auto found = m_connections.find(id);
  if (found == m_connections.end()) {
    return false;
  }
  Hold expected = Hold::free;
  if (!found->second->hold.compare_exchange_strong(expected, Hold::doomed)) {
    return false;
  }
  told(*found->second);
  // Its loop is told by the end of the stream, and closes it.
  ::shutdown(found->second->fd(), SHUT_RDWR);
  return true;
}

void Loop::begin_drain() {
  m_draining = true;
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(m_wake.get(), &one, sizeof one);
}

void Loop::shut_all() {
  const std::scoped_lock lock(m_mutex);
  for (const auto& [id, one] : m_connections) {
    ::shutdown(one->fd(), SHUT_RDWR);
  }
}

void Loop::stop() {
  m_stop = true;
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(m_wake.get(), &one, sizeof one);
  if (m_thread.joinable()) {
    m_thread.join();
  }
}

}  // namespace cubinary::server
