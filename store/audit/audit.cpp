// SPDX-License-Identifier: Apache-2.0
#include "store/audit/audit.hpp"

#include <algorithm>
#include <array>
#include <set>
#include <tuple>
#include <utility>

#include <fnmatch.h>

#include "core/base/nearest.hpp"
#include "store/candidates.hpp"
#include "store/connection.hpp"

namespace cubinary::store {
namespace {

using core::DeviceClass;
using core::ErrorCode;
using core::fail;
using core::Result;

std::string lower(std::string_view text) {
  std::string low(text);
  std::transform(low.begin(), low.end(), low.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return low;
}

std::string join(const std::set<std::string>& words) {
  std::string text;
  for (const std::string& word : words) {
    text += (text.empty() ? "" : ", ") + word;
  }
  return text;
}

}  // namespace

Result<std::vector<Kernel>> audited_kernels(const Reader& reader, const AuditFilter& filter) {
  TRY_ASSIGN(std::vector<Kernel> kernels, list_kernels(reader));
  std::vector<std::string> names;
  for (const Kernel& kernel : kernels) {
    names.push_back(kernel.name);
  }
  if (!filter.kernels.empty()) {
    std::erase_if(kernels, [&](const Kernel& kernel) {
      return ::fnmatch(filter.kernels.c_str(), kernel.name.c_str(), 0) != 0;
    });
    if (kernels.empty()) {
      return fail(ErrorCode::not_found, "no kernel in the store matches \"" + filter.kernels +
                                            "\"" + core::did_you_mean(filter.kernels, names));
    }
  }
  std::sort(kernels.begin(), kernels.end(),
            [](const Kernel& a, const Kernel& b) { return a.name < b.name; });
  return kernels;
}

Result<std::vector<std::string>> current_targets(const Reader& reader, std::string_view kernel) {
  TRY_ASSIGN(Statement row,
             reader.connection().query(
                 "SELECT DISTINCT target FROM candidate WHERE current = 1 AND role = 0 "
                 "AND kernel_id = (SELECT id FROM kernel WHERE name = ?1) ORDER BY target",
                 kernel));
  std::vector<std::string> targets;
  while (true) {
    TRY_ASSIGN(const bool more, row.step());
    if (!more) {
      return targets;
    }
    targets.push_back(row.text(0));
  }
}

Result<DeviceClass> find_device_class(const Reader& reader, std::string_view text) {
  TRY_ASSIGN(const auto classes, device_classes(reader));
  TRY_ASSIGN(const auto sessions, list_sessions(reader));
  if (classes.empty()) {
    return fail(ErrorCode::not_found,
                "the store has no measurement of any device: run `cubinary tune` on one");
  }
  std::set<std::string> all;
  std::set<std::string> found;
  const std::string part = lower(text);
  for (const DeviceClass& device : classes) {
    const std::string name = device.text();
    if (name == text) {
      return device;
    }
    all.insert(name);
    if (!part.empty() && lower(name).find(part) != std::string::npos) {
      found.insert(name);
    }
  }
  for (const DeviceSession& session : sessions) {
    if (!part.empty() && lower(session.product).find(part) != std::string::npos) {
      found.insert(session.device_class.text());
    }
  }
  if (found.size() > 1) {
    return fail(ErrorCode::usage,
                "\"" + std::string(text) + "\" could mean " + join(found) + ": write more of it");
  }
  if (found.empty()) {
    const std::vector<std::string> names(all.begin(), all.end());
    return fail(ErrorCode::not_found,
                "the store has no measurement of a device \"" + std::string(text) + "\"" +
                    core::did_you_mean(text, names) + "; it has " + join(all));
  }
  return DeviceClass::parse(*found.begin());
}

std::string_view origin_name(WinnerOrigin origin) {
  constexpr std::array<std::string_view, 3> k_names = {"tuned", "budget", "measured"};
  return k_names.at(static_cast<std::size_t>(origin));
}

WinnerOrigin origin(const Winner& winner) {
  if (winner.tuning == 0) {
    return WinnerOrigin::measured;
  }
  return winner.complete ? WinnerOrigin::tuned : WinnerOrigin::budget;
}

double confidence(const Winner& winner) {
  return winner.median_us > 0 ? winner.interval_us / winner.median_us : 0;
}

std::optional<double> roofline(const Winner& winner) {
  if (!winner.floor_us || *winner.floor_us <= 0 || winner.median_us <= 0) {
    return std::nullopt;
  }
  return *winner.floor_us / winner.median_us;
}

std::optional<double> margin(const Winner& winner) {
  if (!winner.runner_up_us || winner.median_us <= 0) {
    return std::nullopt;
  }
  return *winner.runner_up_us / winner.median_us - 1;
}

std::optional<double> speedup(const Winner& winner) {
  if (!winner.baseline_us || winner.median_us <= 0) {
    return std::nullopt;
  }
  return *winner.baseline_us / winner.median_us;
}

Result<std::vector<Winner>> audit_winners(const Reader& reader, const AuditFilter& filter) {
  TRY_ASSIGN(const auto kernels, audited_kernels(reader, filter));
  std::vector<Winner> all;
  for (const Kernel& kernel : kernels) {
    TRY_ASSIGN(const auto targets, current_targets(reader, kernel.name));
    for (const std::string& target : targets) {
      if (!filter.target.empty() && filter.target != target) {
        continue;
      }
      TRY_ASSIGN(auto found, winners(reader, kernel.name, target));
      for (Winner& winner : found) {
        if (!filter.device_class || *filter.device_class == winner.device_class) {
          all.push_back(std::move(winner));
        }
      }
    }
  }
  std::sort(all.begin(), all.end(), [](const Winner& a, const Winner& b) {
    return std::tie(a.kernel, a.target, a.types, a.shape, a.device_class) <
           std::tie(b.kernel, b.target, b.types, b.shape, b.device_class);
  });
  return all;
}

}  // namespace cubinary::store
