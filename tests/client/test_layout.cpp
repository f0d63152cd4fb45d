// SPDX-License-Identifier: Apache-2.0
#include "tests/client/test_layout.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <utility>

#include "core/base/file.hpp"
#include "core/base/json.hpp"
#include "core/manifest/manifest.hpp"
#include "core/table/kernel_table.hpp"
#include "core/wire/codec.hpp"
#include "core/wire/oci.hpp"

namespace cubinary::test {
namespace {

namespace oci = core::oci;
namespace json = core::json;
using core::Result;

/// y = a * x; tuned for one class at two sizes, vectorised where pointers allow it.
constexpr std::string_view k_scale = R"toml(
manifest = 1
name = "scale"
summary = "y = a * x"
source = "scale.cu"
entry = "scale<{T}, {VEC}>"
targets = ["sm_90", "sm_120"]
types.T = ["f32", "f16"]
[axes]
n = { tune = [1024, 65536], bucket = "log2" }
[tunables]
VEC = { values = [1, 4], default = 1 }
WARPS = { values = [2, 4, 8], default = 4, as = "launch" }
[rules]
require = ["n % VEC == 0", "align(x) % (VEC * sizeof(T)) == 0", "align(y) % (VEC * sizeof(T)) == 0"]
[launch]
grid = ["ceil_div(n, 32 * WARPS * VEC)"]
block = ["32 * WARPS"]
args = [
  { name = "y", out = "T", len = "n" },
  { name = "x", in = "T", len = "n", fill = "normal(0, 1)" },
  { name = "count", scalar = "i64", is = "n" },
  { name = "a", scalar = "f32", default = 2.0 },
]
)toml";

/// Two launches, a zeroed and a plain workspace, every kind of argument and launch attribute.
constexpr std::string_view k_split = R"toml(
manifest = 1
name = "split"
summary = "two steps, every kind of argument"
source = "split.cu"
targets = ["sm_90", "sm_120"]
types.T = ["f32"]
args = [
  { name = "y", inout = "T", len = "n" },
  { name = "bias", in = "T", len = "n", nullable = true },
  { name = "config", bytes = 16 },
  { name = "tensor", handle = true },
  { name = "partial", workspace = "f32", len = "100" },
  { name = "counter", workspace = "i32", len = "4", init = "zero" },
  { name = "parts", scalar = "i32", is = "SPLIT" },
]
[axes]
n = { tune = [4096], bucket = "log2" }
[tunables]
SPLIT = { values = [4], default = 4, as = "arg" }
[[step]]
name = "first"
entry = "split_first<{T}>"
grid = ["ceil_div(n, 64)", "SPLIT"]
block = [64]
smem = "100000"
cooperative = true
args = ["y", "config", "tensor", "partial", "counter", "parts"]
[[step]]
name = "second"
entry = "split_second<{T}>"
grid = ["ceil_div(n, 128) * 2"]
block = [128]
cluster = [2, 1, 1]
args = ["y", "bias", "partial"]
)toml";

struct Code {
  std::vector<core::TableEntry> entries;
  std::map<core::Digest, core::Bytes> artifacts;
};

/// Code the recording driver takes, of a size that makes packs worth cutting into pieces.
core::Digest add_artifact(Code& code, const std::string& name, const std::string& note) {
  std::string text = "CUBIN " + name + (note.empty() ? "" : " " + note) + "\n";
  std::uint64_t state = std::hash<std::string>{}(text) | 1U;
  for (int i = 0; i < 3000; ++i) {
    state ^= state << 13U;
    state ^= state >> 7U;
    state ^= state << 17U;
    text += static_cast<char>(state & 255U);
  }
  text += '\0';
  core::Bytes bytes = core::to_bytes(text);
  const core::Digest digest = core::sha256(bytes);
  code.artifacts.emplace(digest, std::move(bytes));
  return digest;
}

core::EntrySymbol symbol(std::string name) {
  core::EntrySymbol result;
  result.symbol = std::move(name);
  result.max_threads = 1024;
  result.registers = 32;
  return result;
}

