// SPDX-License-Identifier: Apache-2.0
// make_test_store FILE [--blobs N BYTES]... : a store with two releases made by hand, for suites
// that need neither a compiler nor `release create`. Prints one JSON object: what is in it.
#include <charconv>
#include <cstdio>
#include <exception>
#include <random>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/digest.hpp"
#include "core/base/json.hpp"
#include "core/manifest/manifest.hpp"
#include "core/table/kernel_table.hpp"
#include "core/wire/oci.hpp"
#include "store/candidate_json.hpp"
#include "store/releases.hpp"
#include "store/store.hpp"
#include "store/tokens.hpp"

namespace {

using namespace cubinary;
namespace json = core::json;
namespace oci = core::oci;

template <typename T>
T must(core::Result<T> result) {
  if (!result) {
    throw std::runtime_error(result.error().message);
  }
  if constexpr (!std::is_void_v<T>) {
    return std::move(*result);
  }
}

constexpr std::string_view k_manifest = R"toml(manifest = 1
name    = "scale"
summary = "y = a * x"
source  = "scale.cu"
entry   = "scale<{T}, {VEC}>"
types.T = ["f32", "f16"]

[axes]
n = { tune = [1024, 4096], bucket = "log2" }

[tunables]
VEC   = { values = [1, 4], default = 1 }
WARPS = { values = [4, 8], default = 4, as = "launch" }

[rules]
require = ["VEC * sizeof(T) <= 16", "n % VEC == 0", "align(x) % (VEC * sizeof(T)) == 0"]

[launch]
grid  = ["ceil_div(n, 32 * WARPS * VEC)"]
block = ["32 * WARPS"]
args  = [
  { name = "y", out = "T", len = "n" },
  { name = "x", in = "T", len = "n", fill = "normal(0, 1)" },
  { name = "count", scalar = "i32", is = "n" },
  { name = "a", scalar = "f32", default = 1.0 },
]

[check]
reference = { entry = "scale_ref<{T}>", grid = ["ceil_div(n, 256)"], block = [256] }
tolerance = { f32 = [1e-5, 1e-6], f16 = [2e-3, 1e-3] }
)toml";

/// Incompressible and the same on every machine.
std::string noise(std::uint64_t seed, std::size_t size) {
  std::mt19937_64 random(seed);
  std::string bytes(size, '\0');
  for (char& byte : bytes) {
    byte = static_cast<char>(random() & 0xffU);
  }
  return bytes;
}

core::TableEntry entry(const std::string& type, std::int64_t vec, int rank) {
  core::TableEntry made;
  made.types = {{"T", type}};
  made.config = {{"VEC", vec}, {"WARPS", std::int64_t{4}}};
  made.rank = rank;
  made.artifact = core::sha256(type + std::to_string(vec));
  made.offset = static_cast<std::uint64_t>(rank) * 100;
  made.size = 100;
  made.symbols = {{"_Z5scale", 1024, 32, 0, 0}};
  made.provenance = {{"toolkit", "13.0"}};
  return made;
}

/// Untuned entries for both types, and for f32 one tuned on one device class at n = 4096.
core::KernelTable make_table(const core::Digest& pack, std::uint64_t pack_size) {
  const core::Manifest manifest = must(core::parse_manifest(k_manifest, "/made-up/kernel.toml"));
  core::KernelTable table = core::table_from_manifest(manifest);
  core::TableEntry tuned = entry("f32", 4, 0);
  tuned.origin = core::Origin::tuned;
  tuned.shape = {{"n", 4096}};
  tuned.device_class = "sm90-s132-l50M-b5120-m80G";
  tuned.time_us = 2.5;
  tuned.confidence = 0.01;
  table.entries = {entry("f16", 4, 0), entry("f16", 1, 1), entry("f32", 4, 0), entry("f32", 1, 1),
                   tuned};
  table.pack = pack;
  table.pack_size = pack_size;
  table.pack_raw_size = 1000;
  return table;
}

oci::Descriptor put(store::Writer& writer, std::string_view type, std::string_view bytes) {
  must(store::put_blob(writer, type, core::as_bytes(bytes)));
  return {std::string(type), core::sha256(bytes), bytes.size(), {}};
}

struct Made {
  std::string index;
  std::string signature;
  json::Array manifests;
  json::Array packs;
};

