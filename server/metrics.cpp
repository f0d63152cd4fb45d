// SPDX-License-Identifier: Apache-2.0
#include "server/metrics.hpp"

#include <algorithm>
#include <cstdio>

#include "core/table/resolve.hpp"

namespace cubinary::server {
namespace {

constexpr auto k_relaxed = std::memory_order_relaxed;

std::string number(double value) {
  std::array<char, 32> buffer{};
  const int size = std::snprintf(buffer.data(), buffer.size(), "%.9g", value);
  return {buffer.data(), static_cast<std::size_t>(size)};
}

void head(std::string& out, std::string_view name, std::string_view type, std::string_view help) {
  out.append("# HELP cubinary_").append(name).append(" ").append(help).append("\n");
  out.append("# TYPE cubinary_").append(name).append(" ").append(type).append("\n");
}

void line(std::string& out, std::string_view name, std::string_view labels,
          const std::string& value) {
  out.append("cubinary_").append(name);
  if (!labels.empty()) {
    out.append("{").append(labels).append("}");
  }
  out.append(" ").append(value).append("\n");
}

void single(std::string& out, std::string_view name, std::string_view type, std::string_view help,
            const std::string& value) {
  head(out, name, type, help);
  line(out, name, {}, value);
}

std::string route_label(std::size_t index) {
  return "route=\"" + std::string(route_name(static_cast<Route>(index))) + "\"";
}

}  // namespace

void Metrics::count_request(Route route, int status, std::uint64_t bytes,
                            std::chrono::nanoseconds duration) {
  PerRoute& row = m_routes[static_cast<std::size_t>(route)];
  const auto* found = std::ranges::find(k_statuses, status);
  const auto slot = found == k_statuses.end()
                        ? k_statuses.size() - 1
                        : static_cast<std::size_t>(found - k_statuses.begin());
  row.status[slot].fetch_add(1, k_relaxed);
  const double seconds = std::chrono::duration<double>(duration).count();
  const auto* bound = std::ranges::lower_bound(k_bounds, seconds);
  row.bucket[static_cast<std::size_t>(bound - k_bounds.begin())].fetch_add(1, k_relaxed);
  row.nanoseconds.fetch_add(static_cast<std::uint64_t>(duration.count()), k_relaxed);
  row.bytes.fetch_add(bytes, k_relaxed);
}

std::string Metrics::text(const Scrape& scrape) const {
  std::string out;
  head(out, "http_requests_total", "counter", "Requests answered, by route and status.");
  for (std::size_t r = 0; r < m_routes.size(); ++r) {
    for (std::size_t s = 0; s < k_statuses.size(); ++s) {
      const std::uint64_t count = m_routes[r].status[s].load(k_relaxed);
      if (count > 0) {
        const std::string status = k_statuses[s] == 0 ? "other" : std::to_string(k_statuses[s]);
        line(out, "http_requests_total", route_label(r) + ",status=\"" + status + "\"",
             std::to_string(count));
      }
    }
  }
  head(out, "http_sent_bytes_total", "counter", "Bytes sent, by route, headers included.");
  for (std::size_t r = 0; r < m_routes.size(); ++r) {
    line(out, "http_sent_bytes_total", route_label(r),
         std::to_string(m_routes[r].bytes.load(k_relaxed)));
  }
  head(out, "http_request_duration_seconds", "histogram",
       "From a complete request to its last byte handed to the network, by route.");
  for (std::size_t r = 0; r < m_routes.size(); ++r) {
    std::uint64_t total = 0;
    for (std::size_t b = 0; b <= k_bounds.size(); ++b) {
      total += m_routes[r].bucket[b].load(k_relaxed);
      const std::string bound = b < k_bounds.size() ? number(k_bounds[b]) : "+Inf";
      line(out, "http_request_duration_seconds_bucket", route_label(r) + ",le=\"" + bound + "\"",
           std::to_string(total));
    }
    line(out, "http_request_duration_seconds_sum", route_label(r),
         number(static_cast<double>(m_routes[r].nanoseconds.load(k_relaxed)) * 1e-9));
    line(out, "http_request_duration_seconds_count", route_label(r), std::to_string(total));
  }
  single(out, "http_in_flight", "gauge", "Requests being answered now.",
         std::to_string(in_flight.load(k_relaxed)));
  single(out, "connections", "gauge", "Open connections.",
         std::to_string(connections.load(k_relaxed)));
  single(out, "connections_accepted_total", "counter", "Connections taken.",
         std::to_string(accepted.load(k_relaxed)));
  single(out, "connections_refused_total", "counter", "Connections closed at once: over a limit.",
         std::to_string(refused.load(k_relaxed)));
  single(out, "connections_evicted_total", "counter", "Idle connections closed to make room.",
         std::to_string(evicted.load(k_relaxed)));
  single(out, "connections_timed_out_total", "counter", "Connections closed at a deadline.",
         std::to_string(timed_out.load(k_relaxed)));
  single(out, "http_malformed_requests_total", "counter", "Requests refused before routing.",
         std::to_string(bad_heads.load(k_relaxed)));
  single(out, "http_broken_responses_total", "counter",
         "Answers that did not reach the client whole.",
         std::to_string(broken_bodies.load(k_relaxed)));
  single(out, "http_received_body_bytes_total", "counter", "Bytes of request bodies.",
         std::to_string(received_bytes.load(k_relaxed)));
  single(out, "store_writes_in_progress", "gauge",
         "Requests that change the store: one at a time runs, the others wait for it.",
         std::to_string(writes.load(k_relaxed)));
  single(out, "store_writes_refused_total", "counter", "Changes told to come back later.",
         std::to_string(writes_refused.load(k_relaxed)));
  single(out, "tuning_leases", "gauge", "Tuning jobs somebody works on now.",
         std::to_string(scrape.leases));
  head(out, "resolved_total", "counter",
       "Resolve queries by how they were answered; miss: nothing serves them.");
  for (std::size_t i = 0; i < resolved.size(); ++i) {
    const std::string match = i + 1 < resolved.size()
                                  ? std::string(core::match_name(static_cast<core::Match>(i)))
                                  : "miss";
    line(out, "resolved_total", "match=\"" + match + "\"",
         std::to_string(resolved[i].load(k_relaxed)));
  }
  single(out, "store_bytes", "gauge", "Size of the store's database and log on disk.",
         std::to_string(scrape.store_bytes));
  single(out, "blob_cache_bytes", "gauge", "Bytes of blobs held in memory.",
         std::to_string(scrape.cache_bytes));
  single(out, "blob_cache_hits_total", "counter", "Blobs answered from memory.",
         std::to_string(scrape.cache_hits));
  single(out, "blob_cache_misses_total", "counter", "Blobs read from the store.",
         std::to_string(scrape.cache_misses));
  return out;
}

}  // namespace cubinary::server
