// SPDX-License-Identifier: Apache-2.0
#include "server/connection.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "server/pending_answer.hpp"
#include "server/pending_request.hpp"

namespace cubinary::server {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t k_read_bytes = 16U << 10U;
constexpr std::uint64_t k_discard_bytes = 256U << 20U;
constexpr auto k_linger_time = 5s;

/// What a client must manage: without pressure any that makes progress at all at modem speed.
constexpr auto k_stall = 10s;
constexpr auto k_stall_pressed = 1s;
constexpr auto k_grace = 30s;
constexpr auto k_grace_pressed = 2s;
constexpr double k_floor = 16.0 * 1024;
constexpr double k_floor_pressed = 1024.0 * 1024;

}  // namespace

Connection::Connection(core::UniqueFd fd, PeerAddress peer, TlsContext::Session session,
                       SendPatience& patience)
    : m_fd(std::move(fd)),
      m_peer(std::move(peer)),
      m_session(std::move(session)),
      m_patience(&patience) {
}

Connection::~Connection() = default;

Connection::Io Connection::after_tls(int result) {
  const int code = SSL_get_error(m_session.get(), result);
  ERR_clear_error();
  if (code == SSL_ERROR_WANT_READ) {
    return Io::wait_read;
  }
  return code == SSL_ERROR_WANT_WRITE ? Io::wait_write : Io::closed;
}

Connection::Io Connection::fill() {
  thread_local std::array<char, k_read_bytes> scratch;
  char* const into = scratch.data();
  Io outcome = Io::ok;
  std::size_t got = 0;
  if (m_session) {
    const int count = SSL_read(m_session.get(), into, static_cast<int>(k_read_bytes));
    if (count > 0) {
      got = static_cast<std::size_t>(count);
    } else {
      outcome = after_tls(count);
    }
  } else {
    const ssize_t count = ::recv(m_fd.get(), into, k_read_bytes, 0);
    if (count > 0) {
      got = static_cast<std::size_t>(count);
    } else if (count < 0 && (errno == EAGAIN || errno == EINTR)) {
      outcome = Io::wait_read;
    } else {
      outcome = Io::closed;
    }
  }
  input.append(into, got);
  return outcome;
}

bool Connection::has_hidden_input() const {
  return m_session && SSL_pending(m_session.get()) > 0;
}

void Connection::begin_answer() {
  m_answer_begin = Clock::now();
  m_sent = 0;
}

Connection::Io Connection::send_some(std::string_view first, std::string_view second,
                                     bool more_follows, std::size_t& sent) {
  if (m_session) {
    const std::string_view part = first.empty() ? second : first;
    const int count = SSL_write(m_session.get(), part.data(),
                                static_cast<int>(std::min<std::size_t>(part.size(), 1U << 30U)));
    if (count <= 0) {
      return after_tls(count);
    }
    sent = static_cast<std::size_t>(count);
    return Io::ok;
  }
  std::array<iovec, 2> parts = {
      iovec{const_cast<char*>(first.data()), first.size()},
      iovec{const_cast<char*>(second.data()), second.size()},
  };
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = parts.size();
  const ssize_t count =
      ::sendmsg(m_fd.get(), &message, MSG_NOSIGNAL | (more_follows ? MSG_MORE : 0));
  if (count >= 0) {
    sent = static_cast<std::size_t>(count);
    return Io::ok;
  }
  return errno == EAGAIN || errno == EINTR ? Io::wait_write : Io::closed;
}

bool Connection::send(std::string_view first, std::string_view second) {
  while (!first.empty() || !second.empty()) {
    std::size_t sent = 0;
    const Io outcome = send_some(first, second, false, sent);
    if (outcome == Io::closed) {
      return false;
    }
    if (outcome != Io::ok) {
      if (!wait_for_client(outcome == Io::wait_read ? POLLIN : POLLOUT)) {
        return false;
      }
      continue;
    }
    m_sent += sent;
    const std::size_t of_first = std::min(sent, first.size());
    first.remove_prefix(of_first);
    second.remove_prefix(sent - of_first);
  }
  return true;
}

