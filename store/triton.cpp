// SPDX-License-Identifier: Apache-2.0
#include "store/triton.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "core/base/json.hpp"
#include "store/connection.hpp"

namespace cubinary::store {

namespace json = core::json;
using core::ErrorCode;
using core::fail;
using core::Result;

namespace {

enum class Kind : std::uint8_t { kernel, host, autotune };

/// One row of triton_entry with its files.
struct Row {
  std::int64_t id = 0;
  Kind kind = Kind::kernel;
  std::string key;
  std::string scope;
  std::string target;
  std::string name;
  core::TritonOrigin origin;
  std::string detail;
  core::TritonFiles files;
};

constexpr std::string_view k_columns =
    "id, key, scope, target, name, triton, python_abi, machine, detail";

Row row_of(const Statement& statement, Kind kind) {
  return {statement.integer(0),
          kind,
          statement.text(1),
          statement.text(2),
          statement.text(3),
          statement.text(4),
          {statement.text(5), statement.text(6), statement.text(7)},
          statement.text(8),
          {}};
}

bool same_content(const Row& a, const Row& b) {
  return a.target == b.target && a.name == b.name && a.origin == b.origin && a.detail == b.detail &&
         a.files == b.files;
}

Result<core::TritonFiles> read_files(Connection& connection, std::int64_t entry) {
  TRY_ASSIGN(Statement statement,
             connection.query("SELECT f.name, a.digest FROM triton_file f "
                              "JOIN artifact a ON a.id = f.artifact_id WHERE f.entry_id = ?1",
                              entry));
  core::TritonFiles files;
  while (true) {
    TRY_ASSIGN(const bool more, statement.step());
    if (!more) {
      return files;
    }
    files.emplace(statement.text(0), statement.digest(1));
  }
}

Result<std::optional<Row>> find_row(Connection& connection, Kind kind, std::string_view key,
                                    std::string_view scope) {
  std::optional<Row> found;
  {
    TRY_ASSIGN(Statement statement,
               connection.query("SELECT " + std::string(k_columns) +
                                    " FROM triton_entry WHERE kind = ?1 AND key = ?2 "
                                    "AND scope = ?3",
                                static_cast<int>(kind), key, scope));
    TRY_ASSIGN(const bool more, statement.step());
    if (!more) {
      return std::nullopt;
    }
    found = row_of(statement, kind);
  }
  TRY_ASSIGN(found->files, read_files(connection, found->id));
  return found;
}

Result<std::vector<Row>> list_rows(const Reader& reader, Kind kind) {
  Connection& connection = reader.connection();
  std::vector<Row> rows;
  {
    TRY_ASSIGN(Statement statement,
               connection.query("SELECT " + std::string(k_columns) +
                                    " FROM triton_entry WHERE kind = ?1 ORDER BY scope, key",
                                static_cast<int>(kind)));
    while (true) {
      TRY_ASSIGN(const bool more, statement.step());
      if (!more) {
        break;
      }
      rows.push_back(row_of(statement, kind));
    }
  }
  for (Row& row : rows) {
    TRY_ASSIGN(row.files, read_files(connection, row.id));
  }
  return rows;
}

Result<PutResult> put_row(Writer& writer, const Row& row, std::int64_t now) {
  Connection& connection = writer.connection();
  TRY_ASSIGN(const auto before, find_row(connection, row.kind, row.key, row.scope));
  if (before && same_content(*before, row)) {
    return PutResult::unchanged;
  }
  if (before) {
    TRY(connection.run("DELETE FROM triton_entry WHERE id = ?1", before->id));
  }
  TRY(connection.run(
      "INSERT INTO triton_entry (kind, key, scope, target, name, triton, "
      "python_abi, machine, detail, created) "
      "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
      static_cast<int>(row.kind), row.key, row.scope, row.target, row.name, row.origin.triton,
      row.origin.python_abi, row.origin.machine, row.detail, now));
  const std::int64_t id = connection.last_insert_id();
  for (const auto& [name, digest] : row.files) {
    TRY_ASSIGN(const auto artifact,
               connection.find_integer("SELECT id FROM artifact WHERE digest = ?1", digest));
    if (!artifact) {
      return fail(ErrorCode::not_found, "no artifact " + digest.text() + " in " +
                                            connection.path().string() + " for Triton's " + name);
    }
    TRY(connection.run("INSERT INTO triton_file (entry_id, name, artifact_id) VALUES (?1, ?2, ?3)",
                       id, name, *artifact));
  }
  return before ? PutResult::replaced : PutResult::added;
}

std::string detail_of(const core::TritonKernel& kernel) {
  json::Object parts;
  for (const auto& [name, text] : kernel.key_parts) {
    parts.emplace(name, text);
  }
  return json::to_text(json::Object{{"group", kernel.group}, {"key_parts", std::move(parts)}});
}

std::string detail_of(const core::TritonHost& host) {
  json::Array keys;
  for (const std::string& key : host.keys) {
    keys.emplace_back(key);
  }
  return json::to_text(json::Object{
      {"glibc_floor", host.glibc_floor}, {"keys", std::move(keys)}, {"source", host.source}});
}

Result<core::TritonHost> host_of(const Row& row) {
  core::TritonHost host;
  host.name = row.name;
  host.origin = row.origin;
  TRY_ASSIGN(const json::Value value, json::parse(row.detail));
  const json::Node detail(value, "a Triton host module's detail in the store");
  TRY_ASSIGN(host.source, detail.text("source"));
  TRY_ASSIGN(host.glibc_floor, detail.text("glibc_floor"));
  TRY_ASSIGN(const json::Node keys, detail.at("keys"));
  TRY_ASSIGN(const auto elements, keys.elements());
  for (const json::Node& element : elements) {
    TRY_ASSIGN(std::string key, element.text());
    host.keys.push_back(std::move(key));
  }
  if (row.files.size() != 1) {
    return fail(ErrorCode::corrupt, "Triton host module " + row.key + " in the store has " +
                                        std::to_string(row.files.size()) +
                                        " files, not one: run `cubinary store fsck`");
  }
  std::tie(host.file, host.digest) = *row.files.begin();
  return host;
}

}  // namespace

Result<PutResult> put_triton_kernel(Writer& writer, std::string_view target,
                                    const core::TritonKernel& kernel, std::int64_t now) {
  return put_row(writer,
                 {0, Kind::kernel, kernel.key, "", std::string(target), kernel.name, kernel.origin,
                  detail_of(kernel), kernel.files},
                 now);
}

Result<PutResult> put_triton_host(Writer& writer, const core::TritonHost& host, std::int64_t now) {
  if (host.source.empty() && host.keys.empty()) {
    return fail(ErrorCode::usage,
                "Triton host module " + host.file + " has neither a source nor a key");
  }
  const std::string key = host.source.empty() ? host.keys.front() : host.source;
  const std::string scope = host.origin.python_abi + " " + host.origin.machine + " " + host.file;
  TRY_ASSIGN(const auto before, find_row(writer.connection(), Kind::host, key, scope));
  core::TritonHost merged = host;
  if (before) {
    TRY_ASSIGN(const core::TritonHost known, host_of(*before));
    merged.keys.insert(merged.keys.end(), known.keys.begin(), known.keys.end());
  }
  std::ranges::sort(merged.keys);
  const auto repeated = std::ranges::unique(merged.keys);
  merged.keys.erase(repeated.begin(), repeated.end());
  return put_row(writer,
                 {0,
                  Kind::host,
                  key,
                  scope,
                  "",
                  merged.name,
                  merged.origin,
                  detail_of(merged),
                  {{merged.file, merged.digest}}},
                 now);
}

Result<PutResult> put_triton_autotune(Writer& writer, const core::TritonAutotune& autotune,
                                      std::int64_t now) {
  return put_row(writer,
                 {0, Kind::autotune, autotune.key, autotune.device_class, "", "", autotune.origin,
                  "{}", autotune.files},
                 now);
}

Result<PutResult> put_triton_record(Writer& writer, std::string_view record, std::int64_t now) {
  TRY(
      writer.connection().run("INSERT INTO triton_record (digest, record, created) "
                              "VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING",
                              core::sha256(record), record, now));
  return writer.connection().changes() == 0 ? PutResult::unchanged : PutResult::added;
}

Result<std::vector<StoredTritonKernel>> list_triton_kernels(const Reader& reader) {
  TRY_ASSIGN(std::vector<Row> rows, list_rows(reader, Kind::kernel));
  std::vector<StoredTritonKernel> kernels;
  for (Row& row : rows) {
    StoredTritonKernel stored;
    stored.target = std::move(row.target);
    TRY_ASSIGN(const json::Value value, json::parse(row.detail));
    const json::Node detail(value, "a Triton kernel's detail in the store");
    TRY_ASSIGN(stored.kernel.group, detail.text("group"));
    TRY_ASSIGN(const json::Node parts, detail.at("key_parts"));
    TRY_ASSIGN(stored.kernel.key_parts, parts.text_map());
    stored.kernel.key = std::move(row.key);
    stored.kernel.name = std::move(row.name);
    stored.kernel.origin = std::move(row.origin);
    stored.kernel.files = std::move(row.files);
    kernels.push_back(std::move(stored));
  }
  return kernels;
}

Result<std::vector<core::TritonHost>> list_triton_host(const Reader& reader) {
  TRY_ASSIGN(const std::vector<Row> rows, list_rows(reader, Kind::host));
  std::vector<core::TritonHost> modules;
  for (const Row& row : rows) {
    TRY_ASSIGN(core::TritonHost host, host_of(row));
    modules.push_back(std::move(host));
  }
  return modules;
}

Result<std::vector<core::TritonAutotune>> list_triton_autotune(const Reader& reader) {
  TRY_ASSIGN(std::vector<Row> rows, list_rows(reader, Kind::autotune));
  std::vector<core::TritonAutotune> results;
  for (Row& row : rows) {
    results.push_back(
        {std::move(row.scope), std::move(row.key), std::move(row.files), std::move(row.origin)});
  }
  return results;
}

Result<std::vector<std::string>> list_triton_records(const Reader& reader) {
  TRY_ASSIGN(Statement statement,
             reader.connection().query("SELECT record FROM triton_record ORDER BY id"));
  std::vector<std::string> records;
  while (true) {
    TRY_ASSIGN(const bool more, statement.step());
    if (!more) {
      return records;
    }
    records.push_back(statement.text(0));
  }
}

}  // namespace cubinary::store
