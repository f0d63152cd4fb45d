// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/base/result.hpp"
#include "store/connection.hpp"
#include "store/tunings.hpp"

namespace cubinary::store {

/// A TuningJob as rows know it. The target is text everywhere.
struct JobIds {
  std::int64_t kernel = 0;
  std::int64_t types = 0;
  std::int64_t shape = 0;
  std::int64_t device_class = 0;
};

/// Finds a job's ids; types, shape and device class are inserted when new. `not_found` for a kernel
/// the store does not have.
[[nodiscard]] core::Result<JobIds> intern_job(Connection& connection, const TuningJob& job);

/// Reads a job from columns `first` on: kernel name, target, types, shape, device class name.
[[nodiscard]] core::Result<TuningJob> read_job(const Statement& row, int first);

}  // namespace cubinary::store
