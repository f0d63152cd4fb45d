// SPDX-License-Identifier: Apache-2.0
#include "server/service.hpp"

#include <exception>
#include <filesystem>
#include <system_error>
#include <utility>

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

Response plain(int status, std::string text) {
  Response response;
  response.status = status;
  response.set_body(std::move(text), "text/plain; charset=utf-8");
  response.headers.emplace_back("Cache-Control", "no-store");
  return response;
}

}  // namespace

Service::Service(const store::Store& store, Metrics& metrics, Options options)
    : m_store(&store),
      m_metrics(&metrics),
      m_cache(options.cache_bytes, options.cache_blob_bytes),
      m_gate(store, std::move(options.gate)),
      m_registry(store, m_cache, std::move(options.repository)),
      m_resolve(store) {
}

Response Service::handle(const Request& request, Route& route) noexcept {
  try {
    const RouteMatch match = match_route(request.path);
    route = match.route;
    return dispatch(request, match);
  } catch (const std::exception& error) {
    return error_response(500, "internal", std::string("internal error: ") + error.what());
  } catch (...) {
    return error_response(500, "internal", "internal error");
  }
}

Response Service::dispatch(const Request& request, const RouteMatch& match) {
  Gate::Pass pass = m_gate.check(request, match.route);
  Response response;
  if (pass.refusal) {
    response = *std::move(pass.refusal);
  } else if (match.route == Route::unknown) {
    response = error_response(404, "not_found", "there is nothing at this path");
  } else if (request.method != "GET" && request.method != "HEAD") {
    response = error_response(405, "UNSUPPORTED",
                              "this server is read-only: GET and HEAD are what it answers");
    response.headers.emplace_back("Allow", "GET, HEAD");
  } else {
    auto answered = answer(request, match);
    response = answered ? apply_conditions(request, *std::move(answered))
                        : error_response(answered.error());
  }
  response.token = std::move(pass.token);
  response.headers.emplace_back("X-Content-Type-Options", "nosniff");
  return response;
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
  scrape.cache_bytes = m_cache.bytes();
  scrape.cache_hits = m_cache.hits();
  scrape.cache_misses = m_cache.misses();
  Response response = plain(200, m_metrics->text(scrape));
  response.content_type = "text/plain; version=0.0.4; charset=utf-8";
  return response;
}

}  // namespace cubinary::server
