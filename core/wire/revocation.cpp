// SPDX-License-Identifier: Apache-2.0
#include "core/wire/revocation.hpp"

#include <algorithm>
#include <limits>

#include "core/base/document.hpp"
#include "core/base/json.hpp"
#include "core/wire/oci.hpp"

namespace cubinary::core {
namespace {

using json::Array;
using json::Node;
using json::Object;

constexpr std::string_view k_statement_type = "https://in-toto.io/Statement/v1";
constexpr std::string_view k_predicate_type = "https://cubinary.dev/revocations/v1";
constexpr std::int64_t k_max = std::numeric_limits<std::int64_t>::max();

Result<void> require_text(const Node& top, std::string_view key, std::string_view wanted) {
  TRY_ASSIGN(const std::string text, top.text(key));
  if (text != wanted) {
    return fail(top.error(std::string(key) + " must be \"" + std::string(wanted) + "\""));
  }
  return {};
}

Result<Digest> read_digest(const Node& node) {
  TRY_ASSIGN(const std::string text, node.text("digest"));
  const auto digest = Digest::parse(text);
  if (!digest || !text.starts_with("sha256:")) {
    return fail(node.error("digest must be sha256: and 64 lower-case hexadecimal digits"));
  }
  return *digest;
}

}  // namespace

std::string revocations_to_json(RevocationList list) {
  std::ranges::sort(list.revoked, {}, &Revocation::digest);
  Array subjects;
  Array revoked;
  for (const Revocation& one : list.revoked) {
    subjects.emplace_back(
        Object{{"name", one.digest.text()}, {"digest", Object{{"sha256", one.digest.hex()}}}});
    revoked.emplace_back(
        Object{{"digest", one.digest.text()}, {"reason", one.reason}, {"at", one.at}});
  }
  return json::to_text(Object{{"_type", k_statement_type},
                              {"subject", std::move(subjects)},
                              {"predicateType", k_predicate_type},
                              {"predicate", Object{{"serial", list.serial},
                                                   {"created", list.created},
                                                   {"revoked", std::move(revoked)}}}});
}

Result<RevocationList> revocations_from_json(std::string_view text) {
  constexpr std::string_view k_what = "the revocation list";
  TRY_ASSIGN(const json::Value document, oci::parse_document(text, k_what));
  const Node top(document, k_what);
  TRY(require_text(top, "_type", k_statement_type));
  TRY(require_text(top, "predicateType", k_predicate_type));
  TRY_ASSIGN(const Node predicate, top.at("predicate"));
  RevocationList list;
  TRY_ASSIGN(const std::int64_t serial, predicate.integer("serial", 1, k_max));
  list.serial = static_cast<std::uint64_t>(serial);
  TRY_ASSIGN(list.created, predicate.integer("created", 0, k_max));
  TRY_ASSIGN(const Node revoked, predicate.at("revoked"));
  TRY_ASSIGN(const auto nodes, revoked.elements());
  for (const Node& node : nodes) {
    Revocation one;
    TRY_ASSIGN(one.digest, read_digest(node));
    TRY_ASSIGN(one.reason, node.text("reason"));
    TRY_ASSIGN(one.at, node.integer("at", 0, k_max));
    if (!list.revoked.empty() && !(list.revoked.back().digest < one.digest)) {
      return fail(revoked.error("must be sorted by digest, each once"));
    }
    list.revoked.push_back(std::move(one));
  }
  return list;
}

}  // namespace cubinary::core
