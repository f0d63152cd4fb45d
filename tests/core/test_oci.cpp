// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch_test_macros.hpp>

#include "core/wire/oci.hpp"
#include "tests/core/wire_fixture.hpp"

using namespace cubinary::core;
using test::golden;

namespace {

oci::Descriptor descriptor(std::string_view type, std::string_view content,
                           std::map<std::string, std::string> annotations = {}) {
  return {std::string(type), sha256(content), content.size(), std::move(annotations)};
}

oci::Index sample_index() {
  return {{descriptor(oci::k_manifest_type, "m90", {{"dev.cubinary.target", "sm_90"}}),
           descriptor(oci::k_manifest_type, "m120", {{"dev.cubinary.target", "sm_120"}})}};
}

oci::Manifest sample_manifest() {
  return {std::string(oci::k_release_artifact_type),
          descriptor(oci::k_catalogue_type, "{}"),
          {descriptor(oci::k_pack_type, "pack", {{"dev.cubinary.kernel", "rmsnorm"}})},
          {},
          {}};
}

oci::Manifest sample_signature() {
  return {std::string(oci::k_signature_artifact_type),
          descriptor(oci::k_empty_type, "{}"),
          {descriptor(oci::k_dsse_type, "envelope")},
          descriptor(oci::k_index_type, oci::to_json(sample_index())),
          {}};
}

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

std::string index_error(std::string_view text) {
  const auto index = oci::index_from_json(text);
  REQUIRE_FALSE(index);
  CHECK(index.error().code == ErrorCode::corrupt);
  return index.error().message;
}

}  // namespace

TEST_CASE("OCI documents have the bytes of their golden files") {
  CHECK(oci::to_json(sample_index()) == golden("index.json"));
  CHECK(oci::to_json(sample_manifest()) == golden("manifest.json"));
  CHECK(oci::to_json(sample_signature()) == golden("signature-manifest.json"));
}

TEST_CASE("golden OCI documents are read whole") {
  const oci::Index index = oci::index_from_json(golden("index.json")).value();
  REQUIRE(index.manifests.size() == 2);
  CHECK(index.manifests[1].annotations.at("dev.cubinary.target") == "sm_120");
  CHECK(index.manifests[1].digest == sha256("m120"));
  CHECK(index.manifests[1].size == 4);
  CHECK(oci::to_json(index) == golden("index.json"));

  const oci::Manifest manifest = oci::manifest_from_json(golden("manifest.json")).value();
  CHECK(manifest.artifact_type == oci::k_release_artifact_type);
  CHECK(manifest.layers.at(0).annotations.at("dev.cubinary.kernel") == "rmsnorm");
  CHECK(oci::to_json(manifest) == golden("manifest.json"));

  const oci::Manifest signature =
      oci::manifest_from_json(golden("signature-manifest.json")).value();
  REQUIRE(signature.subject);
  CHECK(signature.subject->digest == sha256(golden("index.json")));
  CHECK(oci::to_json(signature) == golden("signature-manifest.json"));
}

TEST_CASE("a manifest in place of an index names the copy that keeps all") {
  const std::string message = index_error(golden("manifest.json"));
  CHECK(message.find("one target's manifest, not a release") != std::string::npos);
  CHECK(message.find("--all") != std::string::npos);
}

TEST_CASE("members that others add are no error, members we need are") {
  const std::string index = golden("index.json");
  CHECK(oci::index_from_json(
            replaced(index, "{\"manifests\"", R"({"annotations":{"a":"b"},"manifests")"))
            .value()
            .manifests.size() == 2);
  CHECK(index_error(replaced(index, "\"schemaVersion\":2", "\"schemaVersion\":1"))
            .find("schemaVersion") != std::string::npos);
  CHECK(
      index_error(replaced(index, R"(,"mediaType":"application/vnd.oci.image.index.v1+json")", ""))
          .find("mediaType") != std::string::npos);
  CHECK(index_error(replaced(index, "\"size\":3", "\"size\":-3")).find("manifests[0].size") !=
        std::string::npos);
  CHECK(index_error(replaced(index, "\"size\":3", "\"size\":3.5")).find("integer") !=
        std::string::npos);
  CHECK(index_error(replaced(index, "sha256:", "sha512:")).find("manifests[0].digest") !=
        std::string::npos);
  CHECK(index_error(replaced(index, "sha256:", "")).find("manifests[0].digest") !=
        std::string::npos);
  CHECK_FALSE(oci::manifest_from_json(index));
  CHECK_FALSE(oci::index_from_json("[]"));
}

TEST_CASE("a document beyond the bound is not parsed") {
  const auto index = oci::index_from_json(std::string(oci::k_max_document_bytes + 1, ' '));
  REQUIRE_FALSE(index);
  CHECK(index.error().code == ErrorCode::too_large);
}

TEST_CASE("tags follow the distribution grammar") {
  for (const std::string& good :
       {std::string("r1"), std::string("_x"), std::string("2025.11-rc.1"), std::string(128, 'a')}) {
    CHECK(oci::is_tag(good));
  }
  for (const std::string& bad :
       {std::string(), std::string(".x"), std::string("-x"), std::string("a/b"), std::string("a b"),
        std::string("a:b"), std::string("\xc3\xa4"), std::string(129, 'a')}) {
    INFO(bad);
    CHECK_FALSE(oci::is_tag(bad));
  }
  CHECK(oci::signature_tag(sha256("")) == "sha256-" + sha256("").hex());
  CHECK(oci::is_tag(oci::signature_tag(sha256(""))));
}

TEST_CASE("repositories follow the distribution grammar") {
  for (const std::string& good :
       {std::string("cubinary"), std::string("a/b/c"), std::string("a-b__c.d_e/x--y"),
        std::string("0"), std::string(255, 'a')}) {
    CHECK(oci::is_repository(good));
  }
  for (const std::string& bad :
       {std::string(), std::string("/"), std::string("a/"), std::string("/a"), std::string("a//b"),
        std::string("A"), std::string("a..b"), std::string("a___b"), std::string("-a"),
        std::string("a-"), std::string("a_/b"), std::string("../x"), std::string(256, 'a')}) {
    INFO(bad);
    CHECK_FALSE(oci::is_repository(bad));
  }
}
