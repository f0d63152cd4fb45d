// SPDX-License-Identifier: Apache-2.0
#include "store/releases.hpp"

#include <algorithm>
#include <utility>

#include "core/base/json.hpp"
#include "core/table/entry_json.hpp"
#include "core/wire/oci.hpp"
#include "store/connection.hpp"
#include "store/json_value.hpp"

namespace cubinary::store {

using core::Digest;
using core::ErrorCode;
using core::fail;
using core::Result;

namespace {

Result<std::int64_t> blob_id(Connection& connection, const Digest& digest) {
  TRY_ASSIGN(const auto found,
             connection.find_integer("SELECT id FROM blob WHERE digest = ?1", digest));
  if (!found) {
    return fail(ErrorCode::not_found, "no blob " + digest.text() + " in " +
                                          connection.path().string() +
                                          "; put it before what refers to it");
  }
  return *found;
}

Result<void> pin_blobs(Connection& connection, ReleaseId release, std::span<const Digest> blobs,
                       bool signature) {
  for (const Digest& digest : blobs) {
    TRY_ASSIGN(const std::int64_t blob, blob_id(connection, digest));
    // What the release itself needs stays its own when a signature needs it too.
    TRY(
        connection.run("INSERT INTO release_blob (release_id, blob_id, signature) "
                       "VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING",
                       release, blob, signature));
  }
  return {};
}

Result<void> upsert_tag(Connection& connection, std::string_view name, const Digest& digest,
                        std::string_view media_type) {
  return connection.run(
      "INSERT INTO tag (name, digest, media_type) VALUES (?1, ?2, ?3) "
      "ON CONFLICT (name) DO UPDATE SET digest = excluded.digest, "
      "media_type = excluded.media_type",
      name, digest, media_type);
}

/// The table's launch part, and its entries a row each.
Result<void> put_table(Connection& connection, ReleaseId release, const core::Target& target,
                       const core::KernelTable& table) {
  core::KernelTable launch = table;
  launch.entries.clear();
  TRY(
      connection.run("INSERT INTO released_kernel (release_id, kernel, target, json) "
                     "VALUES (?1, ?2, ?3, ?4)",
                     release, table.name, target.text(), core::table_to_json(launch)));
  const std::int64_t id = connection.last_insert_id();
  const core::Types* types = nullptr;
  std::int64_t types_id = 0;
  for (const core::TableEntry& entry : table.entries) {
    if (types == nullptr || *types != entry.types) {
      TRY_ASSIGN(types_id, intern_json(connection, core::to_json(entry.types)));
      types = &entry.types;
    }
    TRY(connection.run(
        "INSERT INTO released_entry (released_id, types_id, device_class, json) "
        "VALUES (?1, ?2, ?3, ?4)",
        id, types_id, entry.device_class, core::json::to_text(core::entry_to_json(entry))));
  }
  return {};
}

constexpr std::string_view k_release_columns =
    "id, name, index_digest, serial, created, expires, signature_digest";

Result<Release> release_of(Connection& connection, const Statement& row) {
  Release release;
  release.id = row.integer(0);
  release.name = row.text(1);
  release.index = row.digest(2);
  release.serial = row.size(3);
  release.created = row.integer(4);
  release.expires = row.integer(5);
  if (!row.is_null(6)) {
    release.signature_manifest = row.digest(6);
  }
  TRY_ASSIGN(Statement targets,
             connection.query("SELECT target FROM release_target WHERE release_id = ?1 "
                              "ORDER BY position",
                              release.id));
  while (true) {
    TRY_ASSIGN(const bool more, targets.step());
    if (!more) {
      return release;
    }
    release.targets.push_back(targets.text(0));
  }
}

}  // namespace

// --- Releases ---

Result<std::uint64_t> next_serial(const Reader& reader) {
  TRY_ASSIGN(const auto serial,
             reader.connection().find_integer("SELECT coalesce(max(serial), 0) + 1 FROM release"));
  return static_cast<std::uint64_t>(serial.value_or(1));
}

Result<Release> put_release(Writer& writer, const NewRelease& made) {
  Connection& connection = writer.connection();
  Release release = made.release;
  if (!core::oci::is_tag(release.name)) {
    return fail(ErrorCode::usage, "\"" + release.name +
                                      "\" cannot name a release: letters, digits, '_', '.' and "
                                      "'-', at most 128, not starting with '.' or '-'");
  }
  TRY_ASSIGN(const auto taken, find_tag(writer.reader(), release.name));
  if (taken) {
    return fail(ErrorCode::exists, "the name \"" + release.name +
                                       "\" is taken by a release or tag; releases never change, "
                                       "so choose another");
  }
  TRY_ASSIGN(const auto same, connection.find_integer(
                                  "SELECT 1 FROM release WHERE index_digest = ?1", release.index));
  if (same) {
    return fail(ErrorCode::exists, "a release with index " + release.index.text() +
                                       " is there already under another name");
  }
  TRY(blob_id(connection, release.index));
  TRY_ASSIGN(release.serial, next_serial(writer.reader()));
  release.signature_manifest.reset();
  TRY(connection.run(
      "INSERT INTO release (name, index_digest, serial, created, expires) "
      "VALUES (?1, ?2, ?3, ?4, ?5)",
      release.name, release.index, release.serial, release.created, release.expires));
  release.id = connection.last_insert_id();
  for (std::size_t i = 0; i < release.targets.size(); ++i) {
    TRY(
        connection.run("INSERT INTO release_target (release_id, position, target) "
                       "VALUES (?1, ?2, ?3)",
                       release.id, i, release.targets[i]));
  }
  TRY(pin_blobs(connection, release.id, std::span(&release.index, 1), false));
  TRY(pin_blobs(connection, release.id, made.blobs, false));
  for (const Digest& digest : made.artifacts) {
    TRY_ASSIGN(const auto artifact,
               connection.find_integer("SELECT id FROM artifact WHERE digest = ?1", digest));
    if (!artifact) {
      return fail(ErrorCode::not_found, "no artifact " + digest.text() + " in " +
                                            connection.path().string() + " to release");
    }
    TRY(
        connection.run("INSERT INTO release_artifact (release_id, artifact_id) VALUES (?1, ?2) "
                       "ON CONFLICT DO NOTHING",
                       release.id, *artifact));
  }
  for (const core::Catalogue& catalogue : made.catalogues) {
    for (const core::KernelTable& table : catalogue.kernels) {
      TRY(put_table(connection, release.id, catalogue.target, table));
    }
  }
  TRY(upsert_tag(connection, release.name, release.index, core::oci::k_index_type));
  return release;
}

Result<void> put_signature(Writer& writer, ReleaseId release, const Digest& manifest,
                           std::span<const Digest> blobs) {
  Connection& connection = writer.connection();
  Digest index;
  {
    TRY_ASSIGN(Statement row,
               connection.query("SELECT index_digest FROM release WHERE id = ?1", release));
    TRY_ASSIGN(const bool found, row.step());
    if (!found) {
      return fail(ErrorCode::not_found, "no release with id " + std::to_string(release));
    }
    index = row.digest(0);
  }
  TRY_ASSIGN(const std::int64_t blob, blob_id(connection, manifest));
  TRY(connection.run("DELETE FROM release_blob WHERE release_id = ?1 AND signature = 1", release));
  TRY(connection.run("DELETE FROM referrer WHERE subject = ?1 AND artifact_type = ?2", index,
                     core::oci::k_signature_artifact_type));
  TRY(pin_blobs(connection, release, std::span(&manifest, 1), true));
  TRY(pin_blobs(connection, release, blobs, true));
  TRY(connection.run("INSERT INTO referrer (subject, blob_id, artifact_type) VALUES (?1, ?2, ?3)",
                     index, blob, core::oci::k_signature_artifact_type));
  TRY(connection.run("UPDATE release SET signature_digest = ?2 WHERE id = ?1", release, manifest));
  return upsert_tag(connection, core::oci::signature_tag(index), manifest,
                    core::oci::k_manifest_type);
}

Result<std::optional<Release>> find_release(const Reader& reader, std::string_view name) {
  Connection& connection = reader.connection();
  TRY_ASSIGN(Statement row, connection.query("SELECT " + std::string(k_release_columns) +
                                                 " FROM release WHERE name = ?1",
                                             name));
  TRY_ASSIGN(const bool found, row.step());
  if (!found) {
    return std::nullopt;
  }
  return release_of(connection, row);
}

Result<std::vector<Release>> list_releases(const Reader& reader) {
  Connection& connection = reader.connection();
  TRY_ASSIGN(Statement row, connection.query("SELECT " + std::string(k_release_columns) +
                                             " FROM release ORDER BY serial"));
  std::vector<Release> releases;
  while (true) {
    TRY_ASSIGN(const bool more, row.step());
    if (!more) {
      return releases;
    }
    TRY_ASSIGN(Release release, release_of(connection, row));
    releases.push_back(std::move(release));
  }
}

Result<std::vector<BlobInfo>> release_blobs(const Reader& reader, ReleaseId release) {
  TRY_ASSIGN(Statement row,
             reader.connection().query("SELECT b.digest, b.size, b.media_type FROM release_blob r "
                                       "JOIN blob b ON b.id = r.blob_id WHERE r.release_id = ?1 "
                                       "ORDER BY b.id",
                                       release));
  std::vector<BlobInfo> blobs;
  while (true) {
    TRY_ASSIGN(const bool more, row.step());
    if (!more) {
      return blobs;
    }
    blobs.push_back({row.digest(0), row.size(1), row.text(2)});
  }
}

// --- Tags and referrers ---

Result<void> put_tag(Writer& writer, const Tag& tag) {
  Connection& connection = writer.connection();
  if (!core::oci::is_tag(tag.name)) {
    return fail(ErrorCode::usage, "\"" + tag.name +
                                      "\" is no tag: letters, digits, '_', '.' and '-', at most "
                                      "128, not starting with '.' or '-'");
  }
  TRY_ASSIGN(const auto release, find_release(writer.reader(), tag.name));
  if (release && release->index != tag.manifest) {
    return fail(ErrorCode::exists, "\"" + tag.name +
                                       "\" is the name of a release and always stays with it; "
                                       "choose another tag");
  }
  TRY(blob_id(connection, tag.manifest));
  return upsert_tag(connection, tag.name, tag.manifest, tag.media_type);
}

Result<std::optional<Tag>> find_tag(const Reader& reader, std::string_view name) {
  TRY_ASSIGN(Statement row, reader.connection().query(
                                "SELECT name, digest, media_type FROM tag WHERE name = ?1", name));
  TRY_ASSIGN(const bool found, row.step());
  if (!found) {
    return std::nullopt;
  }
  return Tag{row.text(0), row.digest(1), row.text(2)};
}

Result<std::vector<std::string>> list_tags(const Reader& reader, std::string_view last,
                                           std::size_t limit) {
  TRY_ASSIGN(Statement row,
             reader.connection().query("SELECT name FROM tag WHERE name > ?1 ORDER BY name", last));
  std::vector<std::string> names;
  while (names.size() < limit) {
    TRY_ASSIGN(const bool more, row.step());
    if (!more) {
      break;
    }
    names.push_back(row.text(0));
  }
  return names;
}

Result<std::vector<Referrer>> list_referrers(const Reader& reader, const Digest& subject) {
  TRY_ASSIGN(Statement row,
             reader.connection().query("SELECT b.digest, b.size, b.media_type, r.artifact_type "
                                       "FROM referrer r JOIN blob b ON b.id = r.blob_id "
                                       "WHERE r.subject = ?1 ORDER BY b.id",
                                       subject));
  std::vector<Referrer> referrers;
  while (true) {
    TRY_ASSIGN(const bool more, row.step());
    if (!more) {
      return referrers;
    }
    referrers.push_back({{row.digest(0), row.size(1), row.text(2)}, row.text(3)});
  }
}

// --- Resolve ---

Result<std::optional<Release>> newest_release(const Reader& reader) {
  Connection& connection = reader.connection();
  TRY_ASSIGN(Statement row, connection.query("SELECT " + std::string(k_release_columns) +
                                             " FROM release ORDER BY serial DESC LIMIT 1"));
  TRY_ASSIGN(const bool found, row.step());
  if (!found) {
    return std::nullopt;
  }
  return release_of(connection, row);
}

Result<std::optional<Release>> find_release_by_index(const Reader& reader, const Digest& index) {
  Connection& connection = reader.connection();
  TRY_ASSIGN(Statement row, connection.query("SELECT " + std::string(k_release_columns) +
                                                 " FROM release WHERE index_digest = ?1",
                                             index));
  TRY_ASSIGN(const bool found, row.step());
  if (!found) {
    return std::nullopt;
  }
  return release_of(connection, row);
}

Result<std::vector<ReleasedKernel>> find_released(const Reader& reader, ReleaseId release,
                                                  std::string_view kernel) {
  TRY_ASSIGN(Statement row,
             reader.connection().query("SELECT id, target FROM released_kernel "
                                       "WHERE release_id = ?1 AND kernel = ?2 ORDER BY target",
                                       release, kernel));
  std::vector<ReleasedKernel> kernels;
  while (true) {
    TRY_ASSIGN(const bool more, row.step());
    if (!more) {
      return kernels;
    }
    TRY_ASSIGN(core::Target target, core::Target::parse(row.text(1)));
    kernels.push_back({row.integer(0), target});
  }
}

Result<core::KernelTable> read_released_table(const Reader& reader, ReleasedKernelId kernel) {
  TRY_ASSIGN(Statement row,
             reader.connection().query("SELECT json FROM released_kernel WHERE id = ?1", kernel));
  TRY_ASSIGN(const bool found, row.step());
  if (!found) {
    return fail(ErrorCode::not_found, "no released kernel with id " + std::to_string(kernel));
  }
  return core::table_from_json(row.text(0));
}

Result<std::vector<std::string>> released_classes(const Reader& reader, ReleasedKernelId kernel,
                                                  const core::Types& types) {
  Connection& connection = reader.connection();
  std::vector<std::string> classes;
  TRY_ASSIGN(const auto types_id, find_json(connection, core::to_json(types)));
  if (!types_id) {
    return classes;
  }
  TRY_ASSIGN(Statement row,
             connection.query("SELECT DISTINCT device_class FROM released_entry "
                              "WHERE released_id = ?1 AND types_id = ?2 ORDER BY device_class",
                              kernel, *types_id));
  while (true) {
    TRY_ASSIGN(const bool more, row.step());
    if (!more) {
      return classes;
    }
    classes.push_back(row.text(0));
  }
}

namespace {

Result<std::vector<core::TableEntry>> entries_of(Statement row) {
  std::vector<core::TableEntry> entries;
  while (true) {
    TRY_ASSIGN(const bool more, row.step());
    if (!more) {
      return entries;
    }
    TRY_ASSIGN(core::TableEntry entry, core::entry_from_json(core::as_text(row.blob(0))));
    entries.push_back(std::move(entry));
  }
}

}  // namespace

Result<std::vector<core::TableEntry>> read_released_entries(const Reader& reader,
                                                            ReleasedKernelId kernel,
                                                            const core::Types& types,
                                                            std::string_view device_class) {
  Connection& connection = reader.connection();
  TRY_ASSIGN(const auto types_id, find_json(connection, core::to_json(types)));
  if (!types_id) {
    return std::vector<core::TableEntry>();
  }
  TRY_ASSIGN(Statement row,
             connection.query("SELECT json FROM released_entry WHERE released_id = ?1 AND "
                              "types_id = ?2 AND device_class = ?3 ORDER BY id",
                              kernel, *types_id, device_class));
  return entries_of(std::move(row));
}

Result<std::vector<core::TableEntry>> read_released_entries(const Reader& reader,
                                                            ReleasedKernelId kernel) {
  // By the index's columns: rows of one kernel lie together in it.
  TRY_ASSIGN(Statement row,
             reader.connection().query("SELECT json FROM released_entry WHERE released_id = ?1 "
                                       "ORDER BY types_id, device_class, id",
                                       kernel));
  return entries_of(std::move(row));
}

}  // namespace cubinary::store
