// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "core/base/digest.hpp"
#include "core/wire/codec.hpp"
#include "store/artifacts.hpp"
#include "store/connection.hpp"
#include "store/maintenance.hpp"
#include "store/releases.hpp"

namespace cubinary::store {

using core::Digest;
using core::ErrorCode;
using core::Result;

namespace {

using Findings = std::vector<std::string>;

/// Damage is what fsck reports; any other failure ends it.
bool is_damage(const core::Error& error) {
  return error.code == ErrorCode::corrupt || error.code == ErrorCode::too_large ||
         error.code == ErrorCode::not_a_store || error.code == ErrorCode::not_found;
}

/// Runs a check; damage in the database itself becomes a finding and the others go on.
template <typename Check>
Result<void> run_check(std::string_view what, Findings& findings, Check check) {
  Result<void> result = check();
  if (!result && is_damage(result.error())) {
    findings.push_back(std::string(what) + ": " + result.error().message);
    return {};
  }
  return result;
}

Result<void> check_database(Connection& connection, Findings& findings) {
  TRY_ASSIGN(Statement row, connection.query("PRAGMA integrity_check(100)"));
  while (true) {
    TRY_ASSIGN(const bool more, row.step());
    if (!more) {
      return {};
    }
    if (const std::string line = row.text(0); line != "ok") {
      findings.push_back("database: " + line);
    }
  }
}

Result<void> check_references(Connection& connection, Findings& findings) {
  TRY_ASSIGN(Statement row, connection.query("PRAGMA foreign_key_check"));
  while (true) {
    TRY_ASSIGN(const bool more, row.step());
    if (!more) {
      return {};
    }
    findings.push_back("table " + row.text(0) + ": row " + std::to_string(row.integer(1)) +
                       " refers to a missing row of " + row.text(2));
  }
}

/// Digests first, so that one unreadable row does not hide those after it.
Result<std::vector<Digest>> list_digests(Connection& connection, std::string_view sql) {
  TRY_ASSIGN(Statement row, connection.query(sql));
  std::vector<Digest> digests;
  while (true) {
    TRY_ASSIGN(const bool more, row.step());
    if (!more) {
      return digests;
    }
    digests.push_back(row.digest(0));
  }
}

/// Who suffers: "kernel rmsnorm {"T":"f32"} {"VEC":4} sm_90".
Result<std::string> users_of(Connection& connection, const Digest& digest) {
  TRY_ASSIGN(Statement row,
             connection.query("SELECT k.name || ' ' || t.json || ' ' || g.json || ' ' || c.target "
                              "FROM candidate c JOIN kernel k ON k.id = c.kernel_id "
                              "JOIN json_value t ON t.id = c.types_id "
                              "JOIN json_value g ON g.id = c.config_id "
                              "WHERE c.artifact_id = (SELECT id FROM artifact WHERE digest = ?1)",
                              digest));
  TRY_ASSIGN(const bool found, row.step());
  return found ? " (" + row.text(0) + ")" : std::string();
}

Result<void> check_artifacts(const Reader& reader, Findings& findings) {
  Connection& connection = reader.connection();
  TRY_ASSIGN(const std::vector<Digest> digests,
             list_digests(connection, "SELECT digest FROM artifact ORDER BY id"));
  for (const Digest& digest : digests) {
    const auto bytes = read_artifact(reader, digest);
    if (bytes) {
      continue;
    }
    if (!is_damage(bytes.error())) {
      return core::fail(bytes.error());
    }
    const std::string users = users_of(connection, digest).value_or("");
    findings.push_back("artifact " + digest.text() + users + ": does not read back");
  }
  return {};
}

Result<void> check_dictionaries(Connection& connection, Findings& findings) {
  TRY_ASSIGN(Statement row, connection.query("SELECT id, kernel, target, digest, size, stored "
                                             "FROM dictionary ORDER BY id"));
  while (true) {
    TRY_ASSIGN(const bool more, row.step());
    if (!more) {
      return {};
    }
    core::DecompressOptions options;
    options.max_bytes = row.size(4);
    const auto bytes = core::decompress(row.blob(5), options);
    if (!bytes || core::sha256(*bytes) != row.digest(3)) {
      findings.push_back("dictionary " + std::to_string(row.integer(0)) + " of kernel " +
                         row.text(1) + " for " + row.text(2) + ": does not read back");
    }
  }
}

Result<void> check_blobs(const Reader& reader, Findings& findings) {
  TRY_ASSIGN(const std::vector<Digest> digests,
             list_digests(reader.connection(), "SELECT digest FROM blob ORDER BY id"));
  for (const Digest& digest : digests) {
    TRY_ASSIGN(const auto info, find_blob(reader, digest));
    core::Hasher hasher;
    const auto streamed =
        stream_blob(reader, digest, 0, info ? info->size : 0, [&](core::ByteView piece) {
          hasher.update(piece);
          return true;
        });
    if (!streamed && !is_damage(streamed.error())) {
      return streamed;
    }
    if (!streamed || hasher.finish() != digest) {
      findings.push_back("blob " + digest.text() + ": does not read back");
    }
  }
  return {};
}

}  // namespace

Result<std::vector<std::string>> fsck(const Store& store) {
  TRY_ASSIGN(const Reader reader, store.reader());
  Connection& connection = reader.connection();
  Findings findings;
  TRY(run_check("database", findings, [&] { return check_database(connection, findings); }));
  TRY(run_check("references", findings, [&] { return check_references(connection, findings); }));
  TRY(run_check("dictionaries", findings,
                [&] { return check_dictionaries(connection, findings); }));
  TRY(run_check("artifacts", findings, [&] { return check_artifacts(reader, findings); }));
  TRY(run_check("blobs", findings, [&] { return check_blobs(reader, findings); }));
  return findings;
}

}  // namespace cubinary::store
