// SPDX-License-Identifier: Apache-2.0
#include "client/release.hpp"

#include <algorithm>
#include <ctime>
#include <limits>
#include <set>
#include <utility>

#include "core/base/json.hpp"
#include "core/base/nearest.hpp"

namespace cubinary::client {
namespace {

using core::ErrorCode;
using core::fail;
using core::Result;
namespace oci = core::oci;
namespace json = core::json;

constexpr std::size_t k_tags_compared = 16;

/// A tag that stands for no release.
bool is_attached_tag(std::string_view tag) {
  if (tag == core::k_revocations_tag) {
    return true;
  }
  return tag.starts_with("sha256-") && core::Digest::parse(tag.substr(7)).has_value();
}

std::string date_text(std::int64_t seconds) {
  const auto time = static_cast<std::time_t>(seconds);
  std::tm utc{};
  char text[32] = "?";
  if (::gmtime_r(&time, &utc) != nullptr) {
    (void)std::strftime(text, sizeof text, "%Y-%m-%d %H:%M UTC", &utc);
  }
  return text;
}

std::string joined(const std::vector<std::string>& names) {
  std::string result;
  for (const auto& name : names) {
    result += (result.empty() ? "" : ", ") + name;
  }
  return result;
}

/// Where an offline client finds what a tag last meant, or the signature of a pinned index.
std::string release_record(const std::string& place, const std::string& tag) {
  return "release " + place + " " + tag;
}
std::string pinned_record(const std::string& place, const core::Digest& index) {
  return release_record(place, "@" + index.text());
}

}  // namespace

Result<std::unique_ptr<Release>> Release::open(const SourceName& name, ReleaseOptions options,
                                               std::shared_ptr<Cache> cache) {
  auto release = std::unique_ptr<Release>(new Release());
  release->m_options = std::move(options);
  if (!release->m_options.log) {
    release->m_options.log = [](const std::string&) {};
  }
  if (!release->m_options.metrics) {
    release->m_options.metrics = std::make_shared<Metrics>();
  }
  release->m_cache = std::move(cache);
  release->m_place = name.place();
  const TrustOptions& trust = release->m_options.trust;
  if (trust.keys.empty() && !trust.allow_unsigned) {
    return fail(ErrorCode::signature,
                "no public key is pinned, so nothing from " + name.place() +
                    " can be trusted: give the release's .pub file (--key, CUBINARY_KEY)");
  }
  if (release->m_options.offline && name.kind == SourceName::Kind::registry) {
    TRY(release->open_offline(name));
  } else {
    TRY(release->open_online(name));
  }
  TRY(release->check_serial(name));
  TRY(release->read_revocations(name));

  if (!release->m_options.offline || release->m_source) {
    const json::Object record{{"index", release->m_index_digest.text()},
                              {"signature", release->m_signature_digest.text()},
                              {"tag", release->m_tag}};
    const std::string text = json::to_text(record);
    const auto& pinned = release->m_options.pinned;
    for (const std::string& key :
         pinned ? std::set<std::string>{pinned_record(release->m_place, *pinned)}
                : std::set<std::string>{release_record(release->m_place, name.tag),
                                        release_record(release->m_place, release->m_tag)}) {
      if (release->m_cache->find_record(key) != text) {
        release->m_cache->put_record(key, text);
      }
    }
  }
  return release;
}

Result<std::string> Release::choose_tag(const SourceName& name) {
  TRY_ASSIGN(auto tags, m_source->tags(m_options.deadline));
  std::erase_if(tags, [](const Tag& tag) { return is_attached_tag(tag.name); });
  std::vector<std::string> names;
  for (const auto& tag : tags) {
    names.push_back(tag.name);
  }
  if (tags.empty()) {
    return fail(ErrorCode::not_found, name.place() + " holds no release");
  }
  // A release and its channel tags are one release.
  std::set<core::Digest> distinct;
  for (std::size_t i = 0; i < tags.size() && tags.size() <= k_tags_compared; ++i) {
    if (tags.size() > 1 && !tags[i].digest) {
      TRY_ASSIGN(const Document document, m_source->manifest(tags[i].name, m_options.deadline));
      tags[i].digest = document.digest;
    }
    distinct.insert(tags[i].digest.value_or(core::Digest()));
  }
  if (distinct.size() != 1) {
    return fail(ErrorCode::not_found, name.place() + " holds several releases; name one of " +
                                          joined(names) + " after the source: " + name.place() +
                                          ":" + names.front());
  }
  return names.front();
}

Result<void> Release::open_online(const SourceName& name) {
  TRY_ASSIGN(m_source, open_source(name, {.token = m_options.token}));
  TRY_ASSIGN(const Document index, find_index(name));
  if (!m_options.trust.keys.empty()) {
    const Spent spent(*m_options.metrics, Phase::signature);
    TRY_ASSIGN(const auto signature, find_signature());
    if (signature) {
      m_signature_digest = *signature;
    } else if (!m_options.trust.allow_unsigned) {
      return fail(ErrorCode::signature,
                  "release \"" + m_tag + "\" in " + m_place + " is not signed (no tag " +
                      oci::signature_tag(m_index_digest) +
                      "): sign it (cubinary release sign), or copy its signature tag too");
    }
  }
  keep_document(m_index_digest, index.bytes);
  return {};
}

Result<Document> Release::find_index(const SourceName& name) {
  const Spent spent(*m_options.metrics, Phase::index);
  if (m_options.pinned) {
    m_tag = name.tag.empty() ? m_options.pinned->text() : name.tag;
    auto document = m_source->manifest(m_options.pinned->text(), m_options.deadline);
    if (!document) {
      return fail(document.error().with_context("the pinned release"));
    }
    m_index_digest = document->digest;
    TRY(read_index(document->bytes));
    return *std::move(document);
  }
  m_tag = name.tag;
  if (m_tag.empty()) {
    TRY_ASSIGN(m_tag, choose_tag(name));
  }
  auto document = m_source->manifest(m_tag, m_options.deadline);
  if (!document && document.error().code == ErrorCode::not_found) {
    std::vector<std::string> names;
    if (const auto tags = m_source->tags(m_options.deadline)) {
      for (const auto& tag : *tags) {
        if (!is_attached_tag(tag.name)) {
          names.push_back(tag.name);
        }
      }
    }
    // A tag that is there but leads to nothing: a copy that broke off, not a misspelt name.
    if (std::ranges::find(names, m_tag) != names.end()) {
      return fail(document.error());
    }
    return fail(ErrorCode::not_found,
                "no release \"" + m_tag + "\" in " + name.place() +
                    (names.empty() ? std::string() : "; there are " + joined(names)) +
                    core::did_you_mean(m_tag, names));
  }
  if (!document) {
    return fail(std::move(document).error());
  }
  m_index_digest = document->digest;
  TRY(read_index(document->bytes));
  return *std::move(document);
}

Result<std::optional<core::Digest>> Release::find_signature() {
  auto manifest = m_source->manifest(oci::signature_tag(m_index_digest), m_options.deadline);
  if (manifest) {
    TRY(check_signature(manifest->digest, manifest->bytes));
    return std::optional(manifest->digest);
  }
  if (manifest.error().code != ErrorCode::not_found) {
    return fail(std::move(manifest).error());
  }
  TRY_ASSIGN(const auto referrers, m_source->referrers(m_index_digest, m_options.deadline));
  std::optional<core::Error> refused;
  for (const auto& referrer : referrers) {
    if (referrer.media_type != oci::k_manifest_type) {
      continue;
    }
    TRY_ASSIGN(const Document document,
               m_source->manifest(referrer.digest.text(), m_options.deadline));
    const auto parsed = oci::manifest_from_json(core::as_text(document.bytes));
    if (!parsed || parsed->artifact_type != oci::k_signature_artifact_type) {
      continue;
    }
    if (auto checked = check_signature(document.digest, document.bytes)) {
      return std::optional(document.digest);
    } else {
      refused = checked.error();
    }
  }
  if (refused) {
    return fail(*std::move(refused));
  }
  return std::optional<core::Digest>();
}

Result<void> Release::check_signature(const core::Digest& manifest_digest,
                                      core::ByteView manifest) {
  const auto place = "release \"" + m_tag + "\" in " + m_place;
  TRY_ASSIGN(const oci::Manifest parsed, oci::manifest_from_json(core::as_text(manifest)));
  if (parsed.artifact_type != oci::k_signature_artifact_type || parsed.layers.size() != 1 ||
      parsed.layers[0].media_type != oci::k_dsse_type ||
      parsed.layers[0].size > oci::k_max_document_bytes) {
    return fail(ErrorCode::signature, place + ": what is attached as its signature is none");
  }
  if (parsed.subject && parsed.subject->digest != m_index_digest) {
    return fail(ErrorCode::signature, place + ": the signature is attached to another release");
  }
  const oci::Descriptor& layer = parsed.layers[0];
  TRY_ASSIGN(const core::Bytes envelope,
             document(layer.digest, oci::k_max_document_bytes, layer.size, m_options.deadline));
  auto verified = core::dsse_verify(core::as_text(envelope), m_options.trust.keys);
  if (!verified) {
    return fail(verified.error().with_context(place));
  }
  if (verified->payload_type != core::k_statement_payload_type) {
    return fail(ErrorCode::signature, place + ": the signed payload is of type \"" +
                                          verified->payload_type + "\", not a release statement");
  }
  TRY_ASSIGN(core::ReleaseStatement statement, core::statement_from_json(verified->payload));
  if (statement.index != m_index_digest) {
    return fail(ErrorCode::signature, place + ": the signature is for index " +
                                          statement.index.text() + ", but the release's index is " +
                                          m_index_digest.text());
  }
  if (statement.expires != 0 && statement.expires <= std::time(nullptr) &&
      !m_options.trust.allow_expired) {
    return fail(ErrorCode::expired, place + " expired on " + date_text(statement.expires) +
                                        ": use a newer release, or have it signed again");
  }
  keep_document(manifest_digest, manifest);
  m_key_id = verified->key_id;
  m_statement = std::move(statement);
  return {};
}

Result<void> Release::open_offline(const SourceName& name) {
  const auto missing = [&](std::string_view what) {
    return fail(ErrorCode::not_found, "offline, and the cache " + m_cache->directory().string() +
                                          " has no " + std::string(what) + " of " + name.place() +
                                          (name.tag.empty() ? "" : ":" + name.tag) +
                                          ": fetch it once with the network (cubinary-fetch)");
  };
  auto text = m_cache->find_record(release_record(m_place, name.tag));
  if (m_options.pinned && (!text || text->find(m_options.pinned->text()) == std::string::npos)) {
    text = m_cache->find_record(pinned_record(m_place, *m_options.pinned));
  }
  if (!text) {
    return missing("record");
  }
  TRY_ASSIGN(const auto value, json::parse(*text));
  const json::Node record(value, "the cache's record of the release");
  TRY_ASSIGN(const std::string index_text, record.text("index"));
  TRY_ASSIGN(const std::string signature_text, record.text("signature"));
  TRY_ASSIGN(m_tag, record.text("tag"));
  TRY_ASSIGN(m_index_digest, core::Digest::parse(index_text));
  if (m_options.pinned && m_index_digest != *m_options.pinned) {
    return missing("record of the pinned release");
  }
  TRY_ASSIGN(m_signature_digest, core::Digest::parse(signature_text));

  const auto index = m_cache->find(Cache::Kind::blob, m_index_digest, oci::k_max_document_bytes);
  if (!index) {
    return missing("index");
  }
  TRY(read_index(*index));
  if (m_options.trust.keys.empty() ||
      (m_signature_digest.is_zero() && m_options.trust.allow_unsigned)) {
    return {};
  }
  const auto manifest =
      m_cache->find(Cache::Kind::blob, m_signature_digest, oci::k_max_document_bytes);
  if (!manifest) {
    return missing("signature");
  }
  return check_signature(m_signature_digest, *manifest);
}

Result<void> Release::read_index(core::ByteView bytes) {
  auto index = oci::index_from_json(core::as_text(bytes));
  if (!index) {
    return fail(index.error().with_context("release \"" + m_tag + "\" in " + m_place));
  }
  m_index = *std::move(index);
  std::vector<std::pair<core::Target, std::size_t>> found;
  for (std::size_t i = 0; i < m_index.manifests.size(); ++i) {
    const auto& annotations = m_index.manifests[i].annotations;
    const auto named = annotations.find(std::string(oci::k_target_annotation));
    if (named == annotations.end()) {
      continue;
    }
    // A target this version does not know cannot be of use to it.
    if (const auto target = core::Target::parse(named->second)) {
      found.emplace_back(*target, i);
    }
  }
  std::sort(found.begin(), found.end());
  for (const auto& [target, at] : found) {
    if (!m_targets.empty() && m_targets.back() == target) {
      return fail(ErrorCode::corrupt, "release \"" + m_tag + "\" in " + m_place + " names target " +
                                          target.text() + " twice");
    }
    m_targets.push_back(target);
    m_target_manifests.push_back(at);
  }
  return {};
}

Result<void> Release::check_serial(const SourceName& name) {
  if (!m_statement || !m_options.trust.remember_serial || m_options.pinned) {
    return {};
  }
  const std::string key = "serial " + m_key_id + " " + name.repository + " " + m_tag;
  auto lock = m_cache->lock(core::sha256(key), m_options.deadline);
  if (const auto text = m_cache->find_record(key)) {
    std::int64_t seen = 0;
    if (const auto value = json::parse(*text)) {
      const json::Node record(*value, "record");
      seen =
          record.integer_or("serial", 0, std::numeric_limits<std::int64_t>::max(), 0).value_or(0);
    } else {
      m_options.log("the record " + m_cache->record_path(key).string() +
                    " is damaged: the release's serial cannot be compared with it");
    }
    const auto serial = static_cast<std::int64_t>(m_statement->serial);
    if (serial < seen) {
      return fail(ErrorCode::rollback,
                  "release \"" + m_tag + "\" in " + m_place + " has serial " +
                      std::to_string(serial) + " (" + m_statement->name + "), but serial " +
                      std::to_string(seen) +
                      " was seen there before: somebody moved it back to an older release. If "
                      "that is meant, remove " +
                      m_cache->record_path(key).string());
    }
    if (serial == seen) {
      return {};
    }
  }
  m_cache->put_record(key, json::to_text(json::Object{{"index", m_index_digest.text()},
                                                      {"key", m_key_id},
                                                      {"release", m_statement->name},
                                                      {"repository", name.repository},
                                                      {"serial", m_statement->serial},
                                                      {"tag", m_tag}}));
  m_cache->unlock_after_writes(std::move(lock));
  return {};
}

Result<void> Release::read_revocations(const SourceName& name) {
  if (m_options.trust.keys.empty()) {
    return {};  // nothing could vouch for a list
  }
  TRY_ASSIGN(m_revoked, load_revocations(*m_cache, {.source = m_source.get(),
                                                    .name = name,
                                                    .keys = m_options.trust.keys,
                                                    .deadline = m_options.deadline,
                                                    .log = m_options.log}));
  return check_revoked(m_index_digest, "release \"" + m_tag + "\" in " + m_place);
}

Result<void> Release::check_revoked(const core::Digest& digest, std::string_view what) const {
  const auto found = m_revoked.find(digest);
  if (found == m_revoked.end()) {
    return {};
  }
  return fail(ErrorCode::revoked, std::string(what) + " is revoked (" + digest.text() + ")" +
                                      (found->second.empty() ? "" : ": " + found->second) +
                                      "; use another release");
}

TargetTables::Filter Release::drop_revoked(const std::string& where) const {
  if (m_revoked.empty()) {
    return {};
  }
  return [revoked = m_revoked, log = m_options.log, where](core::KernelTable& table) {
    const bool whole = revoked.contains(table.pack);
    const std::size_t dropped = std::erase_if(table.entries, [&](const core::TableEntry& entry) {
      return whole || revoked.contains(entry.artifact);
    });
    if (dropped != 0) {
      log(where + ", kernel " + table.name + ": " + std::to_string(dropped) +
          (dropped == 1 ? " entry uses" : " entries use") + " revoked code and count as not there");
    }
  };
}

void Release::keep_document(const core::Digest& digest, core::ByteView bytes) {
  // Reading it costs less than writing it at every start, and a damaged one is noticed.
  if (!m_cache->find_shared(Cache::Kind::blob, digest, oci::k_max_document_bytes)) {
    m_cache->put(Cache::Kind::blob, digest, bytes);
  }
}

Result<core::Bytes> Release::document(const core::Digest& digest, std::uint64_t max_bytes,
                                      std::optional<std::uint64_t> size, Deadline deadline) {
  if (auto cached = m_cache->find(Cache::Kind::blob, digest, max_bytes)) {
    return *std::move(cached);
  }
  if (!m_source) {
    return fail(ErrorCode::not_found, "offline, and the cache " + m_cache->directory().string() +
                                          " does not hold " + digest.text() + " of release \"" +
                                          m_tag +
                                          "\": fetch it once with the network "
                                          "(cubinary-fetch)");
  }
  core::Bytes bytes;
  if (size) {
    TRY_ASSIGN(bytes, m_source->blob(digest, *size, deadline));
  } else {
    TRY_ASSIGN(Document fetched, m_source->manifest(digest.text(), deadline));
    bytes = std::move(fetched.bytes);
  }
  m_cache->put(Cache::Kind::blob, digest, bytes);
  return bytes;
}

Result<oci::Manifest> Release::target_manifest(const core::Target& target, Deadline deadline) {
  const auto at = std::find(m_targets.begin(), m_targets.end(), target);
  if (at == m_targets.end()) {
    return fail(ErrorCode::no_match, "release " + name() + " has no target " + target.text());
  }
  const oci::Descriptor& descriptor =
      m_index.manifests[m_target_manifests[static_cast<std::size_t>(at - m_targets.begin())]];
  const std::string where = "release " + name() + ", target " + target.text();
  TRY(check_revoked(descriptor.digest, where));
  const auto bad = [&](std::string_view why) {
    return fail(ErrorCode::corrupt, where + ": " + std::string(why));
  };

  TRY_ASSIGN(const core::Bytes manifest_bytes,
             document(descriptor.digest, oci::k_max_document_bytes, std::nullopt, deadline));
  if (manifest_bytes.size() != descriptor.size) {
    return bad("its manifest has another size than the index says");
  }
  auto manifest = oci::manifest_from_json(core::as_text(manifest_bytes));
  if (!manifest) {
    return fail(manifest.error().with_context(where));
  }
  if (manifest->artifact_type != oci::k_release_artifact_type ||
      manifest->config.media_type != oci::k_catalogue_type) {
    return fail(ErrorCode::newer_format, where + ": artifact type \"" + manifest->artifact_type +
                                             "\" with config \"" + manifest->config.media_type +
                                             "\" is not one this version reads");
  }
  return *std::move(manifest);
}

std::shared_ptr<const TargetTables> Release::find_tables(const core::Target& target) {
  const std::lock_guard lock(m_mutex);
  const auto found = m_tables.find(target);
  return found == m_tables.end() ? nullptr : found->second;
}

std::vector<core::Target> Release::opened_targets() {
  std::vector<core::Target> targets;
  const std::lock_guard lock(m_mutex);
  for (const auto& [target, tables] : m_tables) {
    targets.push_back(target);
  }
  return targets;
}

Result<std::shared_ptr<const TargetTables>> Release::tables(const core::Target& target,
                                                            Deadline deadline) {
  if (auto found = find_tables(target)) {
    return found;
  }
  // One thread reads it, others wait for what it makes of it.
  const auto gate = gate_of(core::sha256("catalogue " + target.text()));
  const std::lock_guard inside(*gate);
  if (auto found = find_tables(target)) {
    return found;
  }
  const Spent spent(*m_options.metrics, Phase::catalogue);
  TRY_ASSIGN(auto read, read_tables(target, deadline));
  const std::lock_guard lock(m_mutex);
  return m_tables.emplace(target, std::move(read)).first->second;
}

Result<std::shared_ptr<const TargetTables>> Release::read_tables(const core::Target& target,
                                                                 Deadline deadline) {
  const std::string where = "release " + name() + ", target " + target.text();
  const auto bad = [&](std::string_view why) {
    return fail(ErrorCode::corrupt, where + ": " + std::string(why));
  };
  const auto manifest = target_manifest(target, deadline);
  if (!manifest) {
    return fail(manifest.error());
  }
  if (manifest->config.size > oci::k_max_catalogue_bytes) {
    return fail(ErrorCode::too_large,
                where + ": its catalogue has " + std::to_string(manifest->config.size) + " bytes");
  }
  TRY(check_revoked(manifest->config.digest, where));
  TRY_ASSIGN(core::Bytes bytes, document(manifest->config.digest, manifest->config.size,
                                         manifest->config.size, deadline));
  auto catalogue = core::CatalogueReader::open(std::move(bytes));
  if (!catalogue) {
    return fail(catalogue.error().with_context(where));
  }
  if (catalogue->target() != target) {
    return bad("its catalogue is for " + catalogue->target().text());
  }
  if (m_statement && catalogue->release() != m_statement->name) {
    return bad("its catalogue is of release " + catalogue->release());
  }
  for (const auto& kernel : catalogue->kernels()) {
    const bool shipped =
        kernel.empty ||
        std::any_of(manifest->layers.begin(), manifest->layers.end(), [&](const auto& layer) {
          return layer.digest == kernel.pack && layer.size == kernel.pack_size &&
                 layer.media_type == oci::k_pack_type;
        });
    if (!shipped) {
      return bad("the pack of kernel " + kernel.name + " is not among its layers");
    }
  }
  return std::make_shared<const TargetTables>(*std::move(catalogue), where, drop_revoked(where));
}

}  // namespace cubinary::client
