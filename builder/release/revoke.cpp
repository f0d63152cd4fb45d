// SPDX-License-Identifier: Apache-2.0
#include "builder/release/revoke.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "builder/release/envelope.hpp"
#include "builder/release/view.hpp"
#include "core/base/json.hpp"
#include "core/wire/oci.hpp"
#include "store/changes.hpp"
#include "store/releases.hpp"

namespace cubinary::builder {
namespace {

namespace json = core::json;
namespace oci = core::oci;
using core::ErrorCode;
using core::fail;
using core::Result;

constexpr std::string_view k_empty = "{}";

oci::Descriptor describe_blob(std::string_view media_type, core::ByteView bytes) {
  return {std::string(media_type), core::sha256(bytes), bytes.size(), {}};
}

Result<void> check_successor(const core::RevocationList& before, const core::RevocationList& next) {
  if (next.serial <= before.serial) {
    return fail(ErrorCode::rollback, "the store has revocation list " +
                                         std::to_string(before.serial) + ", and list " +
                                         std::to_string(next.serial) +
                                         " does not follow it: make it again from the newest");
  }
  for (const core::Revocation& one : before.revoked) {
    if (std::ranges::find(next.revoked, one.digest, &core::Revocation::digest) ==
        next.revoked.end()) {
      return fail(ErrorCode::rollback,
                  "the new revocation list lacks " + one.digest.text() +
                      ", which is revoked: what was revoked stays so (release it under a new "
                      "digest instead)");
    }
  }
  return {};
}

}  // namespace

Result<core::RevocationList> read_revocations(const store::Reader& reader) {
  TRY_ASSIGN(const auto tag, store::find_tag(reader, core::k_revocations_tag));
  if (!tag) {
    return core::RevocationList{};
  }
  const auto read = [&](const core::Digest& digest) {
    return store::read_blob(reader, digest, oci::k_max_document_bytes);
  };
  TRY_ASSIGN(const core::Bytes bytes, read(tag->manifest));
  TRY_ASSIGN(const oci::Manifest manifest, oci::manifest_from_json(core::as_text(bytes)));
  if (manifest.artifact_type != core::k_revocations_artifact_type || manifest.layers.size() != 1) {
    return fail(ErrorCode::corrupt, "what the store has under the tag " +
                                        std::string(core::k_revocations_tag) +
                                        " is no revocation list");
  }
  TRY_ASSIGN(const core::Bytes envelope, read(manifest.layers.front().digest));
  TRY_ASSIGN(const OpenedEnvelope opened, open_envelope(core::as_text(envelope)));
  return core::revocations_from_json(opened.payload);
}

Result<std::vector<store::BlobInfo>> revocation_blobs(const store::Reader& reader) {
  std::vector<store::BlobInfo> blobs;
  TRY_ASSIGN(const auto tag, store::find_tag(reader, core::k_revocations_tag));
  if (!tag) {
    return blobs;
  }
  TRY_ASSIGN(const core::Bytes bytes,
             store::read_blob(reader, tag->manifest, oci::k_max_document_bytes));
  TRY_ASSIGN(const oci::Manifest manifest, oci::manifest_from_json(core::as_text(bytes)));
  blobs.push_back({tag->manifest, bytes.size(), tag->media_type});
  blobs.push_back({manifest.config.digest, manifest.config.size, manifest.config.media_type});
  for (const oci::Descriptor& layer : manifest.layers) {
    blobs.push_back({layer.digest, layer.size, layer.media_type});
  }
  return blobs;
}

Result<std::string> make_revocations(core::RevocationList list,
                                     std::span<const core::Revocation> more, std::int64_t now,
                                     std::span<const core::PrivateKey> keys) {
  for (const core::Revocation& one : more) {
    if (std::ranges::find(list.revoked, one.digest, &core::Revocation::digest) ==
        list.revoked.end()) {
      list.revoked.push_back(one);
    }
  }
  ++list.serial;
  list.created = now;
  return core::dsse_sign(core::k_statement_payload_type, core::revocations_to_json(std::move(list)),
                         keys);
}

Result<AttachedRevocations> attach_revocations(store::Store& store, std::string_view envelope) {
  TRY_ASSIGN(OpenedEnvelope opened, open_envelope(envelope));
  AttachedRevocations result;
  result.key_ids = std::move(opened.key_ids);
  TRY_ASSIGN(result.list, core::revocations_from_json(opened.payload));
  oci::Manifest manifest;
  manifest.artifact_type = core::k_revocations_artifact_type;
  manifest.config = describe_blob(oci::k_empty_type, core::as_bytes(k_empty));
  manifest.layers = {describe_blob(oci::k_dsse_type, core::as_bytes(envelope))};
  const std::string text = oci::to_json(manifest);
  result.manifest = core::sha256(text);

  const auto body = [&](store::Writer& writer) -> Result<void> {
    TRY_ASSIGN(const auto tag, store::find_tag(writer.reader(), core::k_revocations_tag));
    if (tag && tag->manifest == result.manifest) {
      return {};  // the same list, sent again
    }
    TRY_ASSIGN(const auto before, read_revocations(writer.reader()));
    TRY(check_successor(before, result.list));
    TRY(store::put_blob(writer, oci::k_empty_type, core::as_bytes(k_empty)));
    TRY(store::put_blob(writer, oci::k_dsse_type, core::as_bytes(envelope)));
    TRY(store::put_blob(writer, oci::k_manifest_type, core::as_bytes(text)));
    TRY(store::put_tag(writer, {std::string(core::k_revocations_tag), result.manifest,
                                std::string(oci::k_manifest_type)}));
    json::Array added;
    for (const core::Revocation& one : result.list.revoked) {
      if (std::ranges::find(before.revoked, one.digest, &core::Revocation::digest) ==
          before.revoked.end()) {
        added.emplace_back(one.digest.text());
      }
    }
    return store::record_change(
        writer, "release revoke", std::to_string(result.list.serial),
        {{"digests", std::move(added)},
         {"keys", json::Array(result.key_ids.begin(), result.key_ids.end())}});
  };
  TRY(store.write(body));
  return result;
}

Result<std::string> describe_digest(const store::Reader& reader, const core::Digest& digest) {
  TRY_ASSIGN(const auto releases, store::list_releases(reader));
  std::string found;
  for (const store::Release& release : releases) {
    if (release.index == digest) {
      return "release " + release.name;
    }
    const auto visit = [&](const ReleasedTarget& target) -> Result<void> {
      const std::string where = " in " + release.name + ", " + target.catalogue.target.text();
      if (target.manifest.config.digest == digest) {
        found = "catalogue" + where;
      }
      for (const core::KernelTable& table : target.catalogue.kernels) {
        if (table.pack == digest) {
          found = "pack of kernel " + table.name + where;
        }
        for (const core::TableEntry& entry : table.entries) {
          if (entry.artifact == digest) {
            found = "code of kernel " + table.name + where;
          }
        }
      }
      return {};
    };
    TRY(for_each_target(blobs_of(reader), release.index, visit));
    if (!found.empty()) {
      break;
    }
  }
  return found;
}

}  // namespace cubinary::builder
