// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "client/look_ahead.hpp"
#include "client/lookup.hpp"
#include "client/metrics.hpp"
#include "client/prefetch.hpp"
#include "client/release.hpp"
#include "core/driver/driver.hpp"
#include "core/model/device_class.hpp"
#include "core/table/resolve.hpp"

namespace cubinary::client {

class Kernel;

struct SessionOptions {
  SourceName source;
  TrustOptions trust;
  std::filesystem::path cache;  ///< empty: memory only
  std::string token;
  double timeout_seconds = 60;
  bool offline = false;
  Log log;
  std::optional<core::DeviceClass> device_class;  ///< resolve for it, without a driver
  std::uint64_t cache_limit = 0;                  ///< bytes; 0: the cache's own
  Metrics::Listener listener = {};
  bool look_ahead = true;  ///< read what is probably asked for soon, in the background
};

/// The CUDA context that work happens in.
struct CurrentContext {
  core::cuda::Context context = nullptr;
  core::cuda::Device device = 0;
  bool adopted =
      false;  ///< nothing was current: this is the device's primary context, retained by us
};

/// Makes a context current for a scope.
class ContextScope {
 public:
  /// Does nothing where `current` is what the thread has already.
  [[nodiscard]] static core::Result<ContextScope> enter(const core::Driver& driver,
                                                        const CurrentContext& current);
  ContextScope(ContextScope&& other) noexcept : m_driver(std::exchange(other.m_driver, nullptr)) {}
  ContextScope& operator=(ContextScope&&) = delete;
  ~ContextScope();

 private:
  explicit ContextScope(const core::Driver* driver) : m_driver(driver) {}
  const core::Driver* m_driver;  ///< none: nothing to leave
};

/// Code loaded into one context. Functions are looked up under `mutex`.
struct LoadedModule {
  std::mutex mutex;
  core::cuda::Context context = nullptr;
  core::cuda::Module module = nullptr;
};

/// An opened release, and the code loaded from it. Shared by its kernels; thread-safe.
class Session : public std::enable_shared_from_this<Session> {
 public:
  [[nodiscard]] static core::Result<std::shared_ptr<Session>> open(SessionOptions options);
  ~Session();

  struct Query {
    std::string kernel;
    std::optional<core::Digest> interface_digest;
    core::Types types;
    core::Shape shape;
    core::Alignments alignments;
    core::Match require = core::Match::fallback;
  };
  [[nodiscard]] core::Result<std::unique_ptr<Kernel>> resolve(const Query& query);

  /// Fetches and verifies in the background: the kernels that match one of the globs, or all.
  void prefetch(std::vector<std::string> kernel_globs);
  /// Waits for every prefetch and for the cache to be written. A prefetch's first error, once.
  [[nodiscard]] core::Result<void> wait_for_prefetch();
  [[nodiscard]] Stats stats() const { return m_metrics->stats(); }

  /// The calling thread's context, or the primary context of device 0.
  [[nodiscard]] core::Result<CurrentContext> current_context(const core::Driver& driver);
  [[nodiscard]] core::Result<core::DeviceFactsRead> device(const core::Driver& driver,
                                                           core::cuda::Device device);
  /// Loads an artifact into `current`, once a context. The module lives as long as the session.
  [[nodiscard]] core::Result<std::shared_ptr<LoadedModule>> load(const core::Driver& driver,
                                                                 const CurrentContext& current,
                                                                 const core::KernelTable& table,
                                                                 const core::Digest& artifact);
  [[nodiscard]] bool device_class_given() const { return m_options.device_class.has_value(); }
  [[nodiscard]] const Release& release() const { return *m_release; }

 private:
  explicit Session(SessionOptions options)
      : m_options(std::move(options)),
        m_metrics(std::make_shared<Metrics>(std::move(m_options.listener))) {}
  [[nodiscard]] Deadline deadline() const { return deadline_after(m_options.timeout_seconds); }

  SessionOptions m_options;
  std::shared_ptr<Metrics> m_metrics;
  std::shared_ptr<Cache> m_cache;
  std::unique_ptr<Release> m_release;

  /// A context's handle may be used again by the driver after it was destroyed; its id never is.
  using ModuleKey = std::tuple<core::cuda::Context, unsigned long long, core::Digest>;
  std::mutex m_mutex;
  std::map<core::cuda::Device, core::DeviceFactsRead> m_devices;
  std::map<core::cuda::Device, core::cuda::Context> m_primary;  ///< retained
  std::map<ModuleKey, std::shared_ptr<LoadedModule>> m_modules;

  // Last: their threads use what stands above.
  std::unique_ptr<LookAhead> m_look_ahead;
  std::unique_ptr<Prefetch> m_prefetch;
};

}  // namespace cubinary::client
