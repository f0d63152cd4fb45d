// SPDX-License-Identifier: Apache-2.0
#include "client/revocations.hpp"

#include <limits>
#include <utility>

#include "core/base/json.hpp"
#include "core/wire/oci.hpp"

namespace cubinary::client {
namespace {

using core::ErrorCode;
using core::fail;
using core::Result;
namespace oci = core::oci;
namespace json = core::json;

struct Seen {
  std::uint64_t serial = 0;  ///< 0: none
  core::Digest envelope;
};

struct Checked {
  core::RevocationList list;
  std::string key_id;
  core::Digest envelope;
};

std::string record_name(const std::string& key_id, const SourceName& name) {
  return "revocations " + key_id + " " + name.repository;
}

/// The newest list that was ever seen under one of the keys.
Seen newest_seen(Cache& cache, const RevocationQuery& query) {
  Seen newest;
  for (const core::PublicKey& key : query.keys) {
    const auto text = cache.find_record(record_name(key.key_id(), query.name));
    const auto value = text ? json::parse(*text) : Result<json::Value>(json::Value());
    if (!text || !value) {
      continue;
    }
    const json::Node record(*value, "record");
    const auto serial = record.integer("serial", 1, std::numeric_limits<std::int64_t>::max());
    const auto envelope = record.text("envelope");
    const auto digest = envelope ? core::Digest::parse(*envelope) : core::Digest::parse("");
    if (serial && digest && static_cast<std::uint64_t>(*serial) > newest.serial) {
      newest = {static_cast<std::uint64_t>(*serial), *digest};
    }
  }
  return newest;
}

Result<Checked> check(core::ByteView envelope, const RevocationQuery& query) {
  const std::string what = "the revocation list of " + query.name.place();
  const auto verified = core::dsse_verify(core::as_text(envelope), query.keys);
  if (!verified) {
    return fail(verified.error().with_context(what));
  }
  if (verified->payload_type != core::k_statement_payload_type) {
    return fail(ErrorCode::signature, what + ": the signed payload is of another type");
  }
  auto list = core::revocations_from_json(verified->payload);
  if (!list) {
    return fail(list.error().with_context(what));
  }
  return Checked{*std::move(list), verified->key_id, core::sha256(envelope)};
}

/// What the source serves; none when it has no list.
Result<std::optional<core::Bytes>> fetch_envelope(const RevocationQuery& query) {
  auto document = query.source->manifest(core::k_revocations_tag, query.deadline);
  if (!document) {
    if (document.error().code == ErrorCode::not_found) {
      return std::optional<core::Bytes>();
    }
    return fail(std::move(document).error());
  }
  const std::string what = "the revocation list of " + query.name.place();
  const auto manifest = oci::manifest_from_json(core::as_text(document->bytes));
  if (!manifest) {
    return fail(manifest.error().with_context(what));
  }
  if (manifest->artifact_type != core::k_revocations_artifact_type ||
      manifest->layers.size() != 1 || manifest->layers[0].media_type != oci::k_dsse_type ||
      manifest->layers[0].size > oci::k_max_document_bytes) {
    return fail(ErrorCode::signature, what + ": what stands under its tag is none");
  }
  TRY_ASSIGN(core::Bytes envelope, query.source->blob(manifest->layers[0].digest,
                                                      manifest->layers[0].size, query.deadline));
  return std::optional(std::move(envelope));
}

Revoked as_map(const core::RevocationList& list) {
  Revoked revoked;
  for (const core::Revocation& one : list.revoked) {
    revoked.emplace(one.digest, one.reason);
  }
  return revoked;
}

}  // namespace

Result<Revoked> load_revocations(Cache& cache, const RevocationQuery& query) {
  const Seen seen = newest_seen(cache, query);
  std::string served = "no revocation list";
  if (query.source != nullptr) {
    TRY_ASSIGN(const auto envelope, fetch_envelope(query));
    if (envelope) {
      TRY_ASSIGN(const Checked checked, check(*envelope, query));
      if (checked.list.serial > seen.serial) {
        cache.put(Cache::Kind::blob, checked.envelope, *envelope);
        cache.put_record(record_name(checked.key_id, query.name),
                         json::to_text(json::Object{{"envelope", checked.envelope.text()},
                                                    {"serial", checked.list.serial}}));
      }
      if (checked.list.serial >= seen.serial) {
        return as_map(checked.list);
      }
      served = "revocation list " + std::to_string(checked.list.serial);
    }
  }
  if (seen.serial == 0) {
    return Revoked{};
  }
  const std::string newest = "revocation list " + std::to_string(seen.serial);
  const auto kept = cache.find(Cache::Kind::blob, seen.envelope, oci::k_max_document_bytes);
  if (!kept) {
    return fail(ErrorCode::rollback,
                query.name.place() + (query.source == nullptr ? ": offline" : " has " + served) +
                    ", but " + newest +
                    " was seen there before, and the cache does not hold it any more: fetch from a "
                    "source that has it");
  }
  if (query.source != nullptr) {
    query.log(query.name.place() + " has " + served + ", but " + newest +
              " was seen there before and still applies");
  }
  TRY_ASSIGN(const Checked checked, check(*kept, query));
  return as_map(checked.list);
}

}  // namespace cubinary::client
