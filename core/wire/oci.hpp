// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/digest.hpp"
#include "core/base/result.hpp"

/// The OCI image-spec 1.1 documents a release is made of. Only what survives every common registry
/// tool byte for byte is used: an index holds `schemaVersion mediaType manifests`, descriptors hold
/// `mediaType digest size annotations`, and all JSON is compact.
namespace cubinary::core::oci {

inline constexpr std::string_view k_index_type = "application/vnd.oci.image.index.v1+json";
inline constexpr std::string_view k_manifest_type = "application/vnd.oci.image.manifest.v1+json";
inline constexpr std::string_view k_empty_type = "application/vnd.oci.empty.v1+json";
inline constexpr std::string_view k_release_artifact_type = "application/vnd.cubinary.release.v1";
inline constexpr std::string_view k_signature_artifact_type =
    "application/vnd.cubinary.signature.v1";
inline constexpr std::string_view k_catalogue_type = "application/vnd.cubinary.catalogue.v1+json";
inline constexpr std::string_view k_pack_type = "application/vnd.cubinary.pack.v1+zstd";
inline constexpr std::string_view k_dsse_type = "application/vnd.dsse.envelope.v1+json";

/// Annotation on an index's descriptors: the target its manifest is for.
inline constexpr std::string_view k_target_annotation = "dev.cubinary.target";
/// Annotation on a pack layer: the kernel's name.
inline constexpr std::string_view k_kernel_annotation = "dev.cubinary.kernel";

/// Bounds a reader enforces before it parses.
inline constexpr std::uint64_t k_max_document_bytes = 4U << 20U;  ///< index, manifest, envelope
inline constexpr std::uint64_t k_max_catalogue_bytes = 256U << 20U;

struct Descriptor {
  std::string media_type;
  Digest digest;
  std::uint64_t size = 0;
  std::map<std::string, std::string> annotations;
};

struct Index {
  std::vector<Descriptor> manifests;
};

struct Manifest {
  std::string artifact_type;
  Descriptor config;
  std::vector<Descriptor> layers;
  std::optional<Descriptor> subject;
  std::map<std::string, std::string> annotations;
};

[[nodiscard]] std::string to_json(const Index& index);
[[nodiscard]] std::string to_json(const Manifest& manifest);
/// Errors are `corrupt`; a manifest where an index is asked for says "one target's manifest, not a
/// release" and names the copy option that keeps all (`--all`).
[[nodiscard]] Result<Index> index_from_json(std::string_view json);
[[nodiscard]] Result<Manifest> manifest_from_json(std::string_view json);

/// Whether `text` follows the distribution-spec tag grammar `[a-zA-Z0-9_][a-zA-Z0-9._-]{0,127}`.
[[nodiscard]] bool is_tag(std::string_view text);
/// Whether `text` follows the repository-name grammar (lower-case path components), at most 255
/// long.
[[nodiscard]] bool is_repository(std::string_view text);
/// `sha256-<hex>`: the tag a signature is attached under.
[[nodiscard]] std::string signature_tag(const Digest& index);

}  // namespace cubinary::core::oci
