// SPDX-License-Identifier: Apache-2.0
#include "builder/release/release_json.hpp"

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include "core/table/entry_json.hpp"

namespace cubinary::builder {
namespace {

namespace json = core::json;
using core::Result;

template <typename T>
json::Array to_array(const std::vector<T>& items) {
  return json::Array(items.begin(), items.end());
}

json::Object identity(const store::Release& release) {
  return {{"name", release.name},          {"serial", release.serial},
          {"index", release.index.text()}, {"created", release.created},
          {"expires", release.expires},    {"targets", to_array(release.targets)}};
}

json::Object shown_entry(const core::TableEntry& entry) {
  json::Object object = core::entry_to_json(entry);
  object.erase("offset");
  object.emplace("device_class", "");
  return object;
}

json::Array to_json(const std::vector<store::BlobInfo>& blobs) {
  json::Array array;
  for (const store::BlobInfo& blob : blobs) {
    array.emplace_back(json::Object{
        {"digest", blob.digest.text()}, {"size", blob.size}, {"media_type", blob.media_type}});
  }
  return array;
}

json::Array to_json(const std::vector<core::Revocation>& revoked) {
  json::Array array;
  for (const core::Revocation& one : revoked) {
    array.emplace_back(
        json::Object{{"digest", one.digest.text()}, {"reason", one.reason}, {"at", one.at}});
  }
  return array;
}

constexpr std::int64_t k_max = std::numeric_limits<std::int64_t>::max();

json::Object to_json(const core::KernelTable& table) {
  std::set<core::Digest> artifacts;
  std::size_t tuned = 0;
  json::Array entries;
  for (const core::TableEntry& entry : table.entries) {
    artifacts.insert(entry.artifact);
    tuned += entry.origin == core::Origin::tuned ? 1 : 0;
    entries.emplace_back(shown_entry(entry));
  }
  return {{"name", table.name},
          {"summary", table.summary},
          {"interface", table.interface.text()},
          {"pack", table.pack.text()},
          {"pack_bytes", table.pack_size},
          {"raw_bytes", table.pack_raw_size},
          {"artifacts", artifacts.size()},
          {"tuned", tuned},
          {"entries", std::move(entries)}};
}

Result<json::Object> to_json(const ReleasedTarget& target) {
  json::Array kernels;
  for (const core::KernelTable& table : target.catalogue.kernels) {
    kernels.emplace_back(to_json(table));
  }
  json::Object object{{"target", target.catalogue.target.text()},
                      {"manifest", target.manifest_digest.text()},
                      {"toolkit", target.catalogue.toolkit.text()},
                      {"minimum_driver", target.catalogue.minimum_driver},
                      {"kernels", std::move(kernels)}};
  if (target.triton) {
    TRY_ASSIGN(json::Value triton, json::parse(core::triton_catalogue_to_json(*target.triton)));
    object.emplace("triton", std::move(triton));
  }
  return object;
}

}  // namespace

json::Object to_json(const ReleaseSummary& summary) {
  json::Object object = identity(summary.release);
  object.emplace("signed", summary.release.signature_manifest.has_value());
  object.emplace("channels", to_array(summary.channels));
  object.emplace("kernels", summary.kernels);
  object.emplace("bytes", summary.bytes);
  return object;
}

json::Object to_json(const CreatedRelease& created) {
  json::Array kernels;
  for (const ReleasedKernel& kernel : created.kernels) {
    kernels.emplace_back(json::Object{{"kernel", kernel.kernel},
                                      {"target", kernel.target},
                                      {"entries", kernel.entries},
                                      {"tuned", kernel.tuned},
                                      {"artifacts", kernel.artifacts},
                                      {"raw_bytes", kernel.raw_bytes},
                                      {"pack_bytes", kernel.pack_bytes}});
  }
  json::Array triton;
  for (const ReleasedTriton& part : created.triton) {
    triton.emplace_back(json::Object{{"target", part.target},
                                     {"kernels", part.kernels},
                                     {"host", part.host},
                                     {"autotune", part.autotune},
                                     {"raw_bytes", part.raw_bytes},
                                     {"pack_bytes", part.pack_bytes}});
  }
  json::Object object = identity(created.release);
  object.emplace("kernels", std::move(kernels));
  object.emplace("triton", std::move(triton));
  object.emplace("notes", to_array(created.notes));
  return object;
}

json::Object to_json(const SignedRelease& result) {
  json::Object object = identity(result.release);
  object.emplace("signature", result.signature_manifest.text());
  object.emplace("key_ids", to_array(result.key_ids));
  return object;
}

json::Object to_json(const Promotion& promotion, std::string_view channel) {
  json::Object object = identity(promotion.release);
  object.emplace("channel", channel);
  object.emplace("notes", to_array(promotion.notes));
  return object;
}

Result<json::Array> releases_json(const store::Reader& reader) {
  TRY_ASSIGN(const auto summaries, summarise_all(reader));
  json::Array array;
  for (const ReleaseSummary& summary : summaries) {
    array.emplace_back(to_json(summary));
  }
  return array;
}

Result<json::Object> release_json(const store::Reader& reader, std::string_view name) {
  TRY_ASSIGN(const store::Release release, require_release(reader, name));
  TRY_ASSIGN(const auto summary, summarise(reader, release));
  TRY_ASSIGN(const auto keys, signing_keys(reader, release));
  TRY_ASSIGN(const auto blobs, store::release_blobs(reader, release.id));
  json::Array targets;
  TRY(for_each_target(reader, release, [&](const ReleasedTarget& target) -> Result<void> {
    TRY_ASSIGN(json::Object shown, to_json(target));
    targets.emplace_back(std::move(shown));
    return {};
  }));
  json::Object object = to_json(summary);
  object.insert_or_assign("targets", std::move(targets));
  object.emplace("key_ids", to_array(keys));
  object.emplace("blobs", to_json(blobs));
  if (release.signature_manifest) {
    object.emplace("signature", release.signature_manifest->text());
  }
  return object;
}

Result<json::Array> release_diff_json(const store::Reader& reader, std::string_view before,
                                      std::string_view after) {
  TRY_ASSIGN(const auto changes, diff_releases(reader, before, after));
  json::Array array;
  for (const ReleaseChange& change : changes) {
    array.emplace_back(json::Object{{"kind", kind_name(change.kind)},
                                    {"target", change.target},
                                    {"kernel", change.kernel},
                                    {"entry", change.entry},
                                    {"what", change.what}});
  }
  return array;
}

json::Object to_json(const AttachedRevocations& attached) {
  return {{"serial", attached.list.serial},
          {"manifest", attached.manifest.text()},
          {"key_ids", to_array(attached.key_ids)},
          {"revoked", to_json(attached.list.revoked)}};
}

Result<json::Object> revocations_json(const store::Reader& reader) {
  TRY_ASSIGN(const core::RevocationList list, read_revocations(reader));
  TRY_ASSIGN(const auto blobs, revocation_blobs(reader));
  return json::Object{{"serial", list.serial},
                      {"created", list.created},
                      {"revoked", to_json(list.revoked)},
                      {"blobs", to_json(blobs)}};
}

Result<core::RevocationList> revocations_from_json(const json::Value& value) {
  const json::Node top(value, "the revocation list");
  core::RevocationList list;
  TRY_ASSIGN(const std::int64_t serial, top.integer("serial", 0, k_max));
  list.serial = static_cast<std::uint64_t>(serial);
  TRY_ASSIGN(list.created, top.integer("created", 0, k_max));
  TRY_ASSIGN(const json::Node revoked, top.at("revoked"));
  TRY_ASSIGN(const auto nodes, revoked.elements());
  for (const json::Node& node : nodes) {
    core::Revocation one;
    TRY_ASSIGN(const std::string digest, node.text("digest"));
    TRY_ASSIGN(one.digest, core::Digest::parse(digest));
    TRY_ASSIGN(one.reason, node.text("reason"));
    TRY_ASSIGN(one.at, node.integer("at", 0, k_max));
    list.revoked.push_back(std::move(one));
  }
  return list;
}

Result<std::vector<store::BlobInfo>> blobs_from_json(const json::Value& value) {
  const json::Node top(value, "the answer");
  TRY_ASSIGN(const json::Node blobs, top.at("blobs"));
  TRY_ASSIGN(const auto nodes, blobs.elements());
  std::vector<store::BlobInfo> list;
  for (const json::Node& node : nodes) {
    store::BlobInfo blob;
    TRY_ASSIGN(const std::string digest, node.text("digest"));
    TRY_ASSIGN(blob.digest, core::Digest::parse(digest));
    TRY_ASSIGN(const std::int64_t size, node.integer("size", 0, k_max));
    blob.size = static_cast<std::uint64_t>(size);
    TRY_ASSIGN(blob.media_type, node.text("media_type"));
    list.push_back(std::move(blob));
  }
  return list;
}

Result<store::Release> release_from_json(const json::Value& value) {
  const json::Node top(value, "the release");
  store::Release release;
  TRY_ASSIGN(release.name, top.text("name"));
  TRY_ASSIGN(const std::string index, top.text("index"));
  TRY_ASSIGN(release.index, core::Digest::parse(index));
  TRY_ASSIGN(const std::int64_t serial, top.integer("serial", 1, k_max));
  release.serial = static_cast<std::uint64_t>(serial);
  TRY_ASSIGN(release.created, top.integer("created", 0, k_max));
  TRY_ASSIGN(release.expires, top.integer("expires", 0, k_max));
  TRY_ASSIGN(const std::string signature, top.text_or("signature", ""));
  if (!signature.empty()) {
    TRY_ASSIGN(release.signature_manifest, core::Digest::parse(signature));
  }
  return release;
}

}  // namespace cubinary::builder
