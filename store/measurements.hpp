// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/digest.hpp"
#include "core/base/result.hpp"
#include "core/model/device_class.hpp"
#include "core/model/values.hpp"
#include "store/candidates.hpp"
#include "store/store.hpp"

namespace cubinary::store {

using SessionId = std::int64_t;
using MeasurementId = std::int64_t;

/// One tuning session on one device: what was true of the machine.
struct DeviceSession {
  SessionId id = 0;
  core::DeviceClass device_class;
  std::string product;    ///< for display only
  std::string uuid_hash;  ///< hex SHA-256 of the UUID
  std::string driver;     ///< "580.159.04"
  /// Clocks, temperature, measured peaks: `dram_gbps` `l2_gbps` `f32_tflops` `mma_tflops` `tick_us`
  /// `clock_mhz` … as decimal text.
  std::map<std::string, std::string> facts;
  std::int64_t created = 0;  ///< Unix seconds; set by the store
};
[[nodiscard]] core::Result<SessionId> put_session(Writer& writer, const DeviceSession& session);
/// Adds facts to a session, or replaces them.
[[nodiscard]] core::Result<void> put_session_facts(Writer& writer, SessionId session,
                                                   const std::map<std::string, std::string>& facts);
/// All sessions, oldest first.
[[nodiscard]] core::Result<std::vector<DeviceSession>> list_sessions(const Reader& reader);

enum class MeasurementStatus : std::uint8_t { ok, wrong, fault, timeout, invalid, throttled };
[[nodiscard]] std::string_view status_name(MeasurementStatus status);
/// `usage` with the nearest name.
[[nodiscard]] core::Result<MeasurementStatus> parse_measurement_status(std::string_view name);

enum class MeasurementStage : std::uint8_t {
  search,   ///< on its own, with few samples when clearly slow
  run_off,  ///< interleaved with the others that came near the best
};

/// One candidate + launch config, on one shape, in one session.
struct Measurement {
  MeasurementId id = 0;  ///< set by the store
  CandidateId candidate = 0;
  SessionId session = 0;
  core::Config config;  ///< all tunables
  core::Shape shape;    ///< all axes
  MeasurementStatus status = MeasurementStatus::ok;
  MeasurementStage stage = MeasurementStage::search;
  std::string message;             ///< why it is not ok; empty when it is
  std::vector<double> samples_us;  ///< raw samples, in order
  double median_us = 0;
  double interval_us = 0;              ///< half width of the 95% interval of the median
  double max_error = 0;                ///< against the reference, in tolerances (≤ 1 passes)
  std::optional<double> floor_us;      ///< bytes and flops at the session's peaks
  bool suspect = false;                ///< twice under 0.9 × floor: reported, never selected
  std::optional<double> clock_mhz;     ///< while sampling
  std::optional<core::Digest> recipe;  ///< of the manifest's part in it; none in older stores
  std::int64_t created = 0;            ///< Unix seconds; set by the store
};
/// Also removes the candidate's journal entry for this shape, config and device class.
[[nodiscard]] core::Result<MeasurementId> put_measurement(Writer& writer,
                                                          const Measurement& measurement);

/// The measurement of this candidate, session, shape and config with this very outcome, to the last
/// sample: one that was sent twice.
[[nodiscard]] core::Result<std::optional<MeasurementId>> find_same_measurement(
    const Reader& reader, const Measurement& measurement);

/// A measurement with what it was made of.
struct MeasurementRow {
  Measurement measurement;
  std::string kernel;
  std::string target;
  core::Types types;
  core::DeviceClass device_class;
  bool current = false;  ///< the candidate is what its kernel's inputs now say
};
struct MeasurementFilter {
  std::string kernel;  ///< empty: all
  std::string target;  ///< empty: all
  std::optional<core::Types> types;
  std::optional<core::Shape> shape;
  std::optional<core::DeviceClass> device_class;
  bool current_only = true;
  bool with_samples = false;
};
/// Calls `visit` a measurement at a time, oldest first; stops at its first error.
[[nodiscard]] core::Result<void> for_each_measurement(
    const Reader& reader, const MeasurementFilter& filter,
    const std::function<core::Result<void>(const MeasurementRow&)>& visit);

/// The selected measurement for (kernel, types, shape, device class) among current candidates of a
/// target: the winner of the newest tuning, if its measurement is still there; else the smallest
/// median with status ok, a passed check and no suspicion, ties to the smaller config text.
struct Winner {
  std::string kernel;
  std::string target;
  core::Types types;
  core::Shape shape;
  core::DeviceClass device_class;
  core::Config config;
  CandidateId candidate = 0;
  MeasurementId measurement = 0;
  SessionId session = 0;
  double median_us = 0;
  double interval_us = 0;
  double max_error = 0;
  std::optional<double> floor_us;  ///< floor_us / median_us is the share of the roofline
  std::uint64_t samples = 0;
  std::string driver;
  std::string product;
  Toolchain toolchain;
  core::Digest build_key;
  std::optional<core::Digest> recipe;
  std::int64_t created = 0;

  // From the tuning; without one (`tuning` 0) the rest is at its default.
  std::int64_t tuning = 0;
  bool complete = false;               ///< the search ended by itself, not by its budget
  std::uint64_t measured = 0;          ///< configs tried
  std::uint64_t failed = 0;            ///< of those
  std::uint64_t ties = 0;              ///< others not separable from the fastest
  std::optional<double> runner_up_us;  ///< the next in the run-off, tied or not
  std::optional<double> baseline_us;   ///< what an untuned release would run
  std::optional<core::Config> baseline;
};
[[nodiscard]] core::Result<std::vector<Winner>> winners(const Reader& reader,
                                                        std::string_view kernel,
                                                        std::string_view target);
[[nodiscard]] core::Result<std::vector<core::DeviceClass>> device_classes(const Reader& reader);

}  // namespace cubinary::store
