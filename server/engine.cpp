// SPDX-License-Identifier: Apache-2.0
#include "server/engine.hpp"

#include <array>
#include <chrono>
#include <ctime>
#include <exception>
#include <string>
#include <utility>

#include "server/pending_answer.hpp"

namespace cubinary::server {
namespace {

/// The current second as an HTTP date; formatted once a second and thread.
std::string_view http_date() {
  thread_local std::time_t at = 0;
  thread_local std::array<char, 40> text{};
  const std::time_t now = std::time(nullptr);
  if (now != at) {
    std::tm utc{};
    gmtime_r(&now, &utc);
    std::strftime(text.data(), text.size(), "%a, %d %b %Y %H:%M:%S GMT", &utc);
    at = now;
  }
  return text.data();
}

constexpr std::string_view k_note_gone = "the client is gone or too slow";
/// As much of an answer leaves before others have their turn.
constexpr std::uint64_t k_turn_bytes = 8U << 20U;
constexpr auto k_stall_time = std::chrono::seconds(10);

/// What follows the date in a head, without the empty line.
std::string head_rest(const Response& response) {
  std::string text;
  text.reserve(512);
  for (const auto& [name, value] : response.headers) {
    text.append("\r\n").append(name).append(": ").append(value);
  }
  if (response.status != 204 && response.status != 304 && !response.content_type.empty()) {
    text.append("\r\nContent-Type: ").append(response.content_type);
  }
  if (response.status != 204) {
    text.append("\r\nContent-Length: ").append(std::to_string(response.length));
  }
  return text;
}

std::string_view head_end(bool close) {
  return close ? "\r\nConnection: close\r\n\r\n" : "\r\n\r\n";
}

std::string render_head(const Response& response, bool close) {
  std::string text = "HTTP/1.1 " + std::to_string(response.status) + " ";
  text.append(status_phrase(response.status)).append("\r\nDate: ").append(http_date());
  return text.append(head_rest(response)).append(head_end(close));
}

std::unique_ptr<PendingRequest> make_request(const Connection& connection, RequestHead head) {
  auto pending = std::make_unique<PendingRequest>();
  Request& request = pending->request;
  Target target = decode_target(head.target);
  request.method = std::move(head.method);
  request.path = std::move(target.path);
  request.query = std::move(target.query);
  request.host = std::move(head.host);
  request.authorization = std::move(head.authorization);
  request.if_none_match = std::move(head.if_none_match);
  request.if_range = std::move(head.if_range);
  request.range = std::move(head.range);
  request.content_type = std::move(head.content_type);
  request.content_encoding = std::move(head.content_encoding);
  request.forwarded_for = std::move(head.forwarded_for);
  request.body_bytes = head.body_bytes;
  request.peer = connection.peer().text;
  request.loopback = connection.peer().loopback;
  pending->target = std::move(head.target);
  pending->match = match_route(request.path);
  pending->close = head.close;
  return pending;
}

}  // namespace

std::unique_ptr<PendingRequest> Engine::admit(Connection& connection, std::string_view head,
                                              const HeadLimits& limits) {
  auto parsed = parse_head(head, limits);
  if (!parsed) {
    refuse(connection, parsed.error());
    return nullptr;
  }
  const bool expects_continue = parsed->expects_continue;
  auto pending = make_request(connection, *std::move(parsed));
  Request& request = pending->request;
  if (request.body_bytes == 0) {
    return pending;
  }

  const Clock::time_point begin = Clock::now();
  std::optional<Response> refusal = m_service->refuse_body(request, pending->match.route);
  if (!refusal) {
    pending->share = m_bodies.take(request.body_bytes);
    if (!pending->share) {
      refusal = error_response(503, "busy", "too many uploads at once: try again in a moment");
      refusal->headers.emplace_back("Retry-After", "1");
    }
  }
  connection.begin_answer();
  if (!refusal) {
    if (expects_continue && !connection.send("HTTP/1.1 100 Continue\r\n\r\n")) {
      return nullptr;
    }
    return pending;
  }
  const Sent sent = send(connection, *refusal, request.method == "HEAD", true);
  finish(connection, *pending, refusal->status, sent.note, begin);
  return nullptr;
}

bool Engine::answer(Connection& connection, PendingRequest& pending) {
  const Clock::time_point begin = Clock::now();
  m_metrics->in_flight.fetch_add(1);
  connection.begin_answer();
  const Response response = m_service->handle(pending.request, pending.match);
  const bool close = pending.close || m_draining;
  const Sent sent = send(connection, response, pending.request.method == "HEAD", close);
  m_metrics->in_flight.fetch_sub(1);
  finish(connection, pending, response.status, sent.note, begin);
  return sent.whole && !close;
}

Engine::Sent Engine::send(Connection& connection, const Response& response, bool head_only,
                          bool close) const {
  const std::string head = render_head(response, close);
  const bool no_body = head_only || response.status == 304 || response.status == 204;
  Sent sent;
  if (!no_body && response.blob) {
    sent.whole = connection.send(
        Outgoing{head, response.blob.get(), response.offset, response.offset + response.length});
  } else if (no_body || !response.reader) {
    sent.whole = connection.send(head, no_body ? std::string_view() : response.body);
  } else {
    // The head leaves with the first piece of the body.
    std::string_view first = head;
    try {
      const auto done = response.reader(0, response.length, [&](core::ByteView piece) {
        return connection.send(std::exchange(first, std::string_view()), core::as_text(piece));
      });
      sent.whole = done.has_value() && connection.send(first);
      if (!done) {
        sent.note = done.error().message;
      }
    } catch (const std::exception& error) {
      sent.note = error.what();
    }
  }
  if (!sent.whole && sent.note.empty()) {
    sent.note = k_note_gone;
  }
  return sent;
}

const HotAnswers::Answer* Engine::learn(const Connection& connection, const RequestHead& head,
                                        HotAnswers& hot) const {
  const auto pending = make_request(connection, head);
  if (!m_service->in_memory(pending->match)) {
    return nullptr;
  }
  Response response = m_service->handle(pending->request, pending->match);
  if (response.status != 200 || !response.blob) {
    return nullptr;
  }
  return hot.keep(pending->target,
                  {head_rest(response), std::move(response.blob), pending->match.route});
}

std::optional<Engine::Progress> Engine::answer_from_memory(Connection& connection,
                                                           std::string_view head,
                                                           const HeadLimits& limits,
                                                           HotAnswers& hot, Connection::Io& wait) {
  if (!head.starts_with("GET /")) {
    return std::nullopt;
  }
  const Clock::time_point begin = Clock::now();
  auto parsed = parse_head(head, limits);
  if (!parsed || parsed->body_bytes > 0 || !parsed->authorization.empty() ||
      !parsed->range.empty() || !parsed->if_none_match.empty() ||
      !m_service->open_to(parsed->host, connection.peer())) {
    return std::nullopt;
  }
  const HotAnswers::Answer* answer = hot.find(parsed->target);
  if (answer != nullptr) {
    m_metrics->count_hot_hit();
  } else if (answer = learn(connection, *parsed, hot); answer == nullptr) {
    return std::nullopt;
  }
  const bool close = parsed->close || m_draining;
  thread_local std::string text;
  text = "HTTP/1.1 200 OK\r\nDate: ";
  text.append(http_date()).append(answer->head_rest).append(head_end(close));
  connection.begin_answer();
  Outgoing outgoing{text, answer->blob.get(), 0, answer->blob->bytes().size()};
  wait = connection.push(outgoing, k_turn_bytes);
  if (wait == Connection::Io::ok && outgoing.done()) {
    record(connection, {.peer = {},
                        .forwarded_for = parsed->forwarded_for,
                        .method = parsed->method,
                        .target = parsed->target,
                        .route = answer->route,
                        .status = 200,
                        .bytes = 0,
                        .duration = Clock::now() - begin,
                        .token = {},
                        .note = {}});
    return close ? Progress::close : Progress::keep;
  }
  auto pending = std::make_unique<PendingAnswer>();
  pending->blob = answer->blob;
  pending->head = outgoing.head;
  pending->rest = outgoing;
  pending->rest.head = pending->head;
  pending->method = std::move(parsed->method);
  pending->target = std::move(parsed->target);
  pending->forwarded_for = std::move(parsed->forwarded_for);
  pending->route = answer->route;
  pending->begin = begin;
  pending->close = close;
  connection.answer = std::move(pending);
  m_metrics->in_flight.fetch_add(1);
  if (wait == Connection::Io::closed) {
    give_up(connection);
    return Progress::broken;
  }
  connection.deadline = begin + k_stall_time;
  return Progress::waiting;
}

Engine::Progress Engine::go_on(Connection& connection, Connection::Io& wait) {
  PendingAnswer& answer = *connection.answer;
  const std::uint64_t before = connection.sent();
  wait = connection.push(answer.rest, k_turn_bytes);
  if (wait == Connection::Io::ok && answer.rest.done()) {
    const bool close = answer.close || m_draining;
    finish_pending(connection, {});
    return close ? Progress::close : Progress::keep;
  }
  const Clock::time_point now = Clock::now();
  if (wait == Connection::Io::closed || connection.too_slow(now, false)) {
    give_up(connection);
    return Progress::broken;
  }
  if (connection.sent() > before) {
    connection.deadline = now + k_stall_time;
  }
  return Progress::waiting;
}

void Engine::give_up(Connection& connection) {
  finish_pending(connection, k_note_gone);
}

void Engine::finish_pending(Connection& connection, std::string_view note) {
  const auto answer = std::move(connection.answer);
  m_metrics->in_flight.fetch_sub(1);
  record(connection, {.peer = {},
                      .forwarded_for = answer->forwarded_for,
                      .method = answer->method,
                      .target = answer->target,
                      .route = answer->route,
                      .status = 200,
                      .bytes = 0,
                      .duration = Clock::now() - answer->begin,
                      .token = {},
                      .note = note});
}

void Engine::record(const Connection& connection, LogEntry entry) {
  entry.peer = connection.peer().text;
  entry.bytes = connection.sent();
  if (!entry.note.empty()) {
    m_metrics->broken_bodies.fetch_add(1);
  }
  m_metrics->count_request(entry.route, entry.status, entry.bytes, entry.duration);
  m_log->write(entry);
}

void Engine::finish(const Connection& connection, const PendingRequest& pending, int status,
                    std::string_view note, Clock::time_point begin) {
  const Request& request = pending.request;
  m_metrics->received_bytes.fetch_add(request.body_bytes);
  record(connection, {.peer = {},
                      .forwarded_for = request.forwarded_for,
                      .method = request.method,
                      .target = pending.target,
                      .route = pending.match.route,
                      .status = status,
                      .bytes = 0,
                      .duration = Clock::now() - begin,
                      .token = request.token,
                      .note = note});
}

void Engine::refuse(Connection& connection, const HeadRefusal& refusal) {
  const Clock::time_point begin = Clock::now();
  connection.begin_answer();
  const Sent sent =
      send(connection, error_response(refusal.status, "BAD_REQUEST", refusal.message), false, true);
  m_metrics->bad_heads.fetch_add(1);
  const auto duration = Clock::now() - begin;
  m_metrics->count_request(Route::unknown, refusal.status, connection.sent(), duration);
  m_log->write({.peer = connection.peer().text,
                .forwarded_for = {},
                .method = {},
                .target = {},
                .route = Route::unknown,
                .status = refusal.status,
                .bytes = connection.sent(),
                .duration = duration,
                .token = {},
                .note = sent.whole ? std::string_view(refusal.message) : sent.note});
}

}  // namespace cubinary::server
