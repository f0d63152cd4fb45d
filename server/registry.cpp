// SPDX-License-Identifier: Apache-2.0
#include "server/registry.hpp"

#include <algorithm>
#include <charconv>
#include <utility>

#include "core/base/json.hpp"
#include "core/base/nearest.hpp"
#include "core/wire/oci.hpp"
#include "store/releases.hpp"

namespace cubinary::server {
namespace {

using core::Digest;
using core::Result;
namespace json = core::json;
namespace oci = core::oci;

constexpr std::size_t k_max_page = 1000;
constexpr std::string_view k_immutable = "max-age=31536000, immutable";
/// A moved tag must be seen soon; a burst of clients may share one look.
constexpr std::string_view k_brief = "max-age=5";

Response missing(std::string_view code, const std::string& message) {
  return error_response(404, code, message);
}

bool is_manifest_type(std::string_view media_type) {
  return media_type == oci::k_index_type || media_type == oci::k_manifest_type;
}

/// Headers every answer about immutable content has.
void describe_content(Response& response, const Digest& digest, std::string_view cache_control) {
  response.etag = '"' + digest.text() + '"';
  response.headers.emplace_back("Docker-Content-Digest", digest.text());
  response.headers.emplace_back("Cache-Control", cache_control);
}

/// A body that is sent from memory the cache shares.
void send_cached(Response& response, std::shared_ptr<const CachedBlob> blob) {
  response.length = blob->bytes().size();
  response.blob = std::move(blob);
}

/// Percent-encodes what a tag cannot hold, for a query in a Link header.
std::string encode_query(std::string_view text) {
  constexpr std::string_view k_hex = "0123456789ABCDEF";
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                       c == '-' || c == '.' || c == '_' || c == '~';
    if (plain) {
      out += c;
    } else {
      out += '%';
      out += k_hex[byte >> 4U];
      out += k_hex[byte & 15U];
    }
  }
  return out;
}

}  // namespace

Result<Response> Registry::answer(const Request& request, const RouteMatch& match) const {
  Response response;
  if (match.route == Route::api_blob) {
    return blob(request, match.reference);
  }
  if (match.route == Route::registry) {
    response.set_body("{}", "application/json");
  } else if (match.repository != m_repository) {
    response = missing("NAME_UNKNOWN", "there is no repository \"" + std::string(match.repository) +
                                           "\" here, only \"" + m_repository + "\"");
  } else if (match.route == Route::manifest) {
    TRY_ASSIGN(response, manifest(match.reference));
  } else if (match.route == Route::blob) {
    TRY_ASSIGN(response, blob(request, match.reference));
  } else if (match.route == Route::tags) {
    TRY_ASSIGN(response, tags(request));
  } else {
    TRY_ASSIGN(response, referrers(request, match.reference));
  }
  response.headers.emplace_back("Docker-Distribution-API-Version", "registry/2.0");
  return response;
}

bool Registry::holds(const RouteMatch& match) const {
  const bool ours = match.route == Route::api_blob ||
                    ((match.route == Route::blob || match.route == Route::manifest) &&
                     match.repository == m_repository);
  if (!ours || !match.reference.starts_with("sha256:")) {
    return false;
  }
  const auto digest = Digest::parse(match.reference);
  return digest && m_cache->holds(*digest);
}

Result<std::shared_ptr<const CachedBlob>> Registry::load(const Digest& digest,
                                                         std::uint64_t max_bytes) const {
  if (auto cached = m_cache->find(digest)) {
    return cached;
  }
  TRY_ASSIGN(const store::Reader reader, m_store->reader());
  TRY_ASSIGN(const std::optional<store::BlobInfo> info, store::find_blob(reader, digest));
  if (!info) {
    return nullptr;
  }
  TRY_ASSIGN(const core::Bytes bytes, store::read_blob(reader, digest, max_bytes));
  return m_cache->keep(digest, info->media_type, bytes);
}

Result<Response> Registry::manifest(std::string_view reference) const {
  Digest digest;
  const bool by_digest = reference.find(':') != std::string_view::npos;
  if (by_digest) {
    const auto parsed = Digest::parse(reference);
    if (!parsed) {
      return error_response(400, "DIGEST_INVALID", parsed.error().message);
    }
    digest = *parsed;
  } else {
    const std::string name(reference);
    if (!oci::is_tag(reference)) {
      return missing("MANIFEST_UNKNOWN", "\"" + name + "\" is neither a tag nor a digest");
    }
    TRY_ASSIGN(const store::Reader reader, m_store->reader());
    TRY_ASSIGN(const std::optional<store::Tag> tag, store::find_tag(reader, name));
    if (!tag) {
      TRY_ASSIGN(const std::vector<std::string> known, store::list_tags(reader, "", k_max_page));
      return missing("MANIFEST_UNKNOWN", "there is no tag \"" + name + "\" in \"" + m_repository +
                                             "\"" + core::did_you_mean(name, known));
    }
    digest = tag->manifest;
  }
  TRY_ASSIGN(auto blob, load(digest, oci::k_max_document_bytes));
  if (!blob || !is_manifest_type(blob->media_type())) {
    return missing("MANIFEST_UNKNOWN",
                   "there is no manifest " + digest.text() + " in \"" + m_repository + "\"");
  }
  Response response;
  response.content_type = blob->media_type();
  describe_content(response, digest, by_digest ? k_immutable : k_brief);
  send_cached(response, std::move(blob));
  return response;
}

