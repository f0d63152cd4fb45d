// SPDX-License-Identifier: Apache-2.0
#include "store/candidates.hpp"

#include <algorithm>
#include <array>
#include <ctime>
#include <utility>

#include "core/base/nearest.hpp"
#include "store/connection.hpp"
#include "store/json_value.hpp"

namespace cubinary::store {

using core::ErrorCode;
using core::fail;
using core::Result;

namespace {

constexpr std::array<std::string_view, 4> k_status_names{"ok", "failed", "timeout", "crashed"};
constexpr std::array<std::string_view, 3> k_role_names{"kernel", "reference", "prepare"};

std::string join_lines(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) {
    text += text.empty() ? "" : "\n";
    text += line;
  }
  return text;
}

std::vector<std::string> split_lines(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t start = 0; start < text.size();) {
    const std::size_t end = std::min(text.find('\n', start), text.size());
    lines.push_back(text.substr(start, end - start));
    start = end + 1;
  }
  return lines;
}

Result<KernelId> kernel_id(const Reader& reader, std::string_view name) {
  TRY_ASSIGN(const auto found,
             reader.connection().find_integer("SELECT id FROM kernel WHERE name = ?1", name));
  if (found) {
    return *found;
  }
  TRY_ASSIGN(const std::vector<Kernel> kernels, list_kernels(reader));
  std::vector<std::string> names;
  for (const Kernel& kernel : kernels) {
    names.push_back(kernel.name);
  }
  return fail(ErrorCode::not_found, "no kernel \"" + std::string(name) + "\" in " +
                                        reader.connection().path().string() +
                                        core::did_you_mean(name, names));
}

Result<std::int64_t> intern_toolchain(Connection& connection, const Toolchain& toolchain) {
  TRY_ASSIGN(const auto found,
             connection.find_integer("SELECT id FROM toolchain WHERE identity = ?1 AND "
                                     "backend = ?2 AND major = ?3 AND minor = ?4",
                                     toolchain.identity, toolchain.backend, toolchain.version.major,
                                     toolchain.version.minor));
  if (found) {
    return *found;
  }
  TRY(connection.run(
      "INSERT INTO toolchain (identity, backend, major, minor) "
      "VALUES (?1, ?2, ?3, ?4)",
      toolchain.identity, toolchain.backend, toolchain.version.major, toolchain.version.minor));
  return connection.last_insert_id();
}

Result<void> put_symbols(Connection& connection, CandidateId id, const Candidate& candidate) {
  TRY(connection.run("DELETE FROM candidate_symbol WHERE candidate_id = ?1", id));
  for (std::size_t step = 0; step < candidate.symbols.size(); ++step) {
    const core::EntrySymbol& symbol = candidate.symbols[step];
    TRY(
        connection.run("INSERT INTO candidate_symbol (candidate_id, step, symbol, max_threads, "
                       "registers, static_smem, spill_bytes) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
                       id, step, symbol.symbol, symbol.max_threads, symbol.registers,
                       symbol.static_smem, symbol.spill_bytes));
  }
  return {};
}

Result<std::vector<core::EntrySymbol>> symbols_of(Connection& connection, CandidateId id) {
  TRY_ASSIGN(Statement row, connection.query("SELECT symbol, max_threads, registers, static_smem, "
                                             "spill_bytes FROM candidate_symbol "
                                             "WHERE candidate_id = ?1 ORDER BY step",
                                             id));
  std::vector<core::EntrySymbol> symbols;
  while (true) {
    TRY_ASSIGN(const bool more, row.step());
    if (!more) {
      return symbols;
    }
    symbols.push_back(
        {row.text(0), row.integer(1), row.integer(2), row.integer(3), row.integer(4)});
  }
}

Kernel kernel_of(const Statement& row) {
  return {row.integer(0), row.text(1), row.digest(2), row.digest(3),
          row.text(4),    row.text(5), row.text(6)};
}

