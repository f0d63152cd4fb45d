// SPDX-License-Identifier: Apache-2.0
#include <string_view>

#include "store/changes.hpp"
#include "store/connection.hpp"
#include "store/maintenance.hpp"
#include "store/shrink.hpp"

namespace cubinary::store {

using core::Result;

namespace {

Result<std::uint64_t> count(Connection& connection, std::string_view sql) {
  TRY_ASSIGN(const auto value, connection.find_integer(sql));
  return static_cast<std::uint64_t>(value.value_or(0));
}

/// Bytes held by what gc may drop, measured before and after.
Result<std::uint64_t> stored_bytes(Connection& connection) {
  return count(connection,
               "SELECT (SELECT coalesce(sum(stored_size), 0) FROM artifact) + "
               "(SELECT coalesce(sum(length(stored)), 0) FROM dictionary) + "
               "(SELECT coalesce(sum(size), 0) FROM blob)");
}

Result<std::uint64_t> delete_rows(Connection& connection, std::string_view sql) {
  TRY(connection.run(sql));
  return static_cast<std::uint64_t>(connection.changes());
}

Result<GcResult> collect(Connection& connection) {
  GcResult result;
  TRY_ASSIGN(const std::uint64_t bytes, stored_bytes(connection));
  TRY_ASSIGN(const std::uint64_t measurements,
             count(connection, "SELECT count(*) FROM measurement"));
  TRY_ASSIGN(result.candidates,
             delete_rows(connection,
                         "DELETE FROM candidate WHERE current = 0 AND (artifact_id IS NULL OR "
                         "artifact_id NOT IN (SELECT artifact_id FROM release_artifact))"));
  TRY_ASSIGN(const std::uint64_t left, count(connection, "SELECT count(*) FROM measurement"));
  result.measurements = measurements - left;
  TRY_ASSIGN(result.artifacts,
             delete_rows(connection,
                         "DELETE FROM artifact WHERE NOT EXISTS (SELECT 1 FROM candidate c "
                         "WHERE c.artifact_id = artifact.id) AND NOT EXISTS (SELECT 1 FROM "
                         "release_artifact r WHERE r.artifact_id = artifact.id) AND NOT EXISTS "
                         "(SELECT 1 FROM triton_file t WHERE t.artifact_id = artifact.id)"));
  // A dictionary in use for a kernel whose artifacts are all gone serves nobody either.
  TRY(
      connection.run("DELETE FROM current_dictionary WHERE dictionary_id NOT IN "
                     "(SELECT dictionary_id FROM artifact WHERE dictionary_id IS NOT NULL)"));
  TRY(
      connection.run("DELETE FROM dictionary WHERE id NOT IN "
                     "(SELECT dictionary_id FROM artifact WHERE dictionary_id IS NOT NULL) "
                     "AND id NOT IN (SELECT dictionary_id FROM current_dictionary)"));
  TRY_ASSIGN(result.blobs,
             delete_rows(connection,
                         "DELETE FROM blob WHERE id NOT IN (SELECT blob_id FROM release_blob) "
                         "AND id NOT IN (SELECT blob_id FROM referrer) "
                         // The revocation list's, which no release holds.
                         "AND media_type NOT IN ('application/vnd.dsse.envelope.v1+json', "
                         "'application/vnd.oci.empty.v1+json') "
                         "AND digest NOT IN (SELECT digest FROM tag)"));
  TRY_ASSIGN(const std::uint64_t after, stored_bytes(connection));
  result.bytes = bytes - after;
  return result;
}

}  // namespace

Result<void> shrink(Store& store) {
  // Pages in use move into the free ones, which is a change like any other.
  TRY(store.write(
      [](Writer& writer) { return writer.connection().run("PRAGMA incremental_vacuum"); }));
  return store.checkpoint();
}

Result<GcResult> gc(Store& store, bool dry_run) {
  GcResult result;
  bool counted = false;
  const auto written = store.write([&](Writer& writer) -> Result<void> {
    TRY_ASSIGN(result, collect(writer.connection()));
    counted = true;
    TRY(record_change(writer, "store gc", "",
                      {{"candidates", result.candidates},
                       {"artifacts", result.artifacts},
                       {"blobs", result.blobs},
                       {"bytes", result.bytes}}));
    // A failing body is rolled back: a dry run does all the work and keeps none of it.
    return dry_run ? core::fail(core::ErrorCode::cancelled, "dry run") : Result<void>();
  });
  if (!written && !(dry_run && counted)) {
    return core::fail(written.error());
  }
  if (!dry_run) {
    TRY(shrink(store));
  }
  return result;
}

}  // namespace cubinary::store
