// SPDX-License-Identifier: Apache-2.0
#include <limits>

#include "core/base/document.hpp"
#include "core/base/json.hpp"
#include "core/wire/oci.hpp"
#include "core/wire/signature.hpp"

namespace cubinary::core {
namespace {

using json::Array;
using json::Node;
using json::Object;

constexpr std::string_view k_statement_type = "https://in-toto.io/Statement/v1";
constexpr std::string_view k_predicate_type = "https://cubinary.dev/release/v1";
constexpr std::int64_t k_max = std::numeric_limits<std::int64_t>::max();

Result<void> require_text(const Node& top, std::string_view key, std::string_view wanted) {
  TRY_ASSIGN(const Node node, top.at(key));
  TRY_ASSIGN(const std::string text, node.text());
  if (text != wanted) {
    return fail(node.error("must be \"" + std::string(wanted) + "\""));
  }
  return {};
}

Result<void> read_subject(const Node& top, ReleaseStatement& statement) {
  TRY_ASSIGN(const Node subjects, top.at("subject"));
  TRY_ASSIGN(const std::vector<Node> nodes, subjects.elements());
  if (nodes.size() != 1) {
    return fail(subjects.error("must hold exactly one subject, the image index"));
  }
  const Node& subject = nodes.front();
  TRY_ASSIGN(statement.name, subject.text("name"));
  TRY_ASSIGN(const Node digest, subject.at("digest"));
  TRY_ASSIGN(const std::string hex, digest.text("sha256"));
  const auto parsed = Digest::parse(hex);
  if (!parsed || hex.starts_with("sha256:")) {
    return fail(digest.error("sha256 must be 64 lower-case hexadecimal digits"));
  }
  statement.index = *parsed;
  return {};
}

}  // namespace

std::string statement_to_json(const ReleaseStatement& statement) {
  Object provenance;
  for (const auto& [key, text] : statement.provenance) {
    provenance[key] = text;
  }
  return json::to_text(
      Object{{"_type", k_statement_type},
             {"subject", Array{Object{{"name", statement.name},
                                      {"digest", Object{{"sha256", statement.index.hex()}}}}}},
             {"predicateType", k_predicate_type},
             {"predicate", Object{{"name", statement.name},
                                  {"serial", statement.serial},
                                  {"created", statement.created},
                                  {"expires", statement.expires},
                                  {"provenance", std::move(provenance)}}}});
}

Result<ReleaseStatement> statement_from_json(std::string_view text) {
  constexpr std::string_view k_what = "the release statement";
  TRY_ASSIGN(const json::Value document, oci::parse_document(text, k_what));
  const Node top(document, k_what);
  TRY(require_text(top, "_type", k_statement_type));
  TRY(require_text(top, "predicateType", k_predicate_type));
  ReleaseStatement statement;
  TRY(read_subject(top, statement));
  TRY_ASSIGN(const Node predicate, top.at("predicate"));
  TRY(require_text(predicate, "name", statement.name));
  if (!oci::is_tag(statement.name)) {
    return fail(predicate.error("name is no release name"));
  }
  TRY_ASSIGN(const std::int64_t serial, predicate.integer("serial", 0, k_max));
  statement.serial = static_cast<std::uint64_t>(serial);
  TRY_ASSIGN(statement.created, predicate.integer("created", 0, k_max));
  TRY_ASSIGN(statement.expires, predicate.integer("expires", 0, k_max));
  TRY_ASSIGN(const Node provenance, predicate.at("provenance"));
  TRY_ASSIGN(statement.provenance, provenance.text_map());
  return statement;
}

}  // namespace cubinary::core