/// Column order of the query in for_each_candidate.
Result<Candidate> candidate_of(Connection& connection, const Statement& row) {
  Candidate candidate;
  candidate.id = row.integer(0);
  candidate.kernel = row.text(1);
  candidate.role = static_cast<CandidateRole>(row.integer(2));
  candidate.build_key = row.digest(3);
  TRY_ASSIGN(candidate.types, core::types_from_json(row.text(4)));
  TRY_ASSIGN(candidate.compile_axes, core::shape_from_json(row.text(5)));
  TRY_ASSIGN(candidate.config, core::config_from_json(row.text(6)));
  candidate.target = row.text(7);
  candidate.toolchain = {row.text(8),
                         {static_cast<int>(row.integer(9)), static_cast<int>(row.integer(10))},
                         row.text(11)};
  candidate.status = static_cast<CandidateStatus>(row.integer(12));
  candidate.message = row.text(13);
  candidate.log = row.text(14);
  candidate.compile_ms = row.real(15);
  candidate.cpu_ms = row.real(16);
  if (!row.is_null(17)) {
    candidate.artifact = row.digest(17);
    candidate.raw_size = row.size(18);
    candidate.stored_size = row.size(19);
  }
  candidate.extra_entries = split_lines(row.text(20));
  candidate.created = row.integer(21);
  TRY_ASSIGN(candidate.symbols, symbols_of(connection, candidate.id));
  return candidate;
}

}  // namespace

std::string_view status_name(CandidateStatus status) {
  return k_status_names.at(static_cast<std::size_t>(status));
}
std::string_view role_name(CandidateRole role) {
  return k_role_names.at(static_cast<std::size_t>(role));
}

// --- Kernels ---

Result<KernelId> put_kernel(Writer& writer, const Kernel& kernel) {
  TRY_ASSIGN(Statement row,
             writer.connection().query(
                 "INSERT INTO kernel (name, interface, manifest_digest, manifest, manifest_path, "
                 "inputs) VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT (name) DO UPDATE SET "
                 "interface = excluded.interface, manifest_digest = excluded.manifest_digest, "
                 "manifest = excluded.manifest, manifest_path = excluded.manifest_path, "
                 "inputs = excluded.inputs RETURNING id",
                 kernel.name, kernel.interface, kernel.manifest_digest, kernel.manifest,
                 kernel.manifest_path, kernel.inputs));
  TRY(row.step());
  const KernelId id = row.integer(0);
  TRY(row.run());
  return id;
}

Result<std::optional<Kernel>> find_kernel(const Reader& reader, std::string_view name) {
  TRY_ASSIGN(Statement row,
             reader.connection().query("SELECT id, name, interface, manifest_digest, manifest, "
                                       "manifest_path, inputs FROM kernel WHERE name = ?1",
                                       name));
  TRY_ASSIGN(const bool found, row.step());
  if (!found) {
    return std::nullopt;
  }
  return kernel_of(row);
}

Result<std::vector<Kernel>> list_kernels(const Reader& reader) {
  TRY_ASSIGN(Statement row,
             reader.connection().query("SELECT id, name, interface, manifest_digest, manifest, "
                                       "manifest_path, inputs FROM kernel ORDER BY name"));
  std::vector<Kernel> kernels;
  while (true) {
    TRY_ASSIGN(const bool more, row.step());
    if (!more) {
      return kernels;
    }
    kernels.push_back(kernel_of(row));
  }
}

// --- Candidates ---

