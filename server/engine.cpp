// SPDX-License-Identifier: Apache-2.0
#include "server/engine.hpp"

#include <array>
#include <chrono>
#include <ctime>
#include <exception>
#include <string>
#include <utility>

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

std::string render_head(const Response& response, bool close) {
  std::string text;
  text.reserve(512);
  text.append("HTTP/1.1 ").append(std::to_string(response.status)).append(" ");
  text.append(status_phrase(response.status)).append("\r\nDate: ").append(http_date());
  for (const auto& [name, value] : response.headers) {
    text.append("\r\n").append(name).append(": ").append(value);
  }
  if (response.status != 204 && response.status != 304 && !response.content_type.empty()) {
    text.append("\r\nContent-Type: ").append(response.content_type);
  }
  if (response.status != 204) {
    text.append("\r\nContent-Length: ").append(std::to_string(response.length));
  }
  text.append(close ? "\r\nConnection: close\r\n\r\n" : "\r\n\r\n");
  return text;
}

}  // namespace

std::unique_ptr<PendingRequest> Engine::admit(Connection& connection, std::string_view head,
                                              const HeadLimits& limits) {
  auto parsed = parse_head(head, limits);
  if (!parsed) {
    refuse(connection, parsed.error());
    return nullptr;
  }
  auto pending = std::make_unique<PendingRequest>();
  Request& request = pending->request;
  Target target = decode_target(parsed->target);
  request.method = std::move(parsed->method);
  request.path = std::move(target.path);
  request.query = std::move(target.query);
  request.host = std::move(parsed->host);
  request.authorization = std::move(parsed->authorization);
  request.if_none_match = std::move(parsed->if_none_match);
  request.if_range = std::move(parsed->if_range);
  request.range = std::move(parsed->range);
  request.content_type = std::move(parsed->content_type);
  request.content_encoding = std::move(parsed->content_encoding);
  request.forwarded_for = std::move(parsed->forwarded_for);
  request.body_bytes = parsed->body_bytes;
  request.peer = connection.peer().text;
  request.loopback = connection.peer().loopback;
  pending->target = std::move(parsed->target);
  pending->match = match_route(request.path);
  pending->close = parsed->close;
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
    if (parsed->expects_continue && !connection.send("HTTP/1.1 100 Continue\r\n\r\n")) {
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
  if (no_body || !response.reader) {
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
    sent.note = "the client is gone or too slow";
  }
  return sent;
}

void Engine::finish(const Connection& connection, const PendingRequest& pending, int status,
                    std::string_view note, Clock::time_point begin) {
  if (!note.empty()) {
    m_metrics->broken_bodies.fetch_add(1);
  }
  const Request& request = pending.request;
  const auto duration = Clock::now() - begin;
  m_metrics->count_request(pending.match.route, status, connection.sent(), duration);
  m_metrics->received_bytes.fetch_add(request.body_bytes);
  m_log->write({.peer = request.peer,
                .forwarded_for = request.forwarded_for,
                .method = request.method,
                .target = pending.target,
                .route = pending.match.route,
                .status = status,
                .bytes = connection.sent(),
                .duration = duration,
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
