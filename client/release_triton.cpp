// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "client/release.hpp"
#include "core/wire/codec.hpp"

namespace cubinary::client {

using core::ErrorCode;
using core::fail;
using core::Result;

Result<std::shared_ptr<const core::TritonCatalogue>> Release::triton(const core::Target& target,
                                                                     Deadline deadline) {
  TRY_ASSIGN(const core::oci::Manifest manifest, target_manifest(target, deadline));
  const auto is_catalogue = [](const core::oci::Descriptor& layer) {
    return layer.media_type == core::k_triton_catalogue_type;
  };
  const auto layer = std::ranges::find_if(manifest.layers, is_catalogue);
  if (layer == manifest.layers.end()) {
    return std::shared_ptr<const core::TritonCatalogue>();
  }
  const std::string where = "release " + name() + ", Triton on " + target.text();
  const auto bad = [&](const std::string& why) {
    return fail(ErrorCode::corrupt, where + ": " + why);
  };
  if (layer->size > core::k_max_triton_catalogue_bytes) {
    return fail(ErrorCode::too_large,
                where + ": its catalogue has " + std::to_string(layer->size) + " bytes");
  }
  TRY_ASSIGN(const core::Bytes bytes, document(layer->digest, layer->size, layer->size, deadline));
  auto catalogue = core::triton_catalogue_from_json(core::as_text(bytes));
  if (!catalogue) {
    return fail(catalogue.error().with_context(where));
  }
  if (catalogue->target != target) {
    return bad("its catalogue is for " + catalogue->target.text());
  }
  if (m_statement && catalogue->release != m_statement->name) {
    return bad("its catalogue is of release " + catalogue->release);
  }
  std::map<core::Digest, std::uint64_t> packs;
  for (const core::oci::Descriptor& other : manifest.layers) {
    if (other.media_type == core::k_triton_pack_type) {
      packs.emplace(other.digest, other.size);
    }
  }
  for (const core::TritonPack& pack : catalogue->packs) {
    const auto shipped = packs.find(pack.digest);
    if (shipped == packs.end() || shipped->second != pack.size) {
      return bad("pack " + pack.digest.text() + " is not among its layers");
    }
  }
  return std::make_shared<const core::TritonCatalogue>(*std::move(catalogue));
}

Result<core::Bytes> Release::triton_pack(const core::TritonPack& pack, Deadline deadline) {
  const std::string where = "release " + name() + ", Triton pack " + pack.digest.text();
  TRY(check_revoked(pack.digest, where));
  if (!m_source) {
    return fail(ErrorCode::not_found, where +
                                          ": offline, and packs of Triton are kept nowhere but "
                                          "in the folders laid down from them");
  }
  TRY_ASSIGN(const core::Bytes frame, m_source->blob(pack.digest, pack.size, deadline));
  auto raw = core::decompress(frame, {.max_bytes = pack.raw_size, .dictionary = {}, .prefix = {}});
  if (!raw) {
    return fail(raw.error().with_context(where));
  }
  if (raw->size() != pack.raw_size) {
    return fail(ErrorCode::corrupt, where + " unpacks to " + std::to_string(raw->size()) +
                                        " bytes, not the " + std::to_string(pack.raw_size) +
                                        " of the catalogue");
  }
  std::uint64_t offset = 0;
  for (const core::TritonPack::File& file : pack.files) {
    if (core::sha256(core::ByteView(*raw).subspan(offset, file.size)) != file.digest) {
      return fail(ErrorCode::corrupt,
                  where + ": file " + file.digest.hex() + " does not have its digest");
    }
    offset += file.size;
  }
  return raw;
}

}  // namespace cubinary::client
