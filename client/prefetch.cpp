// SPDX-License-Identifier: Apache-2.0
#include "client/prefetch.hpp"

#include <algorithm>
#include <exception>
#include <system_error>
#include <utility>

#include <fnmatch.h>

#include "client/parallel.hpp"
#include "core/driver/driver.hpp"

namespace cubinary::client {
namespace {

using core::fail;
using core::Result;

constexpr std::size_t k_width = 8;

Result<std::vector<core::Capability>> capabilities() {
  TRY_ASSIGN(const core::Driver* driver, core::Driver::get());
  int count = 0;
  TRY(driver->check(driver->device_count(&count), "cuDeviceGetCount"));
  std::vector<core::Capability> found;
  for (int i = 0; i < count; ++i) {
    core::cuda::Device device = 0;
    TRY(driver->check(driver->device_get(&device, i), "cuDeviceGet"));
    TRY_ASSIGN(const core::DeviceFactsRead read, core::read_device(*driver, device));
    found.push_back(read.device_class.capability);
  }
  return found;
}

}  // namespace

Prefetch::~Prefetch() {
  m_stop = true;
  (void)wait();
}

void Prefetch::begin(Request request) {
  const auto work = [this, request = std::move(request)] {
    Result<void> done;
    try {
      done = run(request);
    } catch (const std::exception& thrown) {
      done = fail(core::ErrorCode::internal, std::string("internal error: ") + thrown.what());
    }
    const std::lock_guard lock(m_mutex);
    if (!done && !m_error) {
      m_error = done.error();
    }
  };
  const std::lock_guard lock(m_mutex);
  try {
    m_threads.emplace_back(work);
  } catch (const std::system_error&) {
    m_error = core::Error{core::ErrorCode::environment,
                          "prefetch: no thread can be started; code is fetched when it is needed"};
  }
}

Result<void> Prefetch::wait() {
  while (true) {
    std::vector<std::thread> threads;
    {
      const std::lock_guard lock(m_mutex);
      threads.swap(m_threads);
      if (threads.empty()) {
        if (m_error) {
          return fail(*std::exchange(m_error, std::nullopt));
        }
        return {};
      }
    }
    for (auto& thread : threads) {
      thread.join();
    }
  }
}

Result<std::vector<core::Target>> Prefetch::targets_for(const Request& request) const {
  std::vector<core::Capability> wanted;
  if (request.capability) {
    wanted.push_back(*request.capability);
  } else if (m_release.targets().size() == 1) {
    return m_release.targets();  // no other choice: no need to wait for the driver
  } else {
    TRY_ASSIGN(wanted, capabilities());
  }
  std::vector<core::Target> targets;
  for (const core::Target& target : m_release.targets()) {
    if (std::ranges::any_of(wanted, [&](const auto& one) { return target.runs_on(one); })) {
      targets.push_back(target);
    }
  }
  return targets;
}

Result<void> Prefetch::run(const Request& request) {
  TRY_ASSIGN(const auto targets, targets_for(request));
  std::vector<std::shared_ptr<const TargetTables>> owners;
  std::vector<const core::KernelTable*> tables;
  for (const core::Target& target : targets) {
    TRY_ASSIGN(auto owner, m_release.tables(target, request.deadline));
    for (std::size_t i = 0; i < owner->size(); ++i) {
      const bool named = request.kernel_globs.empty() ||
                         std::ranges::any_of(request.kernel_globs, [&](const std::string& glob) {
                           return ::fnmatch(glob.c_str(), owner->name(i).c_str(), 0) == 0;
                         });
      if (!named) {
        continue;
      }
      TRY_ASSIGN(const core::KernelTable* table, owner->table(i));
      if (!table->entries.empty()) {
        tables.push_back(table);
      }
    }
    owners.push_back(std::move(owner));
  }
  return parallel_for(tables.size(), k_width, [&](std::size_t i) -> Result<void> {
    return m_stop ? Result<void>() : m_release.warm(*tables[i], request.deadline);
  });
}

}  // namespace cubinary::client
