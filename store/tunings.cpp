// SPDX-License-Identifier: Apache-2.0
#include "store/tunings.hpp"

#include <ctime>

#include "store/job_ids.hpp"
#include "store/json_value.hpp"

namespace cubinary::store {

using core::ErrorCode;
using core::fail;
using core::Result;

Result<JobIds> intern_job(Connection& connection, const TuningJob& job) {
  JobIds ids;
  TRY_ASSIGN(const auto kernel,
             connection.find_integer("SELECT id FROM kernel WHERE name = ?1", job.kernel));
  if (!kernel) {
    return fail(ErrorCode::not_found,
                "no kernel " + job.kernel + " in " + connection.path().string());
  }
  ids.kernel = *kernel;
  TRY_ASSIGN(ids.types, intern_json(connection, core::to_json(job.types)));
  TRY_ASSIGN(ids.shape, intern_json(connection, core::to_json(job.shape)));
  const std::string name = job.device_class.text();
  TRY(connection.run("INSERT INTO device_class (name) VALUES (?1) ON CONFLICT (name) DO NOTHING",
                     name));
  TRY_ASSIGN(const auto device_class,
             connection.find_integer("SELECT id FROM device_class WHERE name = ?1", name));
  ids.device_class = device_class.value_or(0);
  return ids;
}

Result<TuningJob> read_job(const Statement& row, int first) {
  TuningJob job;
  job.kernel = row.text(first);
  job.target = row.text(first + 1);
  TRY_ASSIGN(job.types, core::types_from_json(row.text(first + 2)));
  TRY_ASSIGN(job.shape, core::shape_from_json(row.text(first + 3)));
  TRY_ASSIGN(job.device_class, core::DeviceClass::parse(row.text(first + 4)));
  return job;
}

Result<std::int64_t> put_tuning(Writer& writer, const Tuning& tuning) {
  Connection& connection = writer.connection();
  TRY_ASSIGN(const JobIds ids, intern_job(connection, tuning.job));
  TRY(connection.run(
      "INSERT INTO tuning (kernel_id, target, types_id, shape_id, device_class_id, session_id, "
      "recipe, strategy, configs, measured, failed, complete, seconds, baseline_id, created) "
      "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)",
      ids.kernel, tuning.job.target, ids.types, ids.shape, ids.device_class, tuning.session,
      tuning.recipe, tuning.strategy, tuning.configs, tuning.measured, tuning.failed,
      tuning.complete ? 1 : 0, tuning.seconds, tuning.baseline, std::time(nullptr)));
  const std::int64_t id = connection.last_insert_id();
  std::int64_t place = 0;
  for (const Finalist& finalist : tuning.finalists) {
    TRY(
        connection.run("INSERT INTO tuning_finalist (tuning_id, place, measurement_id, tied) "
                       "VALUES (?1, ?2, ?3, ?4)",
                       id, place++, finalist.measurement, finalist.tied ? 1 : 0));
  }
  return id;
}

Result<std::optional<Tuning>> find_tuning(const Reader& reader, const TuningJob& job) {
  Connection& connection = reader.connection();
  TRY_ASSIGN(
      Statement row,
      connection.query(
          "SELECT u.id, u.session_id, u.recipe, u.strategy, u.configs, u.measured, u.failed, "
          "u.complete, u.seconds, u.baseline_id, u.created FROM tuning u "
          "WHERE u.kernel_id = (SELECT id FROM kernel WHERE name = ?1) AND u.target = ?2 "
          "AND u.types_id = (SELECT id FROM json_value WHERE json = ?3) "
          "AND u.shape_id = (SELECT id FROM json_value WHERE json = ?4) "
          "AND u.device_class_id = (SELECT id FROM device_class WHERE name = ?5) "
          "ORDER BY u.id DESC LIMIT 1",
          job.kernel, job.target, core::to_json(job.types), core::to_json(job.shape),
          job.device_class.text()));
  TRY_ASSIGN(const bool found, row.step());
  if (!found) {
    return std::nullopt;
  }
  Tuning tuning;
  tuning.job = job;
  tuning.id = row.integer(0);
  tuning.session = row.integer(1);
  tuning.recipe = row.digest(2);
  tuning.strategy = row.text(3);
  tuning.configs = row.size(4);
  tuning.measured = row.size(5);
  tuning.failed = row.size(6);
  tuning.complete = row.integer(7) != 0;
  tuning.seconds = row.real(8);
  if (!row.is_null(9)) {
    tuning.baseline = row.integer(9);
  }
  tuning.created = row.integer(10);
  TRY_ASSIGN(Statement finalist,
             connection.query("SELECT measurement_id, tied FROM tuning_finalist "
                              "WHERE tuning_id = ?1 ORDER BY place",
                              tuning.id));
  while (true) {
    TRY_ASSIGN(const bool more, finalist.step());
    if (!more) {
      return tuning;
    }
    tuning.finalists.push_back({finalist.integer(0), finalist.integer(1) != 0});
  }
}

}  // namespace cubinary::store
