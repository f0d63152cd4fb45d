// SPDX-License-Identifier: Apache-2.0
#include "server/metrics.hpp"

#include <algorithm>
#include <initializer_list>
#include <limits>
#include <utility>
#include <vector>

#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include "core/table/resolve.hpp"

namespace cubinary::server {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

constexpr auto k_relaxed = std::memory_order_relaxed;
constexpr std::size_t k_shards = 32;

/// The last stands for all others.
constexpr std::array<int, 25> k_statuses = {200, 201, 206, 304, 400, 401, 403, 404, 405,
                                            409, 410, 411, 413, 414, 415, 416, 421, 422,
                                            431, 500, 503, 504, 505, 507, 0};
/// Upper bounds in seconds.
constexpr std::array<double, 12> k_bounds = {0.0001, 0.00025, 0.0005, 0.001, 0.002, 0.005,
                                             0.01,   0.05,    0.25,   1,     5,     30};

using Count = std::atomic<std::uint64_t>;
using Labels = std::vector<ClientMetric::Label>;

MetricFamily family(std::string_view name, MetricType type, std::string_view help) {
  return {"cubinary_" + std::string(name), std::string(help), type, {}};
}

ClientMetric value_of(MetricType type, double value, Labels labels) {
  ClientMetric metric;
  metric.label = std::move(labels);
  (type == MetricType::Gauge ? metric.gauge.value : metric.counter.value) = value;
  return metric;
}

template <typename Number>
MetricFamily single(std::string_view name, MetricType type, std::string_view help, Number value) {
  MetricFamily result = family(name, type, help);
  result.metric.push_back(value_of(type, static_cast<double>(value), {}));
  return result;
}

std::string route_text(std::size_t index) {
  return std::string(route_name(static_cast<Route>(index)));
}

}  // namespace

struct Metrics::PerRoute {
  std::array<Count, k_statuses.size()> status{};
  std::array<Count, k_bounds.size() + 1> bucket{};
  Count nanoseconds{0};
  Count bytes{0};
};

struct alignas(128) Metrics::Shard {
  std::array<PerRoute, k_route_count> routes{};
  Count hot_hits{0};
};

Metrics::Metrics() : m_shards(new Shard[k_shards]()) {
}
Metrics::~Metrics() = default;

Metrics::Shard& Metrics::shard() {
  static std::atomic<std::size_t> next{0};
  thread_local const std::size_t mine = next.fetch_add(1) % k_shards;
  return m_shards[mine];
}