Code scale_code(const std::string& target, const std::string& note) {
  Code code;
  for (const char* dtype : {"f32", "f16"}) {
    std::map<std::int64_t, core::Digest> artifacts;
    const auto symbols = [&](std::int64_t vec) {
      return std::vector{
          symbol("scale_" + std::string(dtype) + "_" + std::to_string(vec) + "__p8_8_8_4")};
    };
    for (const std::int64_t vec : {1, 4}) {
      artifacts[vec] =
          add_artifact(code, "scale " + target + " " + dtype + " VEC=" + std::to_string(vec), note);
    }
    for (const std::int64_t vec : {4, 1}) {
      core::TableEntry entry;
      entry.types = {{"T", dtype}};
      entry.config = {{"VEC", vec}, {"WARPS", std::int64_t{4}}};
      entry.rank = vec == 4 ? 0 : 1;
      entry.artifact = artifacts[vec];
      entry.symbols = symbols(vec);
      code.entries.push_back(entry);
    }
    if (target == "sm_90") {
      core::TableEntry tuned;
      tuned.types = {{"T", dtype}};
      tuned.shape = {{"n", 1024}};
      tuned.device_class = "sm90-s132-l50M-b5120-m80G";
      tuned.config = {{"VEC", std::int64_t{4}}, {"WARPS", std::int64_t{2}}};
      tuned.origin = core::Origin::tuned;
      tuned.artifact = artifacts[4];
      tuned.symbols = symbols(4);
      tuned.time_us = 1.5;
      tuned.confidence = 0.01;
      code.entries.push_back(tuned);
      tuned.shape = {{"n", 65536}};
      tuned.config = {{"VEC", std::int64_t{4}}, {"WARPS", std::int64_t{8}}};
      tuned.time_us = 2.5;
      code.entries.push_back(tuned);
    }
  }
  return code;
}

Code split_code(const std::string& target, const std::string& note) {
  Code code;
  core::TableEntry entry;
  entry.types = {{"T", "f32"}};
  entry.config = {{"SPLIT", std::int64_t{4}}};
  entry.artifact = add_artifact(code, "split " + target, note);
  entry.symbols = {symbol("split_first__p8_16_8_8_8_4"), symbol("split_second__p8_8_8")};
  code.entries.push_back(entry);
  return code;
}

struct Blobs {
  std::filesystem::path directory;
  Result<oci::Descriptor> put(std::string_view media_type, core::ByteView bytes,
                              std::map<std::string, std::string> annotations = {}) const {
    const core::Digest digest = core::sha256(bytes);
    TRY(core::write_file_atomic(directory / "blobs" / "sha256" / digest.hex(), bytes));
    return oci::Descriptor{std::string(media_type), digest, bytes.size(), std::move(annotations)};
  }
};

/// The parsed manifest's table; a manifest of ours that does not parse is a bug.
core::KernelTable table_of(std::string_view manifest) {
  return core::table_from_manifest(core::parse_manifest(manifest, "test.toml").value());
}

Result<oci::Descriptor> write_target(const Blobs& blobs, const TestRelease& release,
                                     const std::string& name) {
  TRY_ASSIGN(const core::Target target, core::Target::parse(name));
  core::Catalogue catalogue{release.name, target, {13, 0}, release.minimum_driver, {}};
  oci::Manifest manifest;
  manifest.artifact_type = oci::k_release_artifact_type;
  for (const auto& [text, code] : {std::pair{k_scale, scale_code(name, release.note)},
                                   std::pair{k_split, split_code(name, release.note)}}) {
    core::KernelTable table = table_of(text);
    core::Bytes raw;
    std::map<core::Digest, std::uint64_t> offsets;
    for (const auto& [digest, bytes] : code.artifacts) {
      offsets[digest] = raw.size();
      raw.insert(raw.end(), bytes.begin(), bytes.end());
    }
    table.entries = code.entries;
    for (auto& entry : table.entries) {
      entry.provenance.emplace("compile_seconds", "0.25");
      entry.offset = offsets.at(entry.artifact);
      entry.size = code.artifacts.at(entry.artifact).size();
    }
    TRY_ASSIGN(const core::Bytes frame, core::compress(raw));
    TRY_ASSIGN(
        oci::Descriptor pack,
        blobs.put(oci::k_pack_type, frame, {{std::string(oci::k_kernel_annotation), table.name}}));
    table.pack = pack.digest;
    table.pack_size = pack.size;
    table.pack_raw_size = raw.size();
    manifest.layers.push_back(std::move(pack));
    catalogue.kernels.push_back(std::move(table));
  }
  TRY_ASSIGN(manifest.config,
             blobs.put(oci::k_catalogue_type, core::as_bytes(core::catalogue_to_json(catalogue))));
  return blobs.put(oci::k_manifest_type, core::as_bytes(oci::to_json(manifest)),
                   {{std::string(oci::k_target_annotation), name}});
}

