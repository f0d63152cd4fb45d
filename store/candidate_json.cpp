// SPDX-License-Identifier: Apache-2.0
#include "store/candidate_json.hpp"

#include <array>
#include <charconv>
#include <limits>
#include <utility>

#include "core/model/target.hpp"
#include "store/values_json.hpp"

namespace cubinary::store {

namespace json = core::json;
using core::Result;

namespace {

constexpr std::int64_t k_max = std::numeric_limits<std::int64_t>::max();

json::Object to_json(const core::EntrySymbol& symbol) {
  return {{"symbol", symbol.symbol},
          {"max_threads", symbol.max_threads},
          {"registers", symbol.registers},
          {"static_smem", symbol.static_smem},
          {"spill_bytes", symbol.spill_bytes}};
}

Result<core::EntrySymbol> symbol_from_json(const json::Node& node) {
  core::EntrySymbol symbol;
  TRY_ASSIGN(symbol.symbol, node.text("symbol"));
  TRY_ASSIGN(symbol.max_threads, node.integer("max_threads", 1, k_max));
  TRY_ASSIGN(symbol.registers, node.integer("registers", 0, k_max));
  TRY_ASSIGN(symbol.static_smem, node.integer("static_smem", 0, k_max));
  TRY_ASSIGN(symbol.spill_bytes, node.integer("spill_bytes", 0, k_max));
  return symbol;
}

template <typename Enum, std::size_t count>
Result<Enum> word(const json::Node& parent, std::string_view key,
                  const std::array<Enum, count>& all, std::string_view (*name)(Enum)) {
  TRY_ASSIGN(const json::Node node, parent.at(key));
  TRY_ASSIGN(const std::string text, node.text());
  std::string known;
  for (const Enum value : all) {
    if (name(value) == text) {
      return value;
    }
    known += (known.empty() ? "" : ", ") + std::string(name(value));
  }
  return core::fail(node.error("must be one of " + known));
}

Result<Toolchain> toolchain_from_json(const json::Node& node) {
  Toolchain toolchain;
  TRY_ASSIGN(toolchain.backend, node.text("backend"));
  TRY_ASSIGN(toolchain.identity, node.text("identity"));
  TRY_ASSIGN(const std::string version, node.text("version"));
  const char* const end = version.data() + version.size();
  const auto major = std::from_chars(version.data(), end, toolchain.version.major);
  if (major.ec == std::errc() && major.ptr != end && *major.ptr == '.') {
    const auto minor = std::from_chars(major.ptr + 1, end, toolchain.version.minor);
    if (minor.ec == std::errc() && minor.ptr == end) {
      return toolchain;
    }
  }
  return core::fail(node.error("version must be MAJOR.MINOR"));
}

Result<void> read_outcome(const json::Node& node, Candidate& candidate) {
  using enum CandidateStatus;
  TRY_ASSIGN(candidate.status,
             word(node, "status", std::array{ok, failed, timeout, crashed},
                  static_cast<std::string_view (*)(CandidateStatus)>(&status_name)));
  TRY_ASSIGN(candidate.message, node.text_or("message", ""));
  TRY_ASSIGN(candidate.log, node.text_or("log", ""));
  TRY_ASSIGN(candidate.compile_ms, amount_at(node, "compile_ms"));
  TRY_ASSIGN(candidate.cpu_ms, amount_at(node, "cpu_ms"));
  TRY_ASSIGN(const json::Node artifact, node.find("artifact"));
  if (artifact.exists()) {
    TRY_ASSIGN(candidate.artifact, digest_at(node, "artifact"));
  }
  if ((candidate.status == ok) != candidate.artifact.has_value()) {
    return core::fail(node.error("an artifact belongs to status ok, and to no other"));
  }
  TRY_ASSIGN(const json::Node symbols, node.find("symbols"));
  if (symbols.exists()) {
    TRY_ASSIGN(const auto nodes, symbols.elements());
    for (const json::Node& item : nodes) {
      TRY_ASSIGN(core::EntrySymbol symbol, symbol_from_json(item));
      candidate.symbols.push_back(std::move(symbol));
    }
  }
  TRY_ASSIGN(const json::Node extra, node.find("extra_entries"));
  if (extra.exists()) {
    TRY_ASSIGN(const auto nodes, extra.elements());
    for (const json::Node& item : nodes) {
      TRY_ASSIGN(std::string name, item.text());
      candidate.extra_entries.push_back(std::move(name));
    }
  }
  return {};
}

}  // namespace

json::Object to_json(const Candidate& candidate) {
  json::Array symbols;
  for (const core::EntrySymbol& symbol : candidate.symbols) {
    symbols.emplace_back(to_json(symbol));
  }
  json::Object object{{"kernel", candidate.kernel},
                      {"role", role_name(candidate.role)},
                      {"build_key", candidate.build_key.text()},
                      {"types", values_to_json(candidate.types)},
                      {"compile_axes", values_to_json(candidate.compile_axes)},
                      {"config", values_to_json(candidate.config)},
                      {"target", candidate.target},
                      {"toolchain", json::Object{{"backend", candidate.toolchain.backend},
                                                 {"version", candidate.toolchain.version.text()},
                                                 {"identity", candidate.toolchain.identity}}},
                      {"status", status_name(candidate.status)},
                      {"compile_ms", candidate.compile_ms},
                      {"cpu_ms", candidate.cpu_ms},
                      {"symbols", std::move(symbols)}};
  if (!candidate.message.empty()) {
    object.emplace("message", candidate.message);
  }
  if (!candidate.log.empty()) {
    object.emplace("log", candidate.log);
  }
  if (candidate.artifact) {
    object.emplace("artifact", candidate.artifact->text());
  }
  if (candidate.id != 0) {
    object.emplace("id", candidate.id);
  }
  if (candidate.raw_size != 0) {
    object.emplace("size", candidate.raw_size);
  }
  if (!candidate.extra_entries.empty()) {
    object.emplace("extra_entries",
                   json::Array(candidate.extra_entries.begin(), candidate.extra_entries.end()));
  }
  return object;
}

Result<Candidate> candidate_from_json(const json::Node& node) {
  Candidate candidate;
  using enum CandidateRole;
  TRY_ASSIGN(candidate.kernel, node.text("kernel"));
  TRY_ASSIGN(candidate.role,
             word(node, "role", std::array{kernel, reference, prepare}, &role_name));
  TRY_ASSIGN(candidate.build_key, digest_at(node, "build_key"));
  TRY_ASSIGN(candidate.types, values_at(node, "types", &core::types_from_json));
  TRY_ASSIGN(candidate.compile_axes, values_at(node, "compile_axes", &core::shape_from_json));
  TRY_ASSIGN(candidate.config, values_at(node, "config", &core::config_from_json));
  TRY_ASSIGN(candidate.target, node.text("target"));
  if (const auto target = core::Target::parse(candidate.target); !target) {
    return core::fail(node.error(target.error().message));
  }
  TRY_ASSIGN(const json::Node toolchain, node.at("toolchain"));
  TRY_ASSIGN(candidate.toolchain, toolchain_from_json(toolchain));
  TRY_ASSIGN(candidate.id, node.integer_or("id", 0, k_max, 0));
  TRY_ASSIGN(const std::int64_t size, node.integer_or("size", 0, k_max, 0));
  candidate.raw_size = static_cast<std::uint64_t>(size);
  TRY(read_outcome(node, candidate));
  return candidate;
}

json::Object to_json(const Kernel& kernel) {
  return {{"name", kernel.name},
          {"interface", kernel.interface.text()},
          {"manifest", kernel.manifest},
          {"manifest_path", kernel.manifest_path},
          {"inputs", kernel.inputs}};
}

Result<Kernel> kernel_from_json(const json::Node& node) {
  Kernel kernel;
  TRY_ASSIGN(kernel.name, node.text("name"));
  TRY_ASSIGN(kernel.interface, digest_at(node, "interface"));
  TRY_ASSIGN(kernel.manifest, node.text("manifest"));
  TRY_ASSIGN(kernel.manifest_path, node.text_or("manifest_path", ""));
  TRY_ASSIGN(kernel.inputs, node.text_or("inputs", ""));
  kernel.manifest_digest = core::sha256(kernel.manifest);
  return kernel;
}

}  // namespace cubinary::store
