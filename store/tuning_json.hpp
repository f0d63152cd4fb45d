// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/json.hpp"
#include "core/base/result.hpp"
#include "store/leases.hpp"
#include "store/measurements.hpp"
#include "store/tunings.hpp"

/// Sessions, measurements, jobs, tunings and leases as they travel between a tuner and a server
/// (schema/openapi.yaml). Ids are the server's own. Reading is strict: errors are `corrupt` with
/// the place.
namespace cubinary::store {

[[nodiscard]] core::json::Object to_json(const DeviceSession& session);
[[nodiscard]] core::Result<DeviceSession> session_from_json(const core::json::Node& node);

[[nodiscard]] core::json::Object to_json(const Measurement& measurement);
[[nodiscard]] core::Result<Measurement> measurement_from_json(const core::json::Node& node);
[[nodiscard]] core::json::Object to_json(const MeasurementRow& row);
[[nodiscard]] core::Result<MeasurementRow> measurement_row_from_json(const core::json::Node& node);

[[nodiscard]] core::json::Object to_json(const TuningJob& job);
[[nodiscard]] core::Result<TuningJob> job_from_json(const core::json::Node& node);
[[nodiscard]] core::json::Object to_json(const Tuning& tuning);
[[nodiscard]] core::Result<Tuning> tuning_from_json(const core::json::Node& node);

[[nodiscard]] core::json::Object to_json(const Lease& lease);
[[nodiscard]] core::Result<Lease> lease_from_json(const core::json::Node& node);
[[nodiscard]] core::json::Object to_json(const JournalEntry& entry);
[[nodiscard]] core::Result<JournalEntry> journal_from_json(const core::json::Node& node);

}  // namespace cubinary::store
