// SPDX-License-Identifier: Apache-2.0
#include "store/tuning_json.hpp"

#include <cmath>
#include <limits>
#include <utility>

#include "core/model/target.hpp"
#include "store/values_json.hpp"

namespace cubinary::store {

namespace json = core::json;
using core::Result;

namespace {

constexpr std::int64_t k_max = std::numeric_limits<std::int64_t>::max();

Result<std::uint64_t> count_at(const json::Node& node, std::string_view key) {
  TRY_ASSIGN(const std::int64_t value, node.integer(key, 0, k_max));
  return static_cast<std::uint64_t>(value);
}

Result<std::optional<double>> find_amount(const json::Node& node, std::string_view key) {
  TRY_ASSIGN(const json::Node member, node.find(key));
  if (!member.exists()) {
    return std::nullopt;
  }
  TRY_ASSIGN(const double value, amount_at(node, key));
  return value;
}

void put(json::Object& object, const char* key, const std::optional<double>& value) {
  if (value) {
    object.emplace(key, *value);
  }
}

}  // namespace

json::Object to_json(const DeviceSession& session) {
  json::Object object{{"device_class", session.device_class.text()},
                      {"product", session.product},
                      {"uuid_hash", session.uuid_hash},
                      {"driver", session.driver},
                      {"facts", values_to_json(session.facts)}};
  if (session.id != 0) {
    object.emplace("id", session.id);
    object.emplace("created", session.created);
  }
  return object;
}

Result<DeviceSession> session_from_json(const json::Node& node) {
  DeviceSession session;
  TRY_ASSIGN(session.device_class, device_class_at(node, "device_class"));
  TRY_ASSIGN(session.product, node.text("product"));
  TRY_ASSIGN(session.uuid_hash, node.text("uuid_hash"));
  TRY_ASSIGN(session.driver, node.text("driver"));
  TRY_ASSIGN(const json::Node facts, node.find("facts"));
  if (facts.exists()) {
    TRY_ASSIGN(session.facts, facts.text_map());
  }
  TRY_ASSIGN(session.id, node.integer_or("id", 0, k_max, 0));
  TRY_ASSIGN(session.created, node.integer_or("created", 0, k_max, 0));
  return session;
}

json::Object to_json(const Measurement& measurement) {
  json::Object object{
      {"candidate", measurement.candidate},
      {"session", measurement.session},
      {"config", values_to_json(measurement.config)},
      {"shape", values_to_json(measurement.shape)},
      {"status", status_name(measurement.status)},
      {"stage", measurement.stage == MeasurementStage::run_off ? "run-off" : "search"},
      {"samples_us", json::Array(measurement.samples_us.begin(), measurement.samples_us.end())},
      {"median_us", measurement.median_us},
      {"interval_us", measurement.interval_us},
      {"suspect", measurement.suspect}};
  // Not a number, where the outputs were none: JSON has no word for it, so it is left out.
  if (std::isfinite(measurement.max_error)) {
    object.emplace("max_error", measurement.max_error);
  }
  if (!measurement.message.empty()) {
    object.emplace("message", measurement.message);
  }
  put(object, "floor_us", measurement.floor_us);
  put(object, "clock_mhz", measurement.clock_mhz);
  if (measurement.recipe) {
    object.emplace("recipe", measurement.recipe->text());
  }
  if (measurement.id != 0) {
    object.emplace("id", measurement.id);
    object.emplace("created", measurement.created);
  }
  return object;
}

Result<Measurement> measurement_from_json(const json::Node& node) {
  Measurement measurement;
  TRY_ASSIGN(measurement.candidate, node.integer("candidate", 1, k_max));
  TRY_ASSIGN(measurement.session, node.integer("session", 1, k_max));
  TRY_ASSIGN(measurement.config, values_at(node, "config", &core::config_from_json));
  TRY_ASSIGN(measurement.shape, values_at(node, "shape", &core::shape_from_json));
  TRY_ASSIGN(const json::Node status, node.at("status"));
  TRY_ASSIGN(const std::string status_text, status.text());
  const auto parsed = parse_measurement_status(status_text);
  if (!parsed) {
    return core::fail(status.error(parsed.error().message));
  }
  measurement.status = *parsed;
  TRY_ASSIGN(const std::string stage, node.text_or("stage", "search"));
  if (stage != "search" && stage != "run-off") {
    return core::fail(node.error("stage must be search or run-off"));
  }
  measurement.stage = stage == "search" ? MeasurementStage::search : MeasurementStage::run_off;
  TRY_ASSIGN(const json::Node samples, node.find("samples_us"));
  if (samples.exists()) {
    TRY_ASSIGN(const auto nodes, samples.elements());
    for (const json::Node& sample : nodes) {
      TRY_ASSIGN(const double value, sample.number());
      measurement.samples_us.push_back(value);
    }
  }
  TRY_ASSIGN(measurement.median_us, amount_at(node, "median_us"));
  TRY_ASSIGN(measurement.interval_us, amount_at(node, "interval_us"));
  TRY_ASSIGN(const auto error, find_amount(node, "max_error"));
  measurement.max_error = error.value_or(std::numeric_limits<double>::quiet_NaN());
  TRY_ASSIGN(measurement.message, node.text_or("message", ""));
  TRY_ASSIGN(measurement.suspect, node.boolean_or("suspect", false));
  TRY_ASSIGN(measurement.floor_us, find_amount(node, "floor_us"));
  TRY_ASSIGN(measurement.clock_mhz, find_amount(node, "clock_mhz"));
  TRY_ASSIGN(const json::Node recipe, node.find("recipe"));
  if (recipe.exists()) {
    TRY_ASSIGN(measurement.recipe, digest_at(node, "recipe"));
  }
  TRY_ASSIGN(measurement.id, node.integer_or("id", 0, k_max, 0));
  TRY_ASSIGN(measurement.created, node.integer_or("created", 0, k_max, 0));
  return measurement;
}

json::Object to_json(const MeasurementRow& row) {
  json::Object object = to_json(row.measurement);
  object.emplace("kernel", row.kernel);
  object.emplace("target", row.target);
  object.emplace("types", values_to_json(row.types));
  object.emplace("device_class", row.device_class.text());
  object.emplace("current", row.current);
  return object;
}

Result<MeasurementRow> measurement_row_from_json(const json::Node& node) {
  MeasurementRow row;
  TRY_ASSIGN(row.measurement, measurement_from_json(node));
  TRY_ASSIGN(row.kernel, node.text("kernel"));
  TRY_ASSIGN(row.target, node.text("target"));
  TRY_ASSIGN(row.types, values_at(node, "types", &core::types_from_json));
  TRY_ASSIGN(row.device_class, device_class_at(node, "device_class"));
  TRY_ASSIGN(row.current, node.boolean_or("current", false));
  return row;
}

json::Object to_json(const TuningJob& job) {
  return {{"kernel", job.kernel},
          {"target", job.target},
          {"types", values_to_json(job.types)},
          {"shape", values_to_json(job.shape)},
          {"device_class", job.device_class.text()}};
}

Result<TuningJob> job_from_json(const json::Node& node) {
  TuningJob job;
  TRY_ASSIGN(job.kernel, node.text("kernel"));
  TRY_ASSIGN(job.target, node.text("target"));
  if (const auto target = core::Target::parse(job.target); !target) {
    return core::fail(node.error(target.error().message));
  }
  TRY_ASSIGN(job.types, values_at(node, "types", &core::types_from_json));
  TRY_ASSIGN(job.shape, values_at(node, "shape", &core::shape_from_json));
  TRY_ASSIGN(job.device_class, device_class_at(node, "device_class"));
  return job;
}

json::Object to_json(const Tuning& tuning) {
  json::Array finalists;
  for (const Finalist& finalist : tuning.finalists) {
    finalists.emplace_back(
        json::Object{{"measurement", finalist.measurement}, {"tied", finalist.tied}});
  }
  json::Object object{{"job", to_json(tuning.job)},     {"session", tuning.session},
                      {"recipe", tuning.recipe.text()}, {"strategy", tuning.strategy},
                      {"configs", tuning.configs},      {"measured", tuning.measured},
                      {"failed", tuning.failed},        {"complete", tuning.complete},
                      {"seconds", tuning.seconds},      {"finalists", std::move(finalists)}};
  if (tuning.baseline) {
    object.emplace("baseline", *tuning.baseline);
  }
  if (tuning.id != 0) {
    object.emplace("id", tuning.id);
    object.emplace("created", tuning.created);
  }
  return object;
}

Result<Tuning> tuning_from_json(const json::Node& node) {
  Tuning tuning;
  TRY_ASSIGN(const json::Node job, node.at("job"));
  TRY_ASSIGN(tuning.job, job_from_json(job));
  TRY_ASSIGN(tuning.session, node.integer("session", 1, k_max));
  TRY_ASSIGN(tuning.recipe, digest_at(node, "recipe"));
  TRY_ASSIGN(tuning.strategy, node.text("strategy"));
  TRY_ASSIGN(tuning.configs, count_at(node, "configs"));
  TRY_ASSIGN(tuning.measured, count_at(node, "measured"));
  TRY_ASSIGN(tuning.failed, count_at(node, "failed"));
  TRY_ASSIGN(tuning.complete, node.boolean_or("complete", false));
  TRY_ASSIGN(tuning.seconds, amount_at(node, "seconds"));
  TRY_ASSIGN(const json::Node baseline, node.find("baseline"));
  if (baseline.exists()) {
    TRY_ASSIGN(tuning.baseline, baseline.integer(1, k_max));
  }
  TRY_ASSIGN(const json::Node finalists, node.at("finalists"));
  TRY_ASSIGN(const auto nodes, finalists.elements());
  for (const json::Node& item : nodes) {
    Finalist finalist;
    TRY_ASSIGN(finalist.measurement, item.integer("measurement", 1, k_max));
    TRY_ASSIGN(finalist.tied, item.boolean_or("tied", false));
    tuning.finalists.push_back(finalist);
  }
  TRY_ASSIGN(tuning.id, node.integer_or("id", 0, k_max, 0));
  TRY_ASSIGN(tuning.created, node.integer_or("created", 0, k_max, 0));
  return tuning;
}

json::Object to_json(const Lease& lease) {
  return {{"id", lease.id},
          {"job", to_json(lease.job)},
          {"owner", lease.owner},
          {"expires", lease.expires}};
}

Result<Lease> lease_from_json(const json::Node& node) {
  Lease lease;
  TRY_ASSIGN(lease.id, node.integer("id", 1, k_max));
  TRY_ASSIGN(const json::Node job, node.at("job"));
  TRY_ASSIGN(lease.job, job_from_json(job));
  TRY_ASSIGN(lease.owner, node.text("owner"));
  TRY_ASSIGN(lease.expires, node.integer("expires", 0, k_max));
  return lease;
}

json::Object to_json(const JournalEntry& entry) {
  return {{"candidate", entry.candidate},
          {"shape", values_to_json(entry.shape)},
          {"config", values_to_json(entry.config)},
          {"device_class", entry.device_class.text()},
          {"attempts", entry.attempts}};
}

Result<JournalEntry> journal_from_json(const json::Node& node) {
  JournalEntry entry;
  TRY_ASSIGN(entry.candidate, node.integer("candidate", 1, k_max));
  TRY_ASSIGN(entry.shape, values_at(node, "shape", &core::shape_from_json));
  TRY_ASSIGN(entry.config, values_at(node, "config", &core::config_from_json));
  TRY_ASSIGN(entry.device_class, device_class_at(node, "device_class"));
  TRY_ASSIGN(const std::int64_t attempts,
             node.integer_or("attempts", 0, std::numeric_limits<int>::max(), 0));
  entry.attempts = static_cast<unsigned>(attempts);
  return entry;
}

}  // namespace cubinary::store