void Metrics::count_request(Route route, int status, std::uint64_t bytes,
                            std::chrono::nanoseconds duration) {
  PerRoute& row = shard().routes[static_cast<std::size_t>(route)];
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

void Metrics::count_hot_hit() {
  shard().hot_hits.fetch_add(1, k_relaxed);
}

std::string Metrics::text(const Scrape& scrape) const {
  const auto sum = [this](auto&& of) {
    std::uint64_t total = 0;
    for (std::size_t i = 0; i < k_shards; ++i) {
      total += of(m_shards[i]).load(k_relaxed);
    }
    return total;
  };
  std::vector<MetricFamily> all;
  auto requests =
      family("http_requests_total", MetricType::Counter, "Requests answered, by route and status.");
  auto bytes = family("http_sent_bytes_total", MetricType::Counter,
                      "Bytes sent, by route, headers included.");
  auto durations =
      family("http_request_duration_seconds", MetricType::Histogram,
             "From a complete request to its last byte handed to the network, by route.");
  for (std::size_t r = 0; r < k_route_count; ++r) {
    const Labels route = {{"route", route_text(r)}};
    for (std::size_t s = 0; s < k_statuses.size(); ++s) {
      const std::uint64_t count =
          sum([&](const Shard& shard) -> const Count& { return shard.routes[r].status[s]; });
      if (count > 0) {
        const std::string status = k_statuses[s] == 0 ? "other" : std::to_string(k_statuses[s]);
        requests.metric.push_back(value_of(MetricType::Counter, static_cast<double>(count),
                                           {{"route", route_text(r)}, {"status", status}}));
      }
    }
    const auto sent =
        sum([&](const Shard& shard) -> const Count& { return shard.routes[r].bytes; });
    bytes.metric.push_back(value_of(MetricType::Counter, static_cast<double>(sent), route));

    ClientMetric histogram;
    histogram.label = route;
    for (std::size_t b = 0; b <= k_bounds.size(); ++b) {
      histogram.histogram.sample_count +=
          sum([&](const Shard& shard) -> const Count& { return shard.routes[r].bucket[b]; });
      const double bound =
          b < k_bounds.size() ? k_bounds[b] : std::numeric_limits<double>::infinity();
      histogram.histogram.bucket.push_back({histogram.histogram.sample_count, bound});
    }
    const auto nanoseconds =
        sum([&](const Shard& shard) -> const Count& { return shard.routes[r].nanoseconds; });
    histogram.histogram.sample_sum = static_cast<double>(nanoseconds) * 1e-9;
    durations.metric.push_back(std::move(histogram));
  }
  all.push_back(std::move(requests));
  all.push_back(std::move(bytes));
  all.push_back(std::move(durations));

  const auto counter = [&](std::string_view name, std::string_view help, std::uint64_t value) {
    all.push_back(single(name, MetricType::Counter, help, value));
  };
  const auto gauge = [&](std::string_view name, std::string_view help, auto value) {
    all.push_back(single(name, MetricType::Gauge, help, value));
  };
  gauge("http_in_flight", "Requests being answered now.", in_flight.load(k_relaxed));
  gauge("connections", "Open connections.", connections.load(k_relaxed));
  counter("connections_accepted_total", "Connections taken.", accepted.load(k_relaxed));
  counter("connections_refused_total", "Connections closed at once: over a limit.",
          refused.load(k_relaxed));
  counter("connections_evicted_total", "Idle connections closed to make room.",
          evicted.load(k_relaxed));
  counter("connections_timed_out_total", "Connections closed at a deadline.",
          timed_out.load(k_relaxed));
  counter("http_malformed_requests_total", "Requests refused before routing.",
          bad_heads.load(k_relaxed));
  counter("http_broken_responses_total", "Answers that did not reach the client whole.",
          broken_bodies.load(k_relaxed));
  counter("http_received_body_bytes_total", "Bytes of request bodies.",
          received_bytes.load(k_relaxed));
  gauge("store_writes_in_progress",
        "Requests that change the store: one at a time runs, the others wait for it.",
        writes.load(k_relaxed));
  counter("store_writes_refused_total", "Changes told to come back later.",
          writes_refused.load(k_relaxed));
  gauge("tuning_leases", "Tuning jobs somebody works on now.", scrape.leases);

  auto resolves = family("resolved_total", MetricType::Counter,
                         "Resolve queries by how they were answered; miss: nothing serves them.");
  for (std::size_t i = 0; i < resolved.size(); ++i) {
    const std::string match = i + 1 < resolved.size()
                                  ? std::string(core::match_name(static_cast<core::Match>(i)))
                                  : "miss";
    resolves.metric.push_back(value_of(
        MetricType::Counter, static_cast<double>(resolved[i].load(k_relaxed)), {{"match", match}}));
  }
  all.push_back(std::move(resolves));
  gauge("store_bytes", "Size of the store's database and log on disk.", scrape.store_bytes);
  gauge("blob_cache_bytes", "Bytes of blobs held in memory.", scrape.cache_bytes);
  counter(
      "blob_cache_hits_total", "Blobs answered from memory.",
      scrape.cache_hits + sum([](const Shard& shard) -> const Count& { return shard.hot_hits; }));
  counter("blob_cache_misses_total", "Blobs read from the store.", scrape.cache_misses);
  return prometheus::TextSerializer().Serialize(all);
}

}  // namespace cubinary::server
