// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.hpp"
#include "core/model/device_class.hpp"
#include "core/model/values.hpp"
#include "store/candidates.hpp"
#include "store/store.hpp"

namespace cubinary::store {

using SessionId = std::int64_t;

/// One tuning session on one device: what was true of the machine.
struct DeviceSession {
  SessionId id = 0;
  core::DeviceClass device_class;
  std::string product;                       ///< for display only
  std::string uuid_hash;                     ///< hex SHA-256 of the UUID
  std::string driver;                        ///< "580.159.04"
  std::map<std::string, std::string> facts;  ///< clocks, temperature, measured peaks
  std::int64_t created = 0;                  ///< Unix seconds; set by the store
};
[[nodiscard]] core::Result<SessionId> put_session(Writer& writer, const DeviceSession& session);

enum class MeasurementStatus : std::uint8_t { ok, wrong, fault, timeout, invalid, throttled };
[[nodiscard]] std::string_view status_name(MeasurementStatus status);

/// One candidate + launch config, on one shape, in one session.
struct Measurement {
  CandidateId candidate = 0;
  SessionId session = 0;
  core::Config config;  ///< all tunables
  core::Shape shape;    ///< all axes
  MeasurementStatus status = MeasurementStatus::ok;
  std::vector<double> samples_us;  ///< raw samples, in order
  double median_us = 0;
  double interval_us = 0;  ///< half width of the 95% interval of the median
  double max_error = 0;    ///< against the reference, in tolerances (≤ 1 passes)
  std::int64_t created = 0;
};
[[nodiscard]] core::Result<void> put_measurement(Writer& writer, const Measurement& measurement);

/// The selected measurement for (kernel, types, shape, device class) among current candidates of a
/// target: the smallest median with status ok and a passed check; ties to the smaller config text.
struct Winner {
  std::string kernel;
  core::Types types;
  core::Shape shape;
  core::DeviceClass device_class;
  core::Config config;
  CandidateId candidate = 0;
  double median_us = 0;
  double interval_us = 0;
  std::string driver;
  std::string product;
};
[[nodiscard]] core::Result<std::vector<Winner>> winners(const Reader& reader,
                                                        std::string_view kernel,
                                                        std::string_view target);
[[nodiscard]] core::Result<std::vector<core::DeviceClass>> device_classes(const Reader& reader);

}  // namespace cubinary::store
