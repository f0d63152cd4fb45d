// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <set>
#include <string>
#include <string_view>

#include "builder/release/envelope.hpp"
#include "builder/release/release.hpp"
#include "builder/release/view.hpp"
#include "core/base/json.hpp"
#include "core/base/nearest.hpp"
#include "core/wire/oci.hpp"
#include "core/wire/revocation.hpp"
#include "store/changes.hpp"

namespace cubinary::builder {
namespace {

namespace json = core::json;
namespace oci = core::oci;
using core::ErrorCode;
using core::fail;
using core::Result;

/// How much of a release was loaded, launched and checked on which devices before it was made.
class Attested {
 public:
  void add(const core::Catalogue& catalogue) {
    for (const core::KernelTable& table : catalogue.kernels) {
      for (const core::TableEntry& entry : table.entries) {
        ++m_entries;
        const auto proof = entry.provenance.find("attested");
        if (proof == entry.provenance.end()) {
          continue;
        }
        ++m_proved;
        std::string_view rest = proof->second;
        while (!rest.empty()) {
          const std::size_t end = std::min(rest.find(", "), rest.size());
          m_places.emplace(rest.substr(0, end));
          rest.remove_prefix(std::min(end + 2, rest.size()));
        }
      }
    }
  }
  /// "3 of 4 entries: CLASS driver VERSION, …".
  [[nodiscard]] std::string text() const {
    std::string text = std::to_string(m_proved) + " of " + std::to_string(m_entries) + " entries";
    const char* separator = ": ";
    for (const std::string& place : m_places) {
      text += separator + place;
      separator = ", ";
    }
    return text;
  }

