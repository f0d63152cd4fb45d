// SPDX-License-Identifier: Apache-2.0
#include "server/server.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <utility>

#include <poll.h>
#include <sys/resource.h>
#include <sys/signalfd.h>

#include "core/wire/oci.hpp"
#include "server/access_log.hpp"
#include "server/engine.hpp"
#include "server/front.hpp"
#include "server/listener.hpp"
#include "server/metrics.hpp"
#include "server/service.hpp"
#include "server/tls.hpp"
#include "store/store.hpp"

namespace cubinary::server {
namespace {

using core::ErrorCode;
using core::fail;
using core::Result;

/// Descriptors for everything that is no connection: store, logs, epoll.
constexpr std::size_t k_other_descriptors = 256 + BlobCache::k_max_files;
constexpr std::size_t k_default_per_peer = 512;
/// Larger blobs are streamed: past this size reading them anew costs little beside sending them.
constexpr std::uint64_t k_cached_blob_bytes = 4U << 20U;

Result<void> check(const ServeOptions& options) {
  if (options.tls_certificate.empty() != options.tls_key.empty()) {
    return fail(ErrorCode::usage, "--tls-cert and --tls-key go together: one of them is missing");
  }
  if (!core::oci::is_repository(options.repository)) {
    return fail(ErrorCode::usage, "--repo: \"" + options.repository +
                                      "\" is no repository name (lower-case letters, digits, "
                                      "separators . _ - and /)");
  }
  if (options.workers == 0 || options.max_connections == 0) {
    return fail(ErrorCode::usage, "--workers and --max-connections must be at least 1");
  }
  return {};
}

/// Owned by this process, so that what comes over the network is what may change it.
Result<store::Store> open_store(const ServeOptions& options) {
  auto store = store::Store::open(
      options.store, {.access = options.read_only ? store::Access::read : store::Access::write,
                      .create = false,
                      .purpose = "cubinary serve"});
  if (!store && !options.read_only && store.error().code == ErrorCode::permission) {
    return fail(ErrorCode::permission,
                store.error().message + "; give --read-only to serve it as it is");
  }
  return store;
}

Result<AccessLog> open_log(const std::string& where) {
  if (where.empty()) {
    return AccessLog::to_stderr();
  }
  if (where == "none") {
    return AccessLog::none();
  }
  return AccessLog::to_file(where);
}

/// As many connections as asked for and the process may have descriptors for.
std::size_t allow_descriptors(std::size_t connections) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) {
    return connections;
  }
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
  ::getrlimit(RLIMIT_NOFILE, &limit);
  const auto usable = static_cast<std::size_t>(limit.rlim_cur);
  if (usable <= 2 * k_other_descriptors) {
    return std::min(connections, usable / 2);
  }
  return std::min(connections, usable - k_other_descriptors);
}

/// Signals that end the server, as a descriptor. Must exist before any thread does.
Result<core::UniqueFd> take_signals() {
  std::signal(SIGPIPE, SIG_IGN);
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  if (pthread_sigmask(SIG_BLOCK, &set, nullptr) != 0) {
    return fail(core::errno_error("cannot block signals", errno));
  }
  core::UniqueFd fd(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd) {
    return fail(core::errno_error("cannot receive signals", errno));
  }
  return fd;
}

/// Whether a signal came within the time.
bool wait_for_signal(const core::UniqueFd& fd, int milliseconds) {
  pollfd one{fd.get(), POLLIN, 0};
  if (::poll(&one, 1, milliseconds) <= 0) {
    return false;
  }
  signalfd_siginfo info{};
  return ::read(fd.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info);
}

void drain(Front& front, const core::UniqueFd& signals, std::chrono::seconds time) {
  const Clock::time_point deadline = Clock::now() + time;
  while (front.open_connections() > 0 && Clock::now() < deadline) {
    if (wait_for_signal(signals, 50)) {
      break;
    }
  }
}

}  // namespace

Result<int> serve(const ServeOptions& options) {
  TRY(check(options));
  TRY_ASSIGN(const ListenAddress address, parse_listen(options.listen));
  const bool tls = !options.tls_certificate.empty();
  std::optional<TlsContext> context;
  if (tls) {
    TRY_ASSIGN(context, TlsContext::load(options.tls_certificate, options.tls_key));
  }
  TRY_ASSIGN(const AccessLog log, open_log(options.access_log));
  TRY_ASSIGN(const core::UniqueFd signals, take_signals());
  TRY_ASSIGN(store::Store store, open_store(options));
  TRY_ASSIGN(Listener listener, open_listener(address, !tls && !options.behind_proxy));

  Metrics metrics;
  Service::Options service_options;
  service_options.repository = options.repository;
  service_options.gate.behind_proxy = options.behind_proxy;
  service_options.gate.hosts = options.hosts;
  service_options.gate.hosts.push_back(address.host);
  service_options.cache_bytes = options.cache_mib << 20U;
  service_options.cache_blob_bytes = k_cached_blob_bytes;
  service_options.max_writes =
      std::max<std::int64_t>(1, static_cast<std::int64_t>(options.workers / 4));
  Service service(store, metrics, std::move(service_options));
  Engine engine(service, metrics, log, options.body_mib << 20U);

  FrontOptions front_options;
  front_options.workers = options.workers;
  front_options.max_connections = allow_descriptors(options.max_connections);
  const bool many_behind_one = options.behind_proxy || listener.loopback;
  front_options.max_per_peer =
      options.max_per_peer.value_or(many_behind_one ? 0 : k_default_per_peer);
  front_options.head_time = options.head_time;
  front_options.idle_time = options.idle_time;

  const std::string url = std::string(tls ? "https" : "http") + "://" + listener.url_host + ":" +
                          std::to_string(listener.port);
  Front front(front_options, std::move(listener), context ? &*context : nullptr, engine, metrics);
  TRY(front.start());
  std::printf("serving %s on %s\n", options.store.c_str(), url.c_str());
  std::fflush(stdout);

  while (!wait_for_signal(signals, 200)) {
    log.flush();
  }
  service.begin_drain();
  engine.begin_drain();
  front.begin_drain();
  drain(front, signals, options.drain_time);
  front.stop();
  return 0;
}

}  // namespace cubinary::server