Result<CandidateId> put_candidate(Writer& writer, const Candidate& candidate) {
  Connection& connection = writer.connection();
  if ((candidate.status == CandidateStatus::ok) != candidate.artifact.has_value()) {
    return fail(ErrorCode::internal,
                "a candidate of " + candidate.kernel + " is " +
                    std::string(status_name(candidate.status)) +
                    (candidate.artifact ? " but has an artifact" : " but has no artifact"));
  }
  TRY_ASSIGN(const KernelId kernel, kernel_id(writer.reader(), candidate.kernel));
  TRY_ASSIGN(const auto types, intern_json(connection, core::to_json(candidate.types)));
  TRY_ASSIGN(const auto axes, intern_json(connection, core::to_json(candidate.compile_axes)));
  TRY_ASSIGN(const auto config, intern_json(connection, core::to_json(candidate.config)));
  TRY_ASSIGN(const auto toolchain, intern_toolchain(connection, candidate.toolchain));
  std::optional<ArtifactId> artifact;
  if (candidate.artifact) {
    TRY_ASSIGN(artifact, connection.find_integer("SELECT id FROM artifact WHERE digest = ?1",
                                                 *candidate.artifact));
    if (!artifact) {
      return fail(ErrorCode::not_found, "no artifact " + candidate.artifact->text() +
                                            " in the store; put it before its candidate");
    }
  }
  CandidateId id = 0;
  {
    TRY_ASSIGN(
        Statement row,
        connection.query(
            "INSERT INTO candidate (build_key, kernel_id, role, target, types_id, axes_id, "
            "config_id, toolchain_id, status, message, log, compile_ms, cpu_ms, artifact_id, "
            "extra_entries, created) "
            "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16) "
            "ON CONFLICT (build_key) DO UPDATE SET kernel_id = excluded.kernel_id, "
            "role = excluded.role, target = excluded.target, types_id = excluded.types_id, "
            "axes_id = excluded.axes_id, config_id = excluded.config_id, "
            "toolchain_id = excluded.toolchain_id, status = excluded.status, "
            "message = excluded.message, log = excluded.log, compile_ms = excluded.compile_ms, "
            "cpu_ms = excluded.cpu_ms, artifact_id = excluded.artifact_id, "
            "extra_entries = excluded.extra_entries, created = excluded.created RETURNING id",
            candidate.build_key, kernel, static_cast<int>(candidate.role), candidate.target, types,
            axes, config, toolchain, static_cast<int>(candidate.status), candidate.message,
            candidate.log, candidate.compile_ms, candidate.cpu_ms, artifact,
            join_lines(candidate.extra_entries), std::time(nullptr)));
    TRY(row.step());
    id = row.integer(0);
    TRY(row.run());
  }
  TRY(put_symbols(connection, id, candidate));
  return id;
}

Result<std::optional<CandidateState>> find_candidate(const Reader& reader,
                                                     const core::Digest& build_key) {
  TRY_ASSIGN(Statement row,
             reader.connection().query(
                 "SELECT id, status, current FROM candidate WHERE build_key = ?1", build_key));
  TRY_ASSIGN(const bool found, row.step());
  if (!found) {
    return std::nullopt;
  }
  return CandidateState{row.integer(0), static_cast<CandidateStatus>(row.integer(1)),
                        row.integer(2) != 0};
}

Result<void> set_current(Writer& writer, std::string_view kernel, std::string_view target,
                         std::span<const CandidateId> candidates) {
  Connection& connection = writer.connection();
  TRY_ASSIGN(const KernelId id, kernel_id(writer.reader(), kernel));
  std::vector<CandidateId> wanted(candidates.begin(), candidates.end());
  std::sort(wanted.begin(), wanted.end());
  wanted.erase(std::unique(wanted.begin(), wanted.end()), wanted.end());
  // Only what differs is written: a build in which nothing changed commits nothing.
  std::vector<std::pair<CandidateId, bool>> changes;
  std::size_t known = 0;
  {
    TRY_ASSIGN(Statement row, connection.query("SELECT id, current FROM candidate "
                                               "WHERE kernel_id = ?1 AND target = ?2",
                                               id, target));
    while (true) {
      TRY_ASSIGN(const bool more, row.step());
      if (!more) {
        break;
      }
      const CandidateId candidate = row.integer(0);
      const bool current = std::binary_search(wanted.begin(), wanted.end(), candidate);
      known += current ? 1U : 0U;
      if (current != (row.integer(1) != 0)) {
        changes.emplace_back(candidate, current);
      }
    }
  }
  if (known != wanted.size()) {
    return fail(ErrorCode::not_found, std::to_string(wanted.size() - known) +
                                          " of the candidates are none of kernel " +
                                          std::string(kernel) + " for " + std::string(target));
  }
  for (const auto& [candidate, current] : changes) {
    TRY(connection.run("UPDATE candidate SET current = ?2 WHERE id = ?1", candidate, current));
  }
  return connection.run(
      "INSERT INTO current_manifest (kernel_id, target, manifest_digest) "
      "SELECT id, ?2, manifest_digest FROM kernel WHERE id = ?1 "
      "ON CONFLICT (kernel_id, target) DO UPDATE SET manifest_digest = excluded.manifest_digest "
      "WHERE current_manifest.manifest_digest <> excluded.manifest_digest",
      id, target);
}

