// SPDX-License-Identifier: Apache-2.0
#include "server/engine.hpp"

#include <chrono>
#include <exception>
#include <string>
#include <utility>

#include <httplib.h>

namespace cubinary::server {
namespace {

/// Headers, and a body that fits beside them, leave in one piece.
constexpr std::size_t k_joined_bytes = 16U << 10U;

/// What httplib takes for the socket: it reads the one head it is given and writes to the
/// connection. Its own stream asks the kernel up to three times before each write whether the peer
/// is alive.
class HeadStream final : public httplib::Stream {
 public:
  HeadStream(std::string head, Connection& connection)
      : m_head(std::move(head)), m_connection(&connection) {}

  bool is_readable() const override { return m_taken < m_head.size(); }
  bool wait_readable() const override { return is_readable(); }
  bool wait_writable() const override { return !m_failed; }
  bool is_peer_alive() const override { return !m_failed; }

  ssize_t read(char* into, std::size_t size) override {
    const std::size_t count = m_head.copy(into, size, m_taken);
    m_taken += count;
    return static_cast<ssize_t>(count);
  }
  ssize_t write(const char* bytes, std::size_t size) override {
    if (m_failed) {
      return -1;
    }
    if (m_pending.size() + size <= k_joined_bytes) {
      m_pending.append(bytes, size);
      return static_cast<ssize_t>(size);
    }
    m_failed = !m_connection->send(m_pending, {bytes, size});
    m_pending.clear();
    return m_failed ? -1 : static_cast<ssize_t>(size);
  }
  /// Sends what is held back; false when any of the answer did not leave.
  bool finish() {
    m_failed = m_failed || !m_connection->send(m_pending);
    m_pending.clear();
    return !m_failed;
  }

  void get_remote_ip_and_port(std::string&, int&) const override {}
  void get_local_ip_and_port(std::string&, int&) const override {}
  int socket() const override { return m_connection->fd(); }
  time_t duration() const override { return 0; }

 private:
  std::string m_head;
  std::size_t m_taken = 0;
  Connection* m_connection;
  std::string m_pending;
  bool m_failed = false;
};

/// One request on its way through httplib, which carries no context of ours to its callbacks.
struct Exchange {
  const RequestHead* head = nullptr;
  const PeerAddress* peer = nullptr;
  bool close = false;
  bool handled = false;
  Route route = Route::unknown;
  int status = 400;
  std::string token;
  std::string note;
};
thread_local Exchange* t_exchange = nullptr;

/// httplib calls this outside its own exception guard.
bool stream_body(const BodyReader& reader, std::uint64_t offset, std::uint64_t length,
                 httplib::DataSink& sink, std::string& note) {
  try {
    const auto done = reader(offset, length, [&](core::ByteView piece) {
      const std::string_view text = core::as_text(piece);
      return sink.write(text.data(), text.size());
    });
    if (!done) {
      note = done.error().message;
    }
    return done.has_value();
  } catch (const std::exception& error) {
    note = error.what();
    return false;
  }
}

std::string render(const Response& response) {
  std::string text = "HTTP/1.1 " + std::to_string(response.status) + " " +
                     httplib::status_message(response.status) + "\r\n";
  for (const auto& [name, value] : response.headers) {
    text.append(name).append(": ").append(value).append("\r\n");
  }
  text.append("Content-Type: ").append(response.content_type);
  text.append("\r\nContent-Length: ").append(std::to_string(response.body.size()));
  text.append("\r\nConnection: close\r\n\r\n").append(response.body);
  return text;
}

}  // namespace

/// httplib's request parser and response writer, without its sockets, threads, routes and file
/// serving.
class Engine::Http final : private httplib::Server {
 public:
  explicit Http(Service& service) {
    // Streaming stops when this is no socket; no socket of httplib's is ever opened.
    svr_sock_ = 0;
    set_pre_routing_handler([&service](const httplib::Request& from, httplib::Response& to) {
      route(service, from, to);
      return HandlerResponse::Handled;
    });
    set_error_handler([](const httplib::Request&, httplib::Response& to) {
      // Refused by httplib's own parser, before routing.
      if (!t_exchange->handled) {
        Response response = error_response(to.status, "BAD_REQUEST", "the request is malformed");
        to.set_content(std::move(response.body), response.content_type);
      }
    });
    set_post_routing_handler([](const httplib::Request&, httplib::Response& to) {
      // httplib says close after every error and counts requests differently: the front decides.
      to.headers.erase("Connection");
      to.headers.erase("Keep-Alive");
      if (t_exchange->close) {
        to.headers.emplace("Connection", "close");
      }
      t_exchange->status = to.status;
    });
  }
  ~Http() override { svr_sock_ = INVALID_SOCKET; }

