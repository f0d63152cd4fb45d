// SPDX-License-Identifier: Apache-2.0
#include "client/layout_source.hpp"

#include <utility>

#include "core/base/file.hpp"
#include "core/base/json.hpp"

namespace cubinary::client {
namespace {

using core::ErrorCode;
using core::fail;
using core::Result;

constexpr std::string_view k_ref_annotation = "org.opencontainers.image.ref.name";

class LayoutSource final : public Source {
 public:
  explicit LayoutSource(std::filesystem::path directory) : m_directory(std::move(directory)) {}

  // Read leniently: other tools write this file, with and without a media type. What it points to
  // is checked by digest and signature.
  Result<std::vector<Tag>> tags(Deadline) override {
    const auto path = m_directory / "index.json";
    TRY_ASSIGN(const std::string text, core::read_text_file(path, core::oci::k_max_document_bytes));
    auto json = core::json::parse(text);
    if (!json) {
      return fail(json.error().with_context(path.string()));
    }
    const core::json::Node top(*json, path.string());
    TRY_ASSIGN(const auto list, top.at("manifests"));
    TRY_ASSIGN(const auto descriptors, list.elements());
    std::vector<Tag> result;
    for (const auto& descriptor : descriptors) {
      TRY_ASSIGN(const auto annotations, descriptor.find("annotations"));
      if (!annotations.exists()) {
        continue;
      }
      TRY_ASSIGN(std::string name, annotations.text_or(k_ref_annotation, ""));
      if (name.empty()) {
        continue;
      }
      TRY_ASSIGN(const std::string digest_text, descriptor.text("digest"));
      TRY_ASSIGN(const core::Digest digest, core::Digest::parse(digest_text));
      result.push_back({std::move(name), digest});
    }
    return result;
  }

  Result<Document> manifest(std::string_view reference, Deadline deadline) override {
    if (const auto digest = core::Digest::parse(reference)) {
      return document(*digest);
    }
    TRY_ASSIGN(const auto known, tags(deadline));
    for (const auto& tag : known) {
      if (tag.name == reference) {
        return document(*tag.digest);
      }
    }
    return fail(ErrorCode::not_found,
                "no tag \"" + std::string(reference) + "\" in the layout " + m_directory.string());
  }

  Result<core::Bytes> blob(const core::Digest& digest, std::uint64_t size, Deadline) override {
    TRY_ASSIGN(core::Bytes bytes, core::read_file(path_of(digest), size));
    if (bytes.size() != size || core::sha256(bytes) != digest) {
      return fail(damaged(digest));
    }
    return bytes;
  }

  Result<std::vector<core::oci::Descriptor>> referrers(const core::Digest&, Deadline) override {
    return std::vector<core::oci::Descriptor>{};
  }

 private:
  [[nodiscard]] std::filesystem::path path_of(const core::Digest& digest) const {
    return m_directory / "blobs" / "sha256" / digest.hex();
  }
  [[nodiscard]] core::Error damaged(const core::Digest& digest) const {
    return {ErrorCode::corrupt, path_of(digest).string() +
                                    " does not have the digest it is named by: copy the layout "
                                    "again"};
  }
  Result<Document> document(const core::Digest& digest) const {
    TRY_ASSIGN(core::Bytes bytes,
               core::read_file(path_of(digest), core::oci::k_max_document_bytes));
    if (core::sha256(bytes) != digest) {
      return fail(damaged(digest));
    }
    return Document{std::move(bytes), digest};
  }
  std::filesystem::path m_directory;
};

}  // namespace

Result<std::unique_ptr<Source>> open_layout_source(const std::filesystem::path& directory) {
  std::error_code error;
  if (!std::filesystem::is_directory(directory, error)) {
    return fail(ErrorCode::not_found, "no folder " + directory.string() +
                                          ": name an OCI layout (cubinary export writes one) or a "
                                          "server's URL");
  }
  if (!std::filesystem::exists(directory / "oci-layout", error)) {
    return fail(ErrorCode::not_found,
                directory.string() +
                    " is no OCI layout (it has no file oci-layout): cubinary export writes one");
  }
  return std::make_unique<LayoutSource>(directory);
}

}  // namespace cubinary::client
