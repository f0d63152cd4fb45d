// SPDX-License-Identifier: Apache-2.0
#include "store/leases.hpp"

#include <ctime>

#include "store/connection.hpp"
#include "store/job_ids.hpp"
#include "store/json_value.hpp"

namespace cubinary::store {

using core::ErrorCode;
using core::fail;
using core::Result;

Result<LeaseAnswer> acquire_lease(Writer& writer, const TuningJob& job, std::string_view owner,
                                  std::int64_t now, std::int64_t seconds) {
  Connection& connection = writer.connection();
  TRY_ASSIGN(const JobIds ids, intern_job(connection, job));
  // A lapsed lease's row goes: whoever had it must not find its number valid again.
  TRY(connection.run("DELETE FROM tuning_lease WHERE expires <= ?1", now));
  TRY(connection.run(
      "INSERT INTO tuning_lease (kernel_id, target, types_id, shape_id, "
      "device_class_id, owner, expires) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) "
      "ON CONFLICT (kernel_id, target, types_id, shape_id, device_class_id) "
      "DO UPDATE SET expires = excluded.expires WHERE owner = excluded.owner",
      ids.kernel, job.target, ids.types, ids.shape, ids.device_class, owner, now + seconds));
  TRY_ASSIGN(Statement row,
             connection.query("SELECT id, owner, expires FROM tuning_lease WHERE kernel_id = ?1 "
                              "AND target = ?2 AND types_id = ?3 AND shape_id = ?4 AND "
                              "device_class_id = ?5",
                              ids.kernel, job.target, ids.types, ids.shape, ids.device_class));
  TRY_ASSIGN(const bool found, row.step());
  if (!found) {
    return fail(ErrorCode::io, "a lease just written is not there");
  }
  LeaseAnswer answer;
  answer.lease = {row.integer(0), job, row.text(1), row.integer(2)};
  answer.granted = answer.lease.owner == owner;
  return answer;
}

Result<void> renew_lease(Writer& writer, LeaseId lease, std::string_view owner, std::int64_t now,
                         std::int64_t seconds) {
  Connection& connection = writer.connection();
  TRY(connection.run("UPDATE tuning_lease SET expires = ?3 WHERE id = ?1 AND owner = ?2", lease,
                     owner, now + seconds));
  if (connection.changes() != 1) {
    return fail(ErrorCode::not_found,
                "the lease of " + std::string(owner) + " ran out and somebody else has the job");
  }
  return {};
}

Result<void> release_lease(Writer& writer, LeaseId lease, std::string_view owner) {
  return writer.connection().run("DELETE FROM tuning_lease WHERE id = ?1 AND owner = ?2", lease,
                                 owner);
}

Result<bool> holds_lease(const Reader& reader, LeaseId lease, std::string_view owner,
                         std::int64_t now) {
  TRY_ASSIGN(const auto found,
             reader.connection().find_integer(
                 "SELECT 1 FROM tuning_lease WHERE id = ?1 AND owner = ?2 AND expires > ?3", lease,
                 owner, now));
  return found.has_value();
}

Result<std::vector<Lease>> list_leases(const Reader& reader, std::int64_t now) {
  TRY_ASSIGN(Statement row,
             reader.connection().query(
                 "SELECT l.id, l.owner, l.expires, k.name, l.target, t.json, p.json, d.name "
                 "FROM tuning_lease l JOIN kernel k ON k.id = l.kernel_id "
                 "JOIN json_value t ON t.id = l.types_id JOIN json_value p ON p.id = l.shape_id "
                 "JOIN device_class d ON d.id = l.device_class_id WHERE l.expires > ?1 "
                 "ORDER BY l.id",
                 now));
  std::vector<Lease> leases;
  while (true) {
    TRY_ASSIGN(const bool more, row.step());
    if (!more) {
      return leases;
    }
    Lease lease;
    lease.id = row.integer(0);
    lease.owner = row.text(1);
    lease.expires = row.integer(2);
    TRY_ASSIGN(lease.job, read_job(row, 3));
    leases.push_back(std::move(lease));
  }
}

Result<void> put_journal(Writer& writer, const JournalEntry& entry) {
  Connection& connection = writer.connection();
  TRY_ASSIGN(const auto shape, intern_json(connection, core::to_json(entry.shape)));
  TRY_ASSIGN(const auto config, intern_json(connection, core::to_json(entry.config)));
  const std::string name = entry.device_class.text();
  TRY(connection.run("INSERT INTO device_class (name) VALUES (?1) ON CONFLICT (name) DO NOTHING",
                     name));
  return connection.run(
      "INSERT INTO tuning_journal (candidate_id, shape_id, config_id, device_class_id, attempts, "
      "started) VALUES (?1, ?2, ?3, (SELECT id FROM device_class WHERE name = ?4), 1, ?5) "
      "ON CONFLICT (candidate_id, shape_id, config_id, device_class_id) "
      "DO UPDATE SET attempts = attempts + 1, started = excluded.started",
      entry.candidate, shape, config, name, std::time(nullptr));
}

Result<void> drop_journal(Writer& writer, const JournalEntry& entry) {
  return writer.connection().run(
      "DELETE FROM tuning_journal WHERE candidate_id = ?1 "
      "AND shape_id = (SELECT id FROM json_value WHERE json = ?2) "
      "AND config_id = (SELECT id FROM json_value WHERE json = ?3) "
      "AND device_class_id = (SELECT id FROM device_class WHERE name = ?4)",
      entry.candidate, core::to_json(entry.shape), core::to_json(entry.config),
      entry.device_class.text());
}

Result<std::vector<JournalEntry>> list_journal(const Reader& reader, const TuningJob& job) {
  TRY_ASSIGN(
      Statement row,
      reader.connection().query(
          "SELECT j.candidate_id, g.json, j.attempts FROM tuning_journal j "
          "JOIN candidate c ON c.id = j.candidate_id JOIN json_value g ON g.id = j.config_id "
          "WHERE c.kernel_id = (SELECT id FROM kernel WHERE name = ?1) AND c.target = ?2 "
          "AND c.types_id = (SELECT id FROM json_value WHERE json = ?3) "
          "AND j.shape_id = (SELECT id FROM json_value WHERE json = ?4) "
          "AND j.device_class_id = (SELECT id FROM device_class WHERE name = ?5) "
          "ORDER BY j.candidate_id, g.json",
          job.kernel, job.target, core::to_json(job.types), core::to_json(job.shape),
          job.device_class.text()));
  std::vector<JournalEntry> entries;
  while (true) {
    TRY_ASSIGN(const bool more, row.step());
    if (!more) {
      return entries;
    }
    JournalEntry entry;
    entry.candidate = row.integer(0);
    entry.shape = job.shape;
    TRY_ASSIGN(entry.config, core::config_from_json(row.text(1)));
    entry.device_class = job.device_class;
    entry.attempts = static_cast<unsigned>(row.integer(2));
    entries.push_back(std::move(entry));
  }
}

}  // namespace cubinary::store