Made put_test_release(store::Writer& writer, const std::string& name, std::uint64_t seed) {
  Made made;
  oci::Index index;
  store::NewRelease release;
  for (const std::string target : {"sm_90", "sm_120"}) {
    oci::Descriptor pack = put(writer, oci::k_pack_type, noise(seed++, 100'000));
    pack.annotations = {{std::string(oci::k_kernel_annotation), "scale"}};
    core::Catalogue catalogue{name, must(core::Target::parse(target)), {13, 0}, 580, {}};
    catalogue.kernels = {make_table(pack.digest, pack.size)};
    oci::Manifest manifest;
    manifest.artifact_type = oci::k_release_artifact_type;
    manifest.config = put(writer, oci::k_catalogue_type, core::catalogue_to_json(catalogue));
    manifest.layers = {pack};
    oci::Descriptor descriptor = put(writer, oci::k_manifest_type, oci::to_json(manifest));
    descriptor.annotations = {{std::string(oci::k_target_annotation), target}};
    index.manifests.push_back(descriptor);
    release.release.targets.push_back(target);
    release.blobs.insert(release.blobs.end(),
                         {pack.digest, manifest.config.digest, descriptor.digest});
    release.catalogues.push_back(std::move(catalogue));
    made.manifests.emplace_back(descriptor.digest.text());
    made.packs.emplace_back(pack.digest.text());
  }
  const oci::Descriptor root = put(writer, oci::k_index_type, oci::to_json(index));
  release.release.name = name;
  release.release.index = root.digest;
  release.release.created = 1'700'000'000;
  const store::Release put_one = must(store::put_release(writer, release));

  oci::Manifest signature;
  signature.artifact_type = oci::k_signature_artifact_type;
  signature.config = put(writer, oci::k_empty_type, "{}");
  signature.layers = {
      put(writer, oci::k_dsse_type,
          "{\"made-up\":\"" + name + "\",\"signatures\":[{\"keyid\":\"nobody\"}]}")};
  signature.subject = root;
  const oci::Descriptor signed_by = put(writer, oci::k_manifest_type, oci::to_json(signature));
  const std::vector<core::Digest> blobs = {signature.config.digest, signature.layers[0].digest};
  must(store::put_signature(writer, put_one.id, signed_by.digest, blobs));
  made.index = root.digest.text();
  made.signature = signed_by.digest.text();
  return made;
}

json::Object describe(const Made& made) {
  return {{"index", made.index},
          {"signature", made.signature},
          {"manifests", made.manifests},
          {"packs", made.packs}};
}

/// What a builder would publish: the kernel, and candidates that name artifacts yet to be sent.
store::Kernel made_up_kernel() {
  store::Kernel kernel;
  kernel.name = "scale";
  kernel.manifest = k_manifest;
  kernel.interface =
      core::interface_digest(must(core::parse_manifest(k_manifest, "/made-up/kernel.toml")));
  return kernel;
}

store::Candidate made_up_candidate(const std::string& type, std::int64_t vec) {
  store::Candidate candidate;
  candidate.kernel = "scale";
  candidate.build_key = core::sha256("key of " + type + std::to_string(vec));
  candidate.types = {{"T", type}};
  candidate.config = {{"VEC", vec}};
  candidate.target = "sm_90";
  candidate.toolchain = {"nvrtc", {13, 0}, "a compiler"};
  candidate.artifact = core::sha256("cubin of " + type + std::to_string(vec));
  candidate.symbols = {{"_Z5scale", 1024, 32, 0, 0}};
  return candidate;
}

std::uint64_t number(std::string_view text) {
  std::uint64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

json::Object make(const std::vector<std::string_view>& arguments) {
  store::Store store =
      must(store::Store::open(arguments.at(0), {store::Access::write, true, "a test"}));
  json::Object told;
  must(store.write([&](store::Writer& writer) -> core::Result<void> {
    const Made first = put_test_release(writer, "r1", 1);
    told["r1"] = describe(first);
    told["r2"] = describe(put_test_release(writer, "r2", 100));
    must(store::put_tag(
        writer, {"prod", must(core::Digest::parse(first.index)), std::string(oci::k_index_type)}));
    told["token"] =
        must(store::create_token(writer, "reader", must(store::parse_scopes("read")), 0)).secret;
    for (const char* scope : {"publish", "tune", "admin"}) {
      told[std::string(scope) + "_token"] =
          must(store::create_token(writer, scope, must(store::parse_scopes(scope)), 0)).secret;
    }
    told["all_token"] =
        must(store::create_token(writer, "all",
                                 must(store::parse_scopes("read,publish,tune,admin")), 0))
            .secret;
    told["expired_token"] =
        must(store::create_token(writer, "old", must(store::parse_scopes("read")), 1)).secret;
    return {};
  }));
  told["kernel"] = store::to_json(made_up_kernel());
  json::Array candidates;
  for (const char* type : {"f32", "f16"}) {
    for (const std::int64_t vec : {1, 4}) {
      candidates.emplace_back(store::to_json(made_up_candidate(type, vec)));
    }
  }
  told["candidates"] = std::move(candidates);
  json::Array blobs;
  for (std::size_t i = 1; i + 2 < arguments.size(); i += 3) {
    if (arguments[i] != "--blobs") {
      throw std::runtime_error("usage: make_test_store FILE [--blobs N BYTES]...");
    }
    const std::uint64_t size = number(arguments[i + 2]);
    must(store.write([&](store::Writer& writer) -> core::Result<void> {
      for (std::uint64_t n = 0; n < number(arguments[i + 1]); ++n) {
        blobs.emplace_back(
            put(writer, oci::k_pack_type, noise(1000 * size + n, size)).digest.text());
      }
      return {};
    }));
  }
  told["blobs"] = std::move(blobs);
  return told;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    std::puts(json::to_text(make({argv + 1, argv + argc})).c_str());
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "make_test_store: %s\n", error.what());
    return 1;
  }
}
