// SPDX-License-Identifier: Apache-2.0
#include "store/measurements.hpp"

#include <array>
#include <bit>
#include <cmath>
#include <ctime>
#include <span>
#include <utility>

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

}  // namespace

std::string_view status_name(MeasurementStatus status) {
  return k_status_names.at(static_cast<std::size_t>(status));
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
  for (const auto& [fact, value] : session.facts) {
    TRY(
        connection.run("INSERT INTO device_session_fact (session_id, name, value) "
                       "VALUES (?1, ?2, ?3)",
                       id, fact, value));
  }
  return id;
}

Result<void> put_measurement(Writer& writer, const Measurement& measurement) {
  Connection& connection = writer.connection();
  if (!std::isfinite(measurement.median_us) || !std::isfinite(measurement.interval_us)) {
    return fail(ErrorCode::usage, "a measurement's median and interval must be finite numbers");
  }
  TRY_ASSIGN(const auto shape, intern_json(connection, core::to_json(measurement.shape)));
  TRY_ASSIGN(const auto config, intern_json(connection, core::to_json(measurement.config)));
  TRY(connection.run(
      "INSERT INTO measurement (candidate_id, session_id, kernel_id, types_id, shape_id, "
      "device_class_id, config_id, status, samples_us, median_us, interval_us, max_error, created) "
      "SELECT c.id, s.id, c.kernel_id, c.types_id, ?3, s.device_class_id, ?4, ?5, ?6, ?7, ?8, ?9, "
      "?10 FROM candidate c, device_session s WHERE c.id = ?1 AND s.id = ?2",
      measurement.candidate, measurement.session, shape, config,
      static_cast<int>(measurement.status), std::as_bytes(std::span(measurement.samples_us)),
      measurement.median_us, measurement.interval_us, measurement.max_error, std::time(nullptr)));
  if (connection.changes() != 1) {
    return fail(ErrorCode::not_found, "no candidate " + std::to_string(measurement.candidate) +
                                          " or no session " + std::to_string(measurement.session) +
                                          " in " + connection.path().string());
  }
  return {};
}

Result<std::vector<Winner>> winners(const Reader& reader, std::string_view kernel,
                                    std::string_view target) {
  TRY_ASSIGN(
      Statement row,
      reader.connection().query(
          "SELECT types, shape, class, config, candidate_id, median_us, interval_us, driver, "
          "product FROM ("
          "SELECT t.json AS types, p.json AS shape, d.name AS class, g.json AS config, "
          "m.candidate_id, m.median_us, m.interval_us, s.driver, s.product, "
          "row_number() OVER (PARTITION BY m.types_id, m.shape_id, m.device_class_id "
          "ORDER BY m.median_us, g.json, m.id) AS place "
          "FROM measurement m JOIN candidate c ON c.id = m.candidate_id "
          "JOIN json_value t ON t.id = m.types_id JOIN json_value p ON p.id = m.shape_id "
          "JOIN json_value g ON g.id = m.config_id "
          "JOIN device_class d ON d.id = m.device_class_id "
          "JOIN device_session s ON s.id = m.session_id "
          "WHERE m.kernel_id = (SELECT id FROM kernel WHERE name = ?1) AND c.target = ?2 "
          "AND c.current = 1 AND c.role = 0 AND m.status = 0 AND m.max_error <= 1"
          ") WHERE place = 1 ORDER BY types, shape, class",
          kernel, target));
  std::vector<Winner> found;
  while (true) {
    TRY_ASSIGN(const bool more, row.step());
    if (!more) {
      return found;
    }
    Winner winner;
    winner.kernel = kernel;
    TRY_ASSIGN(winner.types, core::types_from_json(row.text(0)));
    TRY_ASSIGN(winner.shape, core::shape_from_json(row.text(1)));
    TRY_ASSIGN(winner.device_class, DeviceClass::parse(row.text(2)));
    TRY_ASSIGN(winner.config, core::config_from_json(row.text(3)));
    winner.candidate = row.integer(4);
    winner.median_us = row.real(5);
    winner.interval_us = row.real(6);
    winner.driver = row.text(7);
    winner.product = row.text(8);
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