Result<void> add_current(Writer& writer, std::string_view kernel,
                         std::span<const CandidateId> candidates) {
  Connection& connection = writer.connection();
  TRY_ASSIGN(const KernelId id, kernel_id(writer.reader(), kernel));
  for (const CandidateId candidate : candidates) {
    TRY(connection.run(
        "UPDATE candidate SET current = 1 WHERE id = ?1 AND kernel_id = ?2 AND current = 0",
        candidate, id));
  }
  return {};
}

Result<std::optional<core::Digest>> current_manifest(const Reader& reader, std::string_view kernel,
                                                     std::string_view target) {
  TRY_ASSIGN(Statement row, reader.connection().query(
                                "SELECT current_manifest.manifest_digest FROM current_manifest "
                                "JOIN kernel ON kernel.id = kernel_id "
                                "WHERE kernel.name = ?1 AND target = ?2",
                                kernel, target));
  TRY_ASSIGN(const bool found, row.step());
  if (!found) {
    return std::nullopt;
  }
  return row.digest(0);
}

Result<void> for_each_candidate(const Reader& reader, const CandidateFilter& filter, bool with_log,
                                const std::function<Result<void>(const Candidate&)>& visit) {
  Connection& connection = reader.connection();
  std::optional<int> role;
  if (filter.role) {
    role = static_cast<int>(*filter.role);
  }
  // Two texts, so that one kernel's candidates are found by index.
  const std::string which = filter.kernel.empty() ? "?1 = ''" : "k.name = ?1";
  TRY_ASSIGN(
      Statement row,
      connection.query(
          "SELECT c.id, k.name, c.role, c.build_key, t.json, x.json, g.json, c.target, n.backend, "
          "n.major, n.minor, n.identity, c.status, c.message, CASE WHEN ?5 THEN c.log ELSE '' END, "
          "c.compile_ms, c.cpu_ms, a.digest, a.size, a.stored_size + CASE WHEN "
          "a.dictionary_offset IS NULL THEN 0 ELSE length(d.stored) * a.size / d.size END, "
          "c.extra_entries, c.created "
          "FROM candidate c JOIN kernel k ON k.id = c.kernel_id "
          "JOIN json_value t ON t.id = c.types_id JOIN json_value x ON x.id = c.axes_id "
          "JOIN json_value g ON g.id = c.config_id JOIN toolchain n ON n.id = c.toolchain_id "
          "LEFT JOIN artifact a ON a.id = c.artifact_id "
          "LEFT JOIN dictionary d ON d.id = a.dictionary_id "
          "WHERE " +
              which +
              " AND (?2 = '' OR c.target = ?2) "
              "AND (?3 IS NULL OR c.role = ?3) AND (c.current = 1 OR NOT ?4) "
              "ORDER BY k.name, c.target, c.role, t.json, x.json, g.json, c.id",
          filter.kernel, filter.target, role, filter.current_only, with_log));
  while (true) {
    TRY_ASSIGN(const bool more, row.step());
    if (!more) {
      return {};
    }
    TRY_ASSIGN(const Candidate candidate, candidate_of(connection, row));
    TRY(visit(candidate));
  }
}

// --- Toolchain probes ---

Result<std::optional<std::string>> find_toolchain_probe(const Reader& reader,
                                                        std::string_view probe) {
  TRY_ASSIGN(Statement row, reader.connection().query(
                                "SELECT identity FROM toolchain_probe WHERE probe = ?1", probe));
  TRY_ASSIGN(const bool found, row.step());
  if (!found) {
    return std::nullopt;
  }
  return row.text(0);
}

Result<void> put_toolchain_probe(Writer& writer, std::string_view probe,
                                 std::string_view identity) {
  return writer.connection().run(
      "INSERT INTO toolchain_probe (probe, identity) VALUES (?1, ?2) "
      "ON CONFLICT (probe) DO UPDATE SET identity = excluded.identity",
      probe, identity);
}

}  // namespace cubinary::store
