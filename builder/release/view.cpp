// SPDX-License-Identifier: Apache-2.0
#include "builder/release/view.hpp"

#include <algorithm>
#include <set>

#include "builder/release/release.hpp"
#include "core/base/json.hpp"

namespace cubinary::builder {
namespace {

namespace json = core::json;
namespace oci = core::oci;
using core::Result;

Result<oci::Index> read_index(const ReadBlob& read, const core::Digest& digest) {
  TRY_ASSIGN(const core::Bytes text, read(digest, oci::k_max_document_bytes));
  return oci::index_from_json(core::as_text(text));
}

Result<oci::Manifest> read_manifest(const ReadBlob& read, const core::Digest& digest) {
  TRY_ASSIGN(const core::Bytes text, read(digest, oci::k_max_document_bytes));
  return oci::manifest_from_json(core::as_text(text));
}

}  // namespace

ReadBlob blobs_of(const store::Reader& reader) {
  return [&reader](const core::Digest& digest, std::uint64_t max_bytes) {
    return store::read_blob(reader, digest, max_bytes);
  };
}

Result<ReleaseSummary> summarise(const store::Reader& reader, const store::Release& release) {
  ReleaseSummary summary{release, {}, 0, 0};
  TRY_ASSIGN(summary.channels, channels_of(reader, release));
  TRY_ASSIGN(const auto blobs, store::release_blobs(reader, release.id));
  for (const store::BlobInfo& blob : blobs) {
    summary.bytes += blob.size;
  }
  std::set<std::string> kernels;
  const ReadBlob read = blobs_of(reader);
  TRY_ASSIGN(const oci::Index index, read_index(read, release.index));
  for (const oci::Descriptor& descriptor : index.manifests) {
    TRY_ASSIGN(const oci::Manifest manifest, read_manifest(read, descriptor.digest));
    for (const oci::Descriptor& layer : manifest.layers) {
      const auto kernel = layer.annotations.find(std::string(oci::k_kernel_annotation));
      if (kernel != layer.annotations.end()) {
        kernels.insert(kernel->second);
      }
    }
  }
  summary.kernels = kernels.size();
  return summary;
}

Result<std::vector<ReleaseSummary>> summarise_all(const store::Reader& reader) {
  TRY_ASSIGN(auto releases, store::list_releases(reader));
  std::sort(releases.begin(), releases.end(),
            [](const auto& a, const auto& b) { return a.serial < b.serial; });
  std::vector<ReleaseSummary> summaries;
  for (const store::Release& release : releases) {
    TRY_ASSIGN(ReleaseSummary summary, summarise(reader, release));
    summaries.push_back(std::move(summary));
  }
  return summaries;
}

Result<void> for_each_target(const ReadBlob& read, const core::Digest& index_digest,
                             const std::function<Result<void>(const ReleasedTarget&)>& visit) {
  TRY_ASSIGN(const oci::Index index, read_index(read, index_digest));
  for (const oci::Descriptor& descriptor : index.manifests) {
    TRY_ASSIGN(oci::Manifest manifest, read_manifest(read, descriptor.digest));
    TRY_ASSIGN(const core::Bytes text, read(manifest.config.digest, oci::k_max_catalogue_bytes));
    TRY_ASSIGN(core::Catalogue catalogue, core::catalogue_from_json(core::as_text(text)));
    ReleasedTarget target{descriptor.digest, std::move(manifest), std::move(catalogue), {}};
    for (const oci::Descriptor& layer : target.manifest.layers) {
      if (layer.media_type == core::k_triton_catalogue_type) {
        TRY_ASSIGN(const core::Bytes part, read(layer.digest, core::k_max_triton_catalogue_bytes));
        TRY_ASSIGN(target.triton, core::triton_catalogue_from_json(core::as_text(part)));
      }
    }
    TRY(visit(target));
  }
  return {};
}

Result<void> for_each_target(const store::Reader& reader, const store::Release& release,
                             const std::function<Result<void>(const ReleasedTarget&)>& visit) {
  return for_each_target(blobs_of(reader), release.index, visit);
}

Result<std::vector<std::string>> signing_keys(const store::Reader& reader,
                                              const store::Release& release) {
  std::vector<std::string> keys;
  if (!release.signature_manifest) {
    return keys;
  }
  TRY_ASSIGN(const oci::Manifest manifest,
             read_manifest(blobs_of(reader), *release.signature_manifest));
  for (const oci::Descriptor& layer : manifest.layers) {
    TRY_ASSIGN(const core::Bytes envelope,
               store::read_blob(reader, layer.digest, oci::k_max_document_bytes));
    TRY_ASSIGN(const json::Value value, json::parse(core::as_text(envelope)));
    const json::Node top(value, "the signature's envelope");
    TRY_ASSIGN(const json::Node signatures, top.at("signatures"));
    TRY_ASSIGN(const auto nodes, signatures.elements());
    for (const json::Node& node : nodes) {
      TRY_ASSIGN(std::string key, node.text("keyid"));
      keys.push_back(std::move(key));
    }
  }
  return keys;
}

}  // namespace cubinary::builder