Connection::Io Connection::send_file(const Outgoing& outgoing, std::uint64_t most,
                                     std::size_t& sent) {
  auto offset = static_cast<off_t>(outgoing.offset);
  const ssize_t count = ::sendfile(m_fd.get(), outgoing.blob->file(), &offset,
                                   std::min(outgoing.end - outgoing.offset, most));
  if (count > 0) {
    sent = static_cast<std::size_t>(count);
    return Io::ok;
  }
  return count < 0 && (errno == EAGAIN || errno == EINTR) ? Io::wait_write : Io::closed;
}

Connection::Io Connection::push(Outgoing& outgoing, std::uint64_t most) {
  const bool from_file = !m_session && outgoing.blob != nullptr && outgoing.blob->file() >= 0;
  for (std::uint64_t budget = most; !outgoing.done() && budget > 0;) {
    std::size_t sent = 0;
    Io outcome = Io::ok;
    if (from_file && outgoing.head.empty()) {
      outcome = send_file(outgoing, budget, sent);
    } else {
      std::string_view body;
      if (outgoing.blob != nullptr && !from_file) {
        body = outgoing.blob->bytes().substr(outgoing.offset,
                                             std::min(outgoing.end - outgoing.offset, budget));
      }
      // The head leaves with the first bytes of the file.
      outcome = send_some(outgoing.head, body, from_file && outgoing.offset < outgoing.end, sent);
    }
    if (outcome != Io::ok) {
      return outcome;
    }
    m_sent += sent;
    budget -= std::min<std::uint64_t>(budget, sent);
    const std::size_t of_head = std::min(sent, outgoing.head.size());
    outgoing.head.remove_prefix(of_head);
    outgoing.offset += sent - of_head;
  }
  return Io::ok;
}

bool Connection::send(Outgoing outgoing) {
  while (!outgoing.done()) {
    const Io outcome = push(outgoing, UINT64_MAX);
    if (outcome == Io::closed ||
        (outcome != Io::ok && !wait_for_client(outcome == Io::wait_read ? POLLIN : POLLOUT))) {
      return false;
    }
  }
  return true;
}

bool Connection::too_slow(Clock::time_point now, bool pressed) const {
  const auto age = now - m_answer_begin;
  return age > (pressed ? Clock::duration(k_grace_pressed) : Clock::duration(k_grace)) &&
         static_cast<double>(m_sent) <
             std::chrono::duration<double>(age).count() * (pressed ? k_floor_pressed : k_floor);
}

bool Connection::wait_for_client(short events) {
  m_patience->waiting.fetch_add(1);
  const Clock::time_point begin = Clock::now();
  bool ready = false;
  while (!m_patience->abort) {
    pollfd one{m_fd.get(), events, 0};
    const int count = ::poll(&one, 1, 100);
    const Clock::time_point now = Clock::now();
    if (too_slow(now, m_patience->pressed())) {
      break;
    }
    if (count > 0) {
      ready = (one.revents & (POLLERR | POLLNVAL)) == 0;
      break;
    }
    if (now - begin > (m_patience->pressed() ? k_stall_pressed : k_stall)) {
      break;
    }
  }
  m_patience->waiting.fetch_sub(1);
  return ready;
}

void Connection::begin_linger(bool draining) {
  phase = Phase::linger;
  deadline = Clock::now() + (draining ? k_drain_time : k_linger_time);
  input.clear();
  if (m_session) {
    SSL_shutdown(m_session.get());
    ERR_clear_error();
  }
  ::shutdown(m_fd.get(), SHUT_WR);
}

bool Connection::discard() {
  std::array<char, k_read_bytes> scratch;
  for (int round = 0; round < 16; ++round) {
    const ssize_t count = ::recv(m_fd.get(), scratch.data(), scratch.size(), 0);
    if (count < 0) {
      return errno == EAGAIN || errno == EINTR;
    }
    m_discarded += static_cast<std::uint64_t>(count);
    if (count == 0 || m_discarded > k_discard_bytes) {
      return false;
    }
  }
  return true;
}

}  // namespace cubinary::server