Result<void> write_tags(const std::filesystem::path& directory,
                        const std::map<std::string, oci::Descriptor>& tags) {
  oci::Index index;
  if (const auto text = core::read_text_file(directory / "index.json", 1U << 20U)) {
    TRY_ASSIGN(index, oci::index_from_json(*text));
  }
  const std::string key = "org.opencontainers.image.ref.name";
  std::erase_if(index.manifests, [&](const oci::Descriptor& descriptor) {
    const auto name = descriptor.annotations.find(key);
    return name != descriptor.annotations.end() && tags.contains(name->second);
  });
  for (const auto& [name, descriptor] : tags) {
    index.manifests.push_back(descriptor);
    index.manifests.back().annotations = {{key, name}};
  }
  TRY(core::write_file_atomic(directory / "index.json", core::as_bytes(oci::to_json(index))));
  return core::write_file_atomic(directory / "oci-layout",
                                 core::as_bytes("{\"imageLayoutVersion\":\"1.0.0\"}"));
}

}  // namespace

Result<core::Digest> write_release(const std::filesystem::path& directory,
                                   const TestRelease& release,
                                   std::span<const core::PrivateKey> keys) {
  const Blobs blobs{directory};
  oci::Index index;
  for (const auto& target : release.targets) {
    TRY_ASSIGN(oci::Descriptor manifest, write_target(blobs, release, target));
    index.manifests.push_back(std::move(manifest));
  }
  TRY_ASSIGN(const oci::Descriptor top,
             blobs.put(oci::k_index_type, core::as_bytes(oci::to_json(index))));
  std::map<std::string, oci::Descriptor> tags{{release.name, top}};
  for (const auto& channel : release.channels) {
    tags.emplace(channel, top);
  }
  if (!keys.empty()) {
    core::ReleaseStatement statement;
    statement.name = release.name;
    statement.index = top.digest;
    statement.serial = release.serial;
    statement.created = 1'700'000'000;
    statement.expires = release.expires;
    TRY_ASSIGN(
        const std::string envelope,
        core::dsse_sign(core::k_statement_payload_type, core::statement_to_json(statement), keys));
    oci::Manifest manifest;
    manifest.artifact_type = oci::k_signature_artifact_type;
    TRY_ASSIGN(manifest.config, blobs.put(oci::k_empty_type, core::as_bytes("{}")));
    TRY_ASSIGN(oci::Descriptor layer, blobs.put(oci::k_dsse_type, core::as_bytes(envelope)));
    manifest.layers.push_back(std::move(layer));
    manifest.subject = top;
    TRY_ASSIGN(const oci::Descriptor signature,
               blobs.put(oci::k_manifest_type, core::as_bytes(oci::to_json(manifest))));
    tags.emplace(oci::signature_tag(top.digest), signature);
  }
  TRY(write_tags(directory, tags));
  return top.digest;
}

Result<void> write_revocations(const std::filesystem::path& directory,
                               const core::RevocationList& list,
                               std::span<const core::PrivateKey> keys) {
  const Blobs blobs{directory};
  TRY_ASSIGN(const std::string envelope, core::dsse_sign(core::k_statement_payload_type,
                                                         core::revocations_to_json(list), keys));
  oci::Manifest manifest;
  manifest.artifact_type = core::k_revocations_artifact_type;
  TRY_ASSIGN(manifest.config, blobs.put(oci::k_empty_type, core::as_bytes("{}")));
  TRY_ASSIGN(oci::Descriptor layer, blobs.put(oci::k_dsse_type, core::as_bytes(envelope)));
  manifest.layers.push_back(std::move(layer));
  TRY_ASSIGN(const oci::Descriptor top,
             blobs.put(oci::k_manifest_type, core::as_bytes(oci::to_json(manifest))));
  return write_tags(directory, {{std::string(core::k_revocations_tag), top}});
}

std::string interface_of(std::string_view kernel) {
  return table_of(kernel == "scale" ? k_scale : k_split).interface.text();
}

}  // namespace cubinary::test
