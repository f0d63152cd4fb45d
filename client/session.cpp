// SPDX-License-Identifier: Apache-2.0
#include "client/session.hpp"

#include <chrono>
#include <cstdlib>
#include <tuple>
#include <utility>

#include "client/kernel.hpp"

namespace cubinary::client {

using core::DeviceFactsRead;
using core::Driver;
using core::ErrorCode;
using core::fail;
using core::Result;
namespace cuda = core::cuda;

namespace {
constexpr int k_invalid_image = 200;
constexpr int k_no_binary_for_gpu = 209;
constexpr int k_unsupported_ptx_version = 222;

/// What the release says that compiling an artifact took; 0 where it does not.
double compile_seconds(const core::KernelTable& table, const core::Digest& artifact) {
  for (const core::TableEntry& entry : table.entries) {
    const auto found = entry.provenance.find("compile_seconds");
    if (entry.artifact == artifact && found != entry.provenance.end()) {
      return std::strtod(found->second.c_str(), nullptr);
    }
  }
  return 0;
}
}  // namespace

Result<ContextScope> ContextScope::enter(const Driver& driver, const CurrentContext& current) {
  cuda::Context now = nullptr;
  TRY(driver.check(driver.context_current(&now), "cuCtxGetCurrent"));
  if (now == current.context) {
    return ContextScope(nullptr);
  }
  TRY(driver.check(driver.context_push(current.context), "cuCtxPushCurrent"));
  return ContextScope(&driver);
}

ContextScope::~ContextScope() {
  if (m_driver != nullptr) {
    cuda::Context popped = nullptr;
    (void)m_driver->context_pop(&popped);
  }
}

Result<std::shared_ptr<Session>> Session::open(SessionOptions options) {
  auto session = std::shared_ptr<Session>(new Session(std::move(options)));
  const SessionOptions& o = session->m_options;
  Cache::Options cache{.directory = o.cache, .log = o.log, .metrics = session->m_metrics};
  if (o.cache_limit != 0) {
    cache.limit = o.cache_limit;
  }
  session->m_cache = std::make_shared<Cache>(std::move(cache));
  ReleaseOptions release{.trust = o.trust,
                         .offline = o.offline,
                         .token = o.token,
                         .deadline = session->deadline(),
                         .log = o.log,
                         .metrics = session->m_metrics};
  TRY_ASSIGN(session->m_release, Release::open(o.source, std::move(release), session->m_cache));
  session->m_prefetch = std::make_unique<Prefetch>(*session->m_release);
  if (o.look_ahead) {
    session->m_look_ahead = std::make_unique<LookAhead>(*session->m_release, session->m_cache);
    session->m_look_ahead->begin(
        o.device_class ? std::optional(o.device_class->capability) : std::nullopt,
        session->deadline());
  }
  return session;
}

Session::~Session() {
  m_prefetch.reset();
  m_look_ahead.reset();
  if (m_modules.empty() && m_primary.empty()) {
    return;
  }
  const auto driver = Driver::get();
  if (!driver) {
    return;
  }
  // At process exit the driver may be gone already; every call then just says so.
  for (const auto& [key, module] : m_modules) {
    if (module->module == nullptr) {
      continue;
    }
    if (const auto scope = ContextScope::enter(**driver, {module->context, 0, false})) {
      (void)(*driver)->module_unload(module->module);
    }
  }
  for (const auto& [device, context] : m_primary) {
    (void)(*driver)->primary_release(device);
  }
}

Result<CurrentContext> Session::current_context(const Driver& driver) {
  CurrentContext current;
  TRY(driver.check(driver.context_current(&current.context), "cuCtxGetCurrent"));
  if (current.context != nullptr) {
    TRY(driver.check(driver.context_device(&current.device), "cuCtxGetDevice"));
    return current;
  }
  current.adopted = true;
  int count = 0;
  TRY(driver.check(driver.device_count(&count), "cuDeviceGetCount"));
  if (count == 0) {
    return fail(ErrorCode::driver, "the driver sees no GPU (CUDA_VISIBLE_DEVICES may hide it)");
  }
  TRY(driver.check(driver.device_get(&current.device, 0), "cuDeviceGet"));
  const std::lock_guard lock(m_mutex);
  auto& primary = m_primary[current.device];
  if (primary == nullptr) {
    cuda::Context context = nullptr;
    if (auto retained = driver.check(driver.primary_retain(&context, current.device),
                                     "cuDevicePrimaryCtxRetain");
        !retained) {
      m_primary.erase(current.device);
      return fail(std::move(retained).error());
    }
    primary = context;
  }
  current.context = primary;
  return current;
}

Result<DeviceFactsRead> Session::device(const Driver& driver, cuda::Device device) {
  {
    const std::lock_guard lock(m_mutex);
    if (const auto found = m_devices.find(device); found != m_devices.end()) {
      return found->second;
    }
  }
  TRY_ASSIGN(DeviceFactsRead read, core::read_device(driver, device));
  const std::lock_guard lock(m_mutex);
  return m_devices.emplace(device, std::move(read)).first->second;
}

Result<std::unique_ptr<Kernel>> Session::resolve(const Query& query) {
  core::ResolveQuery resolve{.types = query.types,
                             .shape = query.shape,
                             .alignments = query.alignments,
                             .device = {},
                             .facts = {},
                             .require = query.require};
  LookupQuery lookup{.kernel = query.kernel,
                     .capability = {},
                     .cuda_version = std::nullopt,
                     .interface_digest = query.interface_digest};
  if (m_options.device_class) {
    resolve.device = *m_options.device_class;
    resolve.facts.sm_count = resolve.device.sm_count;
  } else {
    TRY_ASSIGN(const Driver* driver, Driver::get());
    TRY_ASSIGN(const CurrentContext current, current_context(*driver));
    TRY_ASSIGN(const DeviceFactsRead read, device(*driver, current.device));
    resolve.device = read.device_class;
    resolve.facts = read.facts;
    lookup.cuda_version = driver->cuda_version;
  }
  lookup.capability = resolve.device.capability;
  TRY_ASSIGN(KernelTables tables, find_kernel(*m_release, lookup, deadline()));
  TRY_ASSIGN(core::Choice choice, core::resolve(tables.tables, resolve));
  if (m_look_ahead && !m_options.device_class) {
    m_look_ahead->expect(*choice.table, choice.entry->artifact, deadline());
  }
  return Kernel::make(shared_from_this(), std::move(tables), std::move(choice), resolve.device);
}

void Session::prefetch(std::vector<std::string> kernel_globs) {
  std::optional<core::Capability> capability;
  if (m_options.device_class) {
    capability = m_options.device_class->capability;
  }
  m_prefetch->begin({std::move(kernel_globs), capability, deadline()});
}

Result<void> Session::wait_for_prefetch() {
  const auto fetched = m_prefetch->wait();
  // A cache that cannot be written was warned of, and memory has what it lacks.
  (void)m_cache->flush();
  return fetched;
}

Result<std::shared_ptr<LoadedModule>> Session::load(const Driver& driver,
                                                    const CurrentContext& current,
                                                    const core::KernelTable& table,
                                                    const core::Digest& artifact) {
  unsigned long long id = 0;
  if (driver.context_id != nullptr) {
    TRY(driver.check(driver.context_id(current.context, &id), "cuCtxGetId"));
  }
  std::shared_ptr<LoadedModule> module;
  {
    const std::lock_guard lock(m_mutex);
    auto& slot = m_modules[{current.context, id, artifact}];
    if (!slot) {
      slot = std::make_shared<LoadedModule>();
      slot->context = current.context;
    }
    module = slot;
  }
  const std::lock_guard lock(module->mutex);
  if (module->module != nullptr) {
    return module;
  }
  TRY_ASSIGN(const SharedBytes bytes, m_release->artifact(table, artifact, deadline()));
  const auto begin = std::chrono::steady_clock::now();
  const cuda::Status status = driver.module_load(&module->module, bytes.view().data());
  if (auto loaded = driver.check(status, "cuModuleLoadData"); !loaded) {
    module->module = nullptr;
    const bool refused = status == k_invalid_image || status == k_no_binary_for_gpu ||
                         status == k_unsupported_ptx_version;
    return fail(
        refused ? ErrorCode::bad_cubin : ErrorCode::cuda,
        "kernel " + table.name + ", artifact " + artifact.text() + ": " + loaded.error().message);
  }
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
  m_metrics->record({EventKind::load, table.name, bytes.view().size(), took.count(),
                     compile_seconds(table, artifact)});
  if (m_look_ahead) {
    m_look_ahead->loaded(artifact);
  }
  return module;
}

}  // namespace cubinary::client
