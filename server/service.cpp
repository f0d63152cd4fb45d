// SPDX-License-Identifier: Apache-2.0
#include "server/service.hpp"

#include <ctime>
#include <exception>
#include <filesystem>
#include <system_error>
#include <utility>

#include "core/wire/codec.hpp"
#include "server/page.hpp"
#include "store/changes.hpp"
#include "store/leases.hpp"
#include "store/releases.hpp"

namespace cubinary::server {
namespace {

std::uint64_t size_on_disk(const std::filesystem::path& database) {
  std::uint64_t total = 0;
  for (const char* suffix : {"", "-wal"}) {
    std::error_code error;
    const auto size = std::filesystem::file_size(database.string() + suffix, error);
    total += error ? 0 : size;
  }
  return total;
}

using core::ErrorCode;
using core::fail;
using core::Result;

Response plain(int status, std::string text) {
  Response response;
  response.status = status;
  response.set_body(std::move(text), "text/plain; charset=utf-8");
  response.headers.emplace_back("Cache-Control", "no-store");
  return response;
}

/// The answer to a failed request. What is wrong with the store itself is a fault on this side,
/// whatever the same error would say of bytes a client sent.
Response failure(const Request& request, const core::Error& error) {
  const bool reading = request.method == "GET" || request.method == "HEAD";
  const bool ours = (error.code == ErrorCode::corrupt && reading) ||
                    error.code == ErrorCode::not_a_store || error.code == ErrorCode::permission;
  return ours ? error_response(500, core::error_info(error.code).name, error.message)
              : error_response(error);
}

/// Unpacks the body in place. A frame may say how much it unpacks to, truly or not: never more than
/// the route's limit is made of it.
Result<void> unpack_body(Request& request, std::uint64_t max_bytes) {
  if (request.body.empty() || request.content_encoding.empty() ||
      request.content_encoding == "identity") {
    return {};
  }
  if (request.content_encoding != "zstd") {
    return fail(ErrorCode::unsupported, "the content encoding \"" + request.content_encoding +
                                            "\" is not taken: send zstd, or the bytes as they are");
  }
  auto unpacked = core::decompress(core::as_bytes(request.body), {.max_bytes = max_bytes});
  if (!unpacked) {
    const bool large = unpacked.error().code == ErrorCode::too_large;
    return fail(large ? ErrorCode::too_large : ErrorCode::corrupt,
                "the request's body: " + unpacked.error().message);
  }
  request.body = core::to_text(*unpacked);
  request.content_encoding.clear();
  return {};
}

}  // namespace

Service::Service(store::Store& store, Metrics& metrics, Options options)
    : m_store(&store),
      m_metrics(&metrics),
      m_max_writes(options.max_writes),
      m_cache(options.cache_bytes, options.cache_blob_bytes),
      m_gate(store, std::move(options.gate)),
      m_registry(store, m_cache, std::move(options.repository)),
      m_resolve(store, metrics),
      m_releases(store),
      m_publish(store),
      m_triton(store),
      m_tune(store),
      m_audit(store),
      m_tokens(store),
      m_maintenance(store) {
}

std::optional<Response> Service::refuse(Request& request, Route route) const {
  Gate::Pass pass = m_gate.check(request, route);
  request.token = std::move(pass.token);
  request.actor = std::move(pass.actor);
  if (pass.refusal) {
    return pass.refusal;
  }
  if (route == Route::unknown) {
    return error_response(404, "not_found", "there is nothing at this path");
  }
  const MethodRule* const rule = find_method(route, request.method);
  if (rule == nullptr) {
    const std::string allowed = allowed_methods(route);
    Response response =
        error_response(405, "UNSUPPORTED", request.method + " is not answered here: " + allowed);
    response.headers.emplace_back("Allow", allowed);
    return response;
  }
  if (rule->changes && !m_store->writable()) {
    return error_response(403, "read_only",
                          "this server was started with --read-only: its store cannot be changed "
                          "through it");
  }
  if (request.body_bytes > rule->max_body) {
    return error_response(413, "too_large",
                          rule->max_body == 0 ? "this request takes no body"
                                              : "this request takes a body of at most " +
                                                    std::to_string(rule->max_body) + " bytes");
  }
  return std::nullopt;
}

bool Service::in_memory(const RouteMatch& match) const {
  return m_registry.holds(match);
}

std::optional<Response> Service::refuse_body(Request& request, Route route) const noexcept {
  try {
    return refuse(request, route);
  } catch (const std::exception& error) {
    return error_response(500, "internal", std::string("internal error: ") + error.what());
  }
}

Response Service::handle(Request& request, const RouteMatch& match) noexcept {
  try {
    Response response = dispatch(request, match);
    response.headers.emplace_back("X-Content-Type-Options", "nosniff");
    return response;
  } catch (const std::exception& error) {
    return error_response(500, "internal", std::string("internal error: ") + error.what());
  } catch (...) {
    return error_response(500, "internal", "internal error");
  }
}

Response Service::dispatch(Request& request, const RouteMatch& match) {
  if (auto refusal = refuse(request, match.route)) {
    return *std::move(refusal);
  }
  const MethodRule& rule = *find_method(match.route, request.method);
  if (const auto unpacked = unpack_body(request, rule.max_body); !unpacked) {
    return error_response(unpacked.error());
  }
  if (rule.changes) {
    return change(request, match);
  }
  auto answered = answer(request, match);
  return answered ? apply_conditions(request, *std::move(answered))
                  : failure(request, answered.error());
}

Response Service::change(Request& request, const RouteMatch& match) {
  if (m_metrics->writes.fetch_add(1) >= m_max_writes) {
    m_metrics->writes.fetch_sub(1);
    m_metrics->writes_refused.fetch_add(1);
    Response response =
        error_response(503, "busy", "too many changes wait for the store: try again in a moment");
    response.headers.emplace_back("Retry-After", "1");
    return response;
  }
  struct Leave {
    std::atomic<std::int64_t>* writes;
    ~Leave() { writes->fetch_sub(1); }
  } const leave{&m_metrics->writes};
  const store::ActingFor acting(request.actor, request.peer);
  auto answered = answer(request, match);
  return answered ? *std::move(answered) : failure(request, answered.error());
}

core::Result<Response> Service::answer(const Request& request, const RouteMatch& match) {
  switch (match.route) {
    case Route::livez:
      return plain(200, "ok\n");
    case Route::readyz:
      return ready();
    case Route::metrics:
      return metrics_page();
    case Route::resolve:
      return m_resolve.answer(request);
    case Route::releases:
    case Route::release:
    case Route::release_diff:
    case Route::release_signature:
    case Route::channel:
    case Route::revocations:
      return m_releases.answer(request, match);
    case Route::kernels:
    case Route::kernel:
    case Route::kernel_current:
    case Route::candidates:
    case Route::candidates_known:
    case Route::artifacts:
    case Route::artifacts_known:
    case Route::artifact:
      return m_publish.answer(request, match);
    case Route::triton:
    case Route::triton_records:
      return m_triton.answer(request, match);
    case Route::sessions:
    case Route::session_facts:
    case Route::measurements:
    case Route::leases:
    case Route::lease:
    case Route::journal:
    case Route::tunings:
      return m_tune.answer(request, match);
    case Route::page:
    case Route::page_file:
      return page(match.reference);
    case Route::audit:
      return m_audit.answer(request, match);
    case Route::tokens:
    case Route::token:
      return m_tokens.answer(request, match);
    case Route::changes:
    case Route::store_stats:
    case Route::store_fsck:
    case Route::store_gc:
    case Route::store_backup:
      return m_maintenance.answer(request, match);
    default:
      return m_registry.answer(request, match);
  }
}

Response Service::ready() const {
  if (m_draining) {
    return plain(503, "not ready: the server is shutting down\n");
  }
  const auto reader = m_store->reader();
  if (!reader) {
    return plain(503, "not ready: " + reader.error().message + "\n");
  }
  if (const auto names = store::list_tags(*reader, "", 1); !names) {
    return plain(503, "not ready: " + names.error().message + "\n");
  }
  return plain(200, "ok\n");
}

Response Service::metrics_page() const {
  Metrics::Scrape scrape;
  scrape.store_bytes = size_on_disk(m_store->path());
  if (const auto reader = m_store->reader()) {
    if (const auto leases = store::list_leases(*reader, std::time(nullptr))) {
      scrape.leases = static_cast<std::int64_t>(leases->size());
    }
  }
  scrape.cache_bytes = m_cache.bytes();
  scrape.cache_hits = m_cache.hits();
  scrape.cache_misses = m_cache.misses();
  Response response = plain(200, m_metrics->text(scrape));
  response.content_type = "text/plain; version=0.0.4; charset=utf-8";
  return response;
}

}  // namespace cubinary::server