Result<Response> Registry::blob(const Request& request, std::string_view text) const {
  const auto parsed = Digest::parse(text);
  if (!parsed || !text.starts_with("sha256:")) {
    return error_response(400, "DIGEST_INVALID",
                          parsed ? "a digest is written sha256:HEX" : parsed.error().message);
  }
  Response response;
  response.content_type = "application/octet-stream";
  describe_content(response, *parsed, k_immutable);
  if (auto cached = m_cache->find(*parsed)) {
    send_cached(response, std::move(cached));
    return response;
  }
  TRY_ASSIGN(const store::Reader reader, m_store->reader());
  TRY_ASSIGN(const std::optional<store::BlobInfo> info, store::find_blob(reader, *parsed));
  if (!info) {
    return missing("BLOB_UNKNOWN",
                   "there is no blob " + parsed->text() + " in \"" + m_repository + "\"");
  }
  if (request.method == "GET" && m_cache->admits(info->size)) {
    TRY_ASSIGN(const core::Bytes bytes, store::read_blob(reader, *parsed, info->size));
    send_cached(response, m_cache->keep(*parsed, info->media_type, bytes));
    return response;
  }
  response.length = info->size;
  response.reader = [store = m_store, digest = *parsed](std::uint64_t offset, std::uint64_t length,
                                                        const BodySink& sink) -> Result<void> {
    // A piece is read whole before it is sent: a slow client must not hold a read transaction,
    // which would keep the store's log from being taken in.
    constexpr std::uint64_t k_piece = 256U << 10U;
    std::string piece;
    while (length > 0) {
      const std::uint64_t take = std::min(length, k_piece);
      piece.clear();
      piece.reserve(take);
      {
        TRY_ASSIGN(const store::Reader piece_reader, store->reader());
        TRY(store::stream_blob(piece_reader, digest, offset, take, [&](core::ByteView bytes) {
          piece += core::as_text(bytes);
          return true;
        }));
      }
      if (piece.size() != take) {
        return core::fail(core::ErrorCode::corrupt, "the blob is shorter than recorded");
      }
      if (!sink(core::as_bytes(piece))) {
        return core::fail(core::ErrorCode::cancelled, "the client is gone");
      }
      offset += take;
      length -= take;
    }
    return {};
  };
  return response;
}

Result<Response> Registry::tags(const Request& request) const {
  TRY_ASSIGN(const std::string* const last, query_value(request, "last"));
  TRY_ASSIGN(const std::string* const count, query_value(request, "n"));
  std::size_t limit = k_max_page;
  if (count != nullptr) {
    const auto [end, error] = std::from_chars(count->data(), count->data() + count->size(), limit);
    if (error != std::errc() || end != count->data() + count->size()) {
      return error_response(400, "PAGINATION_NUMBER_INVALID",
                            "n must be a whole number of tags, not \"" + *count + "\"");
    }
    limit = std::min(limit, k_max_page);
  }
  TRY_ASSIGN(const store::Reader reader, m_store->reader());
  // One more than asked for tells whether there is a next page.
  TRY_ASSIGN(std::vector<std::string> names,
             store::list_tags(reader, last != nullptr ? *last : std::string(), limit + 1));
  const bool more = names.size() > limit;
  names.resize(std::min(names.size(), limit));
  Response response;
  if (more && !names.empty()) {
    response.headers.emplace_back("Link",
                                  "</v2/" + m_repository + "/tags/list?n=" + std::to_string(limit) +
                                      "&last=" + encode_query(names.back()) + ">; rel=\"next\"");
  }
  response.headers.emplace_back("Cache-Control", k_brief);
  json::Array tags(names.begin(), names.end());
  response.set_body(json::to_text(json::Object{{"name", m_repository}, {"tags", std::move(tags)}}),
                    "application/json");
  return response;
}

Result<Response> Registry::referrers(const Request& request, std::string_view text) const {
  const auto parsed = Digest::parse(text);
  if (!parsed) {
    return error_response(400, "DIGEST_INVALID", parsed.error().message);
  }
  TRY_ASSIGN(const std::string* const wanted, query_value(request, "artifactType"));
  TRY_ASSIGN(const store::Reader reader, m_store->reader());
  TRY_ASSIGN(const std::vector<store::Referrer> found, store::list_referrers(reader, *parsed));
  json::Array manifests;
  for (const store::Referrer& referrer : found) {
    if (wanted != nullptr && referrer.artifact_type != *wanted) {
      continue;
    }
    TRY_ASSIGN(const auto document, load(referrer.manifest.digest, oci::k_max_document_bytes));
    json::Object descriptor = {{"mediaType", referrer.manifest.media_type},
                               {"digest", referrer.manifest.digest.text()},
                               {"size", referrer.manifest.size},
                               {"artifactType", referrer.artifact_type}};
    if (document) {
      const auto manifest = oci::manifest_from_json(document->bytes());
      if (manifest && !manifest->annotations.empty()) {
        descriptor["annotations"] =
            json::Object(manifest->annotations.begin(), manifest->annotations.end());
      }
    }
    manifests.emplace_back(std::move(descriptor));
  }
  Response response;
  if (wanted != nullptr) {
    response.headers.emplace_back("OCI-Filters-Applied", "artifactType");
  }
  response.headers.emplace_back("Cache-Control", k_brief);
  response.set_body(json::to_text(json::Object{{"schemaVersion", 2},
                                               {"mediaType", oci::k_index_type},
                                               {"manifests", std::move(manifests)}}),
                    std::string(oci::k_index_type));
  return response;
}

}  // namespace cubinary::server