 private:
  std::size_t m_entries = 0;
  std::size_t m_proved = 0;
  std::set<std::string> m_places;
};

/// Reads the whole release, digests checked, and gathers what the statement says of its making.
Result<std::map<std::string, std::string>> vouch_for(const ReadBlob& read,
                                                     const core::Digest& index) {
  std::map<std::string, std::string> provenance{{"cubinary", CUBINARY_VERSION}};
  core::ToolkitVersion toolkit;
  std::string targets;
  Attested attested;
  const auto visit = [&](const ReleasedTarget& target) -> Result<void> {
    for (const oci::Descriptor& layer : target.manifest.layers) {
      if (auto pack = read(layer.digest, layer.size); !pack) {
        return fail(std::move(pack).error());
      }
    }
    attested.add(target.catalogue);
    toolkit = std::max(toolkit, target.catalogue.toolkit);
    targets += (targets.empty() ? "" : ",") + target.catalogue.target.text();
    return {};
  };
  TRY(for_each_target(read, index, visit));
  provenance.emplace("toolkit", toolkit.text());
  provenance.emplace("targets", targets);
  provenance.emplace("attested", attested.text());
  return provenance;
}

/// A signature that says anything else than the release would only be refused by every client.
Result<void> check_statement(const core::ReleaseStatement& statement,
                             const store::Release& release) {
  const auto differs = [&](std::string_view what) {
    return fail(ErrorCode::signature, "the signature is not for release " + release.name +
                                          ": its statement has another " + std::string(what));
  };
  if (statement.name != release.name) {
    return differs("name, \"" + statement.name + "\"");
  }
  if (statement.index != release.index) {
    return differs("index, " + statement.index.text());
  }
  if (statement.serial != release.serial) {
    return differs("serial, " + std::to_string(statement.serial));
  }
  if (statement.created != release.created || statement.expires != release.expires) {
    return differs("time of creation or expiry");
  }
  return {};
}

}  // namespace

Result<std::string> make_signature(const ReadBlob& read, const store::Release& release,
                                   std::span<const core::PrivateKey> keys) {
  core::ReleaseStatement statement;
  TRY_ASSIGN(statement.provenance, vouch_for(read, release.index));
  statement.name = release.name;
  statement.index = release.index;
  statement.serial = release.serial;
  statement.created = release.created;
  statement.expires = release.expires;
  return core::dsse_sign(core::k_statement_payload_type, core::statement_to_json(statement), keys);
}

Result<SignedRelease> attach_signature(store::Store& store, std::string_view name,
                                       std::string_view envelope) {
  TRY_ASSIGN(OpenedEnvelope opened, open_envelope(envelope));
  TRY_ASSIGN(const core::ReleaseStatement statement, core::statement_from_json(opened.payload));
  SignedRelease result;
  result.key_ids = std::move(opened.key_ids);
  const auto describe_blob = [](std::string_view media_type, core::ByteView bytes) {
    return oci::Descriptor{std::string(media_type), core::sha256(bytes), bytes.size(), {}};
  };
  constexpr std::string_view k_empty = "{}";
  oci::Manifest manifest;
  manifest.artifact_type = oci::k_signature_artifact_type;
  manifest.config = describe_blob(oci::k_empty_type, core::as_bytes(k_empty));
  manifest.layers = {describe_blob(oci::k_dsse_type, core::as_bytes(envelope))};

  const auto body = [&](store::Writer& writer) -> Result<void> {
    TRY_ASSIGN(result.release, require_release(writer.reader(), name));
    TRY(check_statement(statement, result.release));
    TRY_ASSIGN(const auto index, store::find_blob(writer.reader(), result.release.index));
    if (!index) {
      return fail(ErrorCode::corrupt, "release " + result.release.name +
                                          " has lost its index: run `cubinary store fsck`");
    }
    manifest.subject = {std::string(oci::k_index_type), index->digest, index->size, {}};
    const std::string json = oci::to_json(manifest);
    result.signature_manifest = core::sha256(json);
    if (result.release.signature_manifest == result.signature_manifest) {
      return {};
    }
    TRY(store::put_blob(writer, oci::k_empty_type, core::as_bytes(k_empty)));
    TRY(store::put_blob(writer, oci::k_dsse_type, core::as_bytes(envelope)));
    TRY(store::put_blob(writer, oci::k_manifest_type, core::as_bytes(json)));
    const std::vector<core::Digest> blobs{manifest.config.digest, manifest.layers.front().digest,
                                          result.signature_manifest};
    TRY(store::put_signature(writer, result.release.id, result.signature_manifest, blobs));
    return store::record_change(
        writer, "release sign", result.release.name,
        {{"keys", json::Array(result.key_ids.begin(), result.key_ids.end())}});
  };
  TRY(store.write(body));
  result.release.signature_manifest = result.signature_manifest;
  return result;
}

Result<SignedRelease> sign_release(store::Store& store, std::string_view name,
                                   std::span<const core::PrivateKey> keys) {
  std::string envelope;
  {
    TRY_ASSIGN(const store::Reader reader, store.reader());
    TRY_ASSIGN(const store::Release release, require_release(reader, name));
    TRY_ASSIGN(envelope, make_signature(blobs_of(reader), release, keys));
  }
  return attach_signature(store, name, envelope);
}

Result<Promotion> promote_release(store::Store& store, std::string_view name,
                                  std::string_view channel) {
  const std::string shown(channel);
  if (!oci::is_tag(channel) || channel.starts_with("sha256-") ||
      channel == core::k_revocations_tag) {
    return fail(ErrorCode::usage,
                "\"" + shown +
                    "\" cannot name a channel: use 1 to 128 letters, digits, `_`, "
                    "`.` or `-`, the first not `.` or `-`, and not `sha256-…`");
  }
  Promotion promotion;
  const auto body = [&](store::Writer& writer) -> Result<void> {
    TRY_ASSIGN(promotion.release, require_release(writer.reader(), name));
    TRY_ASSIGN(const auto taken, store::find_release(writer.reader(), channel));
    if (taken) {
      return fail(ErrorCode::exists,
                  "\"" + shown +
                      "\" is the name of a release, which always means that very "
                      "release: choose another channel name");
    }
    TRY_ASSIGN(const auto releases, store::list_releases(writer.reader()));
    TRY_ASSIGN(const auto before, store::find_tag(writer.reader(), channel));
    for (const store::Release& other : releases) {
      if (before && other.index == before->manifest && other.serial > promotion.release.serial) {
        promotion.notes.push_back("this moves " + shown + " back from " + other.name +
                                  "; clients that have seen serial " +
                                  std::to_string(other.serial) + " refuse serial " +
                                  std::to_string(promotion.release.serial));
      }
    }
    if (before && before->manifest == promotion.release.index) {
      return {};
    }
    TRY(store::put_tag(writer, {shown, promotion.release.index, std::string(oci::k_index_type)}));
    return store::record_change(writer, "release promote", shown,
                                {{"release", promotion.release.name}});
  };
  TRY(store.write(body));
  if (!promotion.release.signature_manifest) {
    promotion.notes.push_back("clients refuse it until it is signed: `cubinary release sign " +
                              promotion.release.name + "`");
  }
  return promotion;
}

Result<store::Release> require_release(const store::Reader& reader, std::string_view name) {
  TRY_ASSIGN(auto release, store::find_release(reader, name));
  if (release) {
    return *std::move(release);
  }
  TRY_ASSIGN(const auto releases, store::list_releases(reader));
  std::vector<std::string> names;
  for (const store::Release& other : releases) {
    names.push_back(other.name);
  }
  return fail(ErrorCode::not_found, "the store has no release \"" + std::string(name) + "\"" +
                                        core::did_you_mean(name, names) +
                                        (names.empty() ? "; make one with `cubinary release create`"
                                                       : "; `cubinary release list` shows all"));
}

Result<std::vector<std::string>> channels_of(const store::Reader& reader,
                                             const store::Release& release) {
  constexpr std::size_t k_page = 1000;
  std::vector<std::string> channels;
  std::string last;
  while (true) {
    TRY_ASSIGN(const auto names, store::list_tags(reader, last, k_page));
    for (const std::string& name : names) {
      TRY_ASSIGN(const auto tag, store::find_tag(reader, name));
      if (tag && tag->manifest == release.index && name != release.name) {
        channels.push_back(name);
      }
    }
    if (names.size() < k_page) {
      return channels;
    }
    last = names.back();
  }
}

}  // namespace cubinary::builder
