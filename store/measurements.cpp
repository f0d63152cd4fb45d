// SPDX-License-Identifier: Apache-2.0
#include "store/measurements.hpp"

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <ctime>
#include <limits>
#include <span>
#include <utility>

#include "core/base/nearest.hpp"
#include "store/connection.hpp"
#include "store/json_value.hpp"

namespace cubinary::store {

using core::DeviceClass;
using core::ErrorCode;
using core::fail;
using core::Result;

static_assert(std::endian::native == std::endian::little, "samples are stored little-endian");

namespace {

constexpr std::array<std::string_view, 6> k_status_names{"ok",      "wrong",   "fault",
                                                         "timeout", "invalid", "throttled"};

std::optional<double> optional_real(const Statement& row, int column) {
  return row.is_null(column) ? std::nullopt : std::optional(row.real(column));
}

/// A digest column that older stores left empty.
std::optional<core::Digest> optional_digest(const Statement& row, int column) {
  return row.blob(column).size() == 32 ? std::optional(row.digest(column)) : std::nullopt;
}

}  // namespace

std::string_view status_name(MeasurementStatus status) {
  return k_status_names.at(static_cast<std::size_t>(status));
}

Result<MeasurementStatus> parse_measurement_status(std::string_view name) {
  for (std::size_t i = 0; i < k_status_names.size(); ++i) {
    if (k_status_names.at(i) == name) {
      return static_cast<MeasurementStatus>(i);
    }
  }
  const std::vector<std::string> names(k_status_names.begin(), k_status_names.end());
  return fail(ErrorCode::usage, "unknown measurement status '" + std::string(name) + "'" +
                                    core::did_you_mean(name, names));
}

Result<SessionId> put_session(Writer& writer, const DeviceSession& session) {
  Connection& connection = writer.connection();
  const std::string name = session.device_class.text();
  TRY(connection.run("INSERT INTO device_class (name) VALUES (?1) ON CONFLICT (name) DO NOTHING",
                     name));
  TRY(
      connection.run("INSERT INTO device_session (device_class_id, product, uuid_hash, driver, "
                     "created) VALUES ((SELECT id FROM device_class WHERE name = ?1), ?2, ?3, ?4, "
                     "?5)",
                     name, session.product, session.uuid_hash, session.driver, std::time(nullptr)));
  const SessionId id = connection.last_insert_id();
  TRY(put_session_facts(writer, id, session.facts));
  return id;
}

Result<void> put_session_facts(Writer& writer, SessionId session,
                               const std::map<std::string, std::string>& facts) {
  for (const auto& [fact, value] : facts) {
    TRY(
        writer.connection().run("INSERT INTO device_session_fact (session_id, name, value) "
                                "VALUES (?1, ?2, ?3) ON CONFLICT (session_id, name) "
                                "DO UPDATE SET value = excluded.value",
                                session, fact, value));
  }
  return {};
}

Result<std::vector<DeviceSession>> list_sessions(const Reader& reader) {
  TRY_ASSIGN(Statement row,
             reader.connection().query(
                 "SELECT s.id, d.name, s.product, s.uuid_hash, s.driver, s.created, f.name, "
                 "f.value FROM device_session s JOIN device_class d ON d.id = s.device_class_id "
                 "LEFT JOIN device_session_fact f ON f.session_id = s.id ORDER BY s.id, f.name"));
  std::vector<DeviceSession> sessions;
  while (true) {
    TRY_ASSIGN(const bool more, row.step());
    if (!more) {
      return sessions;
    }
    if (sessions.empty() || sessions.back().id != row.integer(0)) {
      DeviceSession& session = sessions.emplace_back();
      session.id = row.integer(0);
      TRY_ASSIGN(session.device_class, DeviceClass::parse(row.text(1)));
      session.product = row.text(2);
      session.uuid_hash = row.text(3);
      session.driver = row.text(4);
      session.created = row.integer(5);
    }
    if (!row.is_null(6)) {
      sessions.back().facts.emplace(row.text(6), row.text(7));
    }
  }
}

Result<MeasurementId> put_measurement(Writer& writer, const Measurement& measurement) {
  Connection& connection = writer.connection();
  if (!std::isfinite(measurement.median_us) || !std::isfinite(measurement.interval_us)) {
    return fail(ErrorCode::usage, "a measurement's median and interval must be finite numbers");
  }
  TRY_ASSIGN(const auto shape, intern_json(connection, core::to_json(measurement.shape)));
  TRY_ASSIGN(const auto config, intern_json(connection, core::to_json(measurement.config)));
  TRY(connection.run(
      "INSERT INTO measurement (candidate_id, session_id, kernel_id, types_id, shape_id, "
      "device_class_id, config_id, status, samples_us, median_us, interval_us, max_error, created, "
      "recipe, stage, message, floor_us, suspect, clock_mhz) "
      "SELECT c.id, s.id, c.kernel_id, c.types_id, ?3, s.device_class_id, ?4, ?5, ?6, ?7, ?8, ?9, "
      "?10, coalesce(?11, x''), ?12, ?13, ?14, ?15, ?16 "
      "FROM candidate c, device_session s WHERE c.id = ?1 AND s.id = ?2",
      measurement.candidate, measurement.session, shape, config,
      static_cast<int>(measurement.status), std::as_bytes(std::span(measurement.samples_us)),
      measurement.median_us, measurement.interval_us, measurement.max_error, std::time(nullptr),
      measurement.recipe, static_cast<int>(measurement.stage), measurement.message,
      measurement.floor_us, measurement.suspect ? 1 : 0, measurement.clock_mhz));
  if (connection.changes() != 1) {
    return fail(ErrorCode::not_found, "no candidate " + std::to_string(measurement.candidate) +
                                          " or no session " + std::to_string(measurement.session) +
                                          " in " + connection.path().string());
  }
  const MeasurementId id = connection.last_insert_id();
  TRY(
      connection.run("DELETE FROM tuning_journal WHERE candidate_id = ?1 AND shape_id = ?2 AND "
                     "config_id = ?3 AND device_class_id = "
                     "(SELECT device_class_id FROM device_session WHERE id = ?4)",
                     measurement.candidate, shape, config, measurement.session));
  return id;
}

Result<std::optional<MeasurementId>> find_same_measurement(const Reader& reader,
                                                           const Measurement& measurement) {
  return reader.connection().find_integer(
      "SELECT m.id FROM measurement m JOIN json_value s ON s.id = m.shape_id "
      "JOIN json_value g ON g.id = m.config_id "
      "WHERE m.candidate_id = ?1 AND m.session_id = ?2 AND s.json = ?3 AND g.json = ?4 AND "
      "m.status = ?5 AND m.stage = ?6 AND m.samples_us = ?7 AND m.message = ?8",
      measurement.candidate, measurement.session, core::to_json(measurement.shape),
      core::to_json(measurement.config), static_cast<int>(measurement.status),
      static_cast<int>(measurement.stage), std::as_bytes(std::span(measurement.samples_us)),
      measurement.message);
}

Result<void> for_each_measurement(const Reader& reader, const MeasurementFilter& filter,
                                  const std::function<Result<void>(const MeasurementRow&)>& visit) {
  const auto text = [](const auto& value) {
    return value ? std::optional(core::to_json(*value)) : std::nullopt;
  };
  std::optional<std::string> device_class;
  if (filter.device_class) {
    device_class = filter.device_class->text();
  }
  TRY_ASSIGN(
      Statement row,
      reader.connection().query(
          "SELECT m.id, m.candidate_id, m.session_id, g.json, p.json, m.status, m.stage, "
          "m.message, m.median_us, m.interval_us, m.max_error, m.floor_us, m.suspect, m.clock_mhz, "
          "m.recipe, m.created, k.name, c.target, t.json, d.name, c.current, "
          "CASE WHEN ?7 THEN m.samples_us END "
          "FROM measurement m JOIN candidate c ON c.id = m.candidate_id "
          "JOIN kernel k ON k.id = m.kernel_id JOIN json_value t ON t.id = m.types_id "
          "JOIN json_value p ON p.id = m.shape_id JOIN json_value g ON g.id = m.config_id "
          "JOIN device_class d ON d.id = m.device_class_id "
          "WHERE (?1 = '' OR k.name = ?1) AND (?2 = '' OR c.target = ?2) "
          "AND (?3 IS NULL OR t.json = ?3) AND (?4 IS NULL OR p.json = ?4) "
          "AND (?5 IS NULL OR d.name = ?5) AND (c.current = 1 OR NOT ?6) ORDER BY m.id",
          filter.kernel, filter.target, text(filter.types), text(filter.shape), device_class,
          filter.current_only ? 1 : 0, filter.with_samples ? 1 : 0));
  while (true) {
    TRY_ASSIGN(const bool more, row.step());
    if (!more) {
      return {};
    }
    MeasurementRow found;
    Measurement& m = found.measurement;
    m.id = row.integer(0);
    m.candidate = row.integer(1);
    m.session = row.integer(2);
    TRY_ASSIGN(m.config, core::config_from_json(row.text(3)));
    TRY_ASSIGN(m.shape, core::shape_from_json(row.text(4)));
    m.status = static_cast<MeasurementStatus>(row.integer(5));
    m.stage = static_cast<MeasurementStage>(row.integer(6));
    m.message = row.text(7);
    m.median_us = row.real(8);
    m.interval_us = row.real(9);
    m.max_error = row.is_null(10) ? std::numeric_limits<double>::quiet_NaN() : row.real(10);
    m.floor_us = optional_real(row, 11);
    m.suspect = row.integer(12) != 0;
    m.clock_mhz = optional_real(row, 13);
    m.recipe = optional_digest(row, 14);
    m.created = row.integer(15);
    found.kernel = row.text(16);
    found.target = row.text(17);
    TRY_ASSIGN(found.types, core::types_from_json(row.text(18)));
    TRY_ASSIGN(found.device_class, DeviceClass::parse(row.text(19)));
    found.current = row.integer(20) != 0;
    const core::ByteView samples = row.is_null(21) ? core::ByteView() : row.blob(21);
    m.samples_us.resize(samples.size() / sizeof(double));
    if (!m.samples_us.empty()) {
      std::memcpy(m.samples_us.data(), samples.data(), m.samples_us.size() * sizeof(double));
    }
    TRY(visit(found));
  }
}

Result<std::vector<Winner>> winners(const Reader& reader, std::string_view kernel,
                                    std::string_view target) {
  // A job's newest tuning first, its winner (place 0) before anything that was only measured.
  TRY_ASSIGN(
      Statement row,
      reader.connection().query(
          "WITH newest AS (SELECT max(id) AS id FROM tuning WHERE target = ?2 AND kernel_id = "
          "(SELECT id FROM kernel WHERE name = ?1) GROUP BY types_id, shape_id, device_class_id), "
          "chosen AS (SELECT f.measurement_id, f.tuning_id FROM newest n "
          "JOIN tuning_finalist f ON f.tuning_id = n.id AND f.place = 0), "
          "ranked AS (SELECT m.*, h.tuning_id, row_number() OVER ("
          "PARTITION BY m.types_id, m.shape_id, m.device_class_id "
          "ORDER BY h.tuning_id IS NULL, m.median_us, g.json, m.id) AS place "
          "FROM measurement m JOIN candidate c ON c.id = m.candidate_id "
          "JOIN json_value g ON g.id = m.config_id "
          "LEFT JOIN chosen h ON h.measurement_id = m.id "
          "WHERE m.kernel_id = (SELECT id FROM kernel WHERE name = ?1) AND c.target = ?2 "
          "AND c.current = 1 AND c.role = 0 AND m.status = 0 AND m.max_error <= 1 "
          "AND m.suspect = 0) "
          "SELECT t.json AS types, p.json AS shape, d.name AS class, g.json, m.candidate_id, "
          "m.median_us, m.interval_us, s.driver, s.product, m.id, m.session_id, m.max_error, "
          "m.floor_us, length(m.samples_us) / 8, b.backend, b.major, b.minor, b.identity, "
          "c.build_key, m.recipe, m.created, u.id, u.complete, u.measured, u.failed, "
          "(SELECT count(*) FROM tuning_finalist f WHERE f.tuning_id = u.id AND f.tied = 1 "
          "AND f.place > 0), "
          "(SELECT r.median_us FROM tuning_finalist f JOIN measurement r ON r.id = "
          "f.measurement_id WHERE f.tuning_id = u.id AND f.place > 0 ORDER BY f.place LIMIT 1), "
          "a.median_us, ag.json "
          "FROM ranked m JOIN candidate c ON c.id = m.candidate_id "
          "JOIN toolchain b ON b.id = c.toolchain_id "
          "JOIN json_value t ON t.id = m.types_id JOIN json_value p ON p.id = m.shape_id "
          "JOIN json_value g ON g.id = m.config_id "
          "JOIN device_class d ON d.id = m.device_class_id "
          "JOIN device_session s ON s.id = m.session_id "
          "LEFT JOIN tuning u ON u.id = m.tuning_id "
          "LEFT JOIN measurement a ON a.id = u.baseline_id AND a.status = 0 "
          "LEFT JOIN json_value ag ON ag.id = a.config_id "
          "WHERE m.place = 1 ORDER BY types, shape, class",
          kernel, target));
  std::vector<Winner> found;
  while (true) {
    TRY_ASSIGN(const bool more, row.step());
    if (!more) {
      return found;
    }
    Winner winner;
    winner.kernel = kernel;
    winner.target = target;
    TRY_ASSIGN(winner.types, core::types_from_json(row.text(0)));
    TRY_ASSIGN(winner.shape, core::shape_from_json(row.text(1)));
    TRY_ASSIGN(winner.device_class, DeviceClass::parse(row.text(2)));
    TRY_ASSIGN(winner.config, core::config_from_json(row.text(3)));
    winner.candidate = row.integer(4);
    winner.median_us = row.real(5);
    winner.interval_us = row.real(6);
    winner.driver = row.text(7);
    winner.product = row.text(8);
    winner.measurement = row.integer(9);
    winner.session = row.integer(10);
    winner.max_error = row.real(11);
    winner.floor_us = optional_real(row, 12);
    winner.samples = row.size(13);
    winner.toolchain.backend = row.text(14);
    winner.toolchain.version = {static_cast<int>(row.integer(15)),
                                static_cast<int>(row.integer(16))};
    winner.toolchain.identity = row.text(17);
    winner.build_key = row.digest(18);
    winner.recipe = optional_digest(row, 19);
    winner.created = row.integer(20);
    winner.tuning = row.integer(21);
    winner.complete = row.integer(22) != 0;
    winner.measured = row.size(23);
    winner.failed = row.size(24);
    winner.ties = row.size(25);
    winner.runner_up_us = optional_real(row, 26);
    winner.baseline_us = optional_real(row, 27);
    if (!row.is_null(28)) {
      TRY_ASSIGN(winner.baseline, core::config_from_json(row.text(28)));
    }
    found.push_back(std::move(winner));
  }
}

Result<std::vector<DeviceClass>> device_classes(const Reader& reader) {
  TRY_ASSIGN(Statement row,
             reader.connection().query("SELECT name FROM device_class ORDER BY name"));
  std::vector<DeviceClass> classes;
  while (true) {
    TRY_ASSIGN(const bool more, row.step());
    if (!more) {
      return classes;
    }
    TRY_ASSIGN(DeviceClass device, DeviceClass::parse(row.text(0)));
    classes.push_back(device);
  }
}

}  // namespace cubinary::store
