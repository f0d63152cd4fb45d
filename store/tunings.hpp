// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/digest.hpp"
#include "core/base/result.hpp"
#include "core/model/device_class.hpp"
#include "core/model/values.hpp"
#include "store/measurements.hpp"
#include "store/store.hpp"

namespace cubinary::store {

/// What one lease, one search and one run-off are about.
struct TuningJob {
  std::string kernel;
  std::string target;
  core::Types types;
  core::Shape shape;  ///< all axes
  core::DeviceClass device_class;
  friend bool operator==(const TuningJob&, const TuningJob&) = default;
};

/// A participant of a run-off.
struct Finalist {
  MeasurementId measurement = 0;
  bool tied = false;  ///< not separable from the fastest
};

/// What tuning one job came to. The newest one counts.
struct Tuning {
  std::int64_t id = 0;
  TuningJob job;
  SessionId session = 0;
  core::Digest recipe;
  std::string strategy;
  std::uint64_t configs = 0;   ///< valid ones
  std::uint64_t measured = 0;  ///< of those, whatever came of it
  std::uint64_t failed = 0;    ///< of those measured, not ok
  bool complete = false;       ///< the search ended by itself, not by its budget
  double seconds = 0;
  std::optional<MeasurementId> baseline;  ///< what an untuned release would run
  std::vector<Finalist> finalists;        ///< best first; empty when nothing was right
  std::int64_t created = 0;               ///< Unix seconds; set by the store
};
[[nodiscard]] core::Result<std::int64_t> put_tuning(Writer& writer, const Tuning& tuning);

/// The newest tuning of a job; its finalists are those whose measurements are still there.
[[nodiscard]] core::Result<std::optional<Tuning>> find_tuning(const Reader& reader,
                                                              const TuningJob& job);

}  // namespace cubinary::store