  bool process(HeadStream& stream) {
    bool closed = false;
    return process_request(stream, std::string(), 0, std::string(), 0, false, closed, nullptr);
  }
  void abort() { svr_sock_ = INVALID_SOCKET; }

 private:
  static void route(Service& service, const httplib::Request& from, httplib::Response& to) {
    Exchange& exchange = *t_exchange;
    const RequestHead& head = *exchange.head;
    Request request;
    request.method = head.method;
    request.path = from.path;
    request.query.assign(from.params.begin(), from.params.end());
    request.host = head.host;
    request.authorization = head.authorization;
    request.if_none_match = head.if_none_match;
    request.if_range = head.if_range;
    request.range = head.range;
    request.peer = exchange.peer->text;
    request.loopback = exchange.peer->loopback;

    Response response = service.handle(request, exchange.route);
    exchange.handled = true;
    exchange.token = std::move(response.token);
    to.status = response.status;
    for (auto& [name, value] : response.headers) {
      to.headers.emplace(std::move(name), std::move(value));
    }
    if (response.status == 304) {
      // The length a 200 would have had; httplib would say 0.
      to.headers.emplace("Content-Length", std::to_string(response.length));
      return;
    }
    if (!response.reader) {
      to.set_content(std::move(response.body), response.content_type);
      return;
    }
    to.set_content_provider(static_cast<std::size_t>(response.length), response.content_type,
                            [reader = std::move(response.reader), &exchange](
                                std::size_t offset, std::size_t length, httplib::DataSink& sink) {
                              return stream_body(reader, offset, length, sink, exchange.note);
                            });
  }
};

Engine::Engine(Service& service, Metrics& metrics, const AccessLog& log)
    : m_service(&service),
      m_metrics(&metrics),
      m_log(&log),
      m_http(std::make_unique<Http>(service)) {
}
Engine::~Engine() = default;

void Engine::abort() {
  m_http->abort();
}

bool Engine::answer(Connection& connection, std::string_view head, const HeadLimits& limits) {
  auto parsed = parse_head(head, limits);
  if (!parsed) {
    refuse(connection, parsed.error());
    return false;
  }
  const Clock::time_point begin = Clock::now();
  m_metrics->in_flight.fetch_add(1);
  connection.begin_answer();

  Exchange exchange;
  exchange.head = &*parsed;
  exchange.peer = &connection.peer();
  exchange.close = parsed->close || m_draining;
  // Only the request line goes on: httplib percent-decodes header values, answers 416 to range
  // units it does not know, and acts on Expect, Upgrade and Accept, none of which is wanted here.
  std::string forwarded = parsed->method;
  forwarded.append(" ").append(parsed->target).append(" HTTP/1.1\r\n\r\n");
  HeadStream stream(std::move(forwarded), connection);
  t_exchange = &exchange;
  bool whole = false;
  try {
    whole = m_http->process(stream);
  } catch (const std::exception& error) {
    exchange.note = error.what();
  }
  t_exchange = nullptr;
  whole = stream.finish() && whole;

  m_metrics->in_flight.fetch_sub(1);
  if (!whole) {
    m_metrics->broken_bodies.fetch_add(1);
    if (exchange.note.empty()) {
      exchange.note = "the client is gone or too slow";
    }
  }
  const auto duration = Clock::now() - begin;
  m_metrics->count_request(exchange.route, exchange.status, connection.sent(), duration);
  m_log->write({.peer = connection.peer().text,
                .forwarded_for = parsed->forwarded_for,
                .method = parsed->method,
                .target = parsed->target,
                .route = exchange.route,
                .status = exchange.status,
                .bytes = connection.sent(),
                .duration = duration,
                .token = exchange.token,
                .note = exchange.note});
  return whole && !exchange.close;
}

void Engine::refuse(Connection& connection, const HeadRefusal& refusal) {
  const Clock::time_point begin = Clock::now();
  connection.begin_answer();
  const bool whole =
      connection.send(render(error_response(refusal.status, "BAD_REQUEST", refusal.message)));
  m_metrics->bad_heads.fetch_add(1);
  const auto duration = Clock::now() - begin;
  m_metrics->count_request(Route::unknown, refusal.status, connection.sent(), duration);
  m_log->write(
      {.peer = connection.peer().text,
       .forwarded_for = {},
       .method = {},
       .target = {},
       .route = Route::unknown,
       .status = refusal.status,
       .bytes = connection.sent(),
       .duration = duration,
       .token = {},
       .note = whole ? std::string_view(refusal.message) : std::string_view("the client is gone")});
}

}  // namespace cubinary::server
