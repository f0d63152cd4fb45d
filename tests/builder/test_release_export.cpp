// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <fstream>
#include <iterator>
#include <map>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "builder/release/export.hpp"
#include "builder/release/release.hpp"
#include "core/base/digest.hpp"
#include "core/base/file.hpp"
#include "core/base/json.hpp"
#include "core/wire/oci.hpp"
#include "tests/builder/synthetic_store.hpp"

using namespace cubinary;
using namespace cubinary::tests;
namespace fs = std::filesystem;
namespace json = cubinary::core::json;
using Catch::Matchers::ContainsSubstring;
using core::ErrorCode;

namespace {

/// A store with `scale` and a signed release `r1`, promoted to prod.
struct Fixture {
  Scratch folder;
  store::Store store = create_store(folder.path() / "s.db");
  core::PrivateKey key = must(core::PrivateKey::generate());
  fs::path layout = folder.path() / "layout";

  Fixture() {
    fill(store, scale_manifest(), {"sm_90", "sm_120"});
    make("r1");
    must(builder::sign_release(store, "r1", std::array{key}));
    must(builder::promote_release(store, "r1", "prod"));
  }
  void make(const std::string& name) {
    builder::ReleaseRequest request;
    request.name = name;
    request.created = 1'800'000'000;
    must(builder::create_release(store, request));
  }
  core::Result<builder::ExportedRelease> run(const std::string& name) {
    return builder::export_release(must(store.reader()), name, layout);
  }
};

/// Tag to digest, as index.json has them.
std::map<std::string, std::string> tags_of(const fs::path& layout) {
  const std::string text = must(core::read_text_file(layout / "index.json", 1 << 20));
  const json::Value value = must(json::parse(text));
  const json::Node top(value, "index.json");
  const json::Node manifests = must(top.at("manifests"));
  std::map<std::string, std::string> tags;
  for (const json::Node& node : must(manifests.elements())) {
    const json::Node annotations = must(node.at("annotations"));
    tags[must(annotations.text("org.opencontainers.image.ref.name"))] = must(node.text("digest"));
  }
  return tags;
}

std::size_t check_blobs(const fs::path& layout) {
  std::size_t count = 0;
  for (const auto& entry : fs::directory_iterator(layout / "blobs" / "sha256")) {
    CHECK(core::sha256(must(core::read_file(entry.path(), 1 << 24))).hex() ==
          entry.path().filename().string());
    ++count;
  }
  return count;
}

}  // namespace

TEST_CASE("an export is an OCI image layout with every tag of the release") {
  Fixture fixture;
  const auto exported = must(fixture.run("r1"));
  const std::string signature = core::oci::signature_tag(exported.release.index);
  CHECK(exported.tags == std::vector<std::string>{"r1", "prod", signature});
  // index, two manifests, two catalogues, two packs; signature, envelope, empty config
  CHECK(exported.blobs == 10);
  CHECK(exported.blobs_written == 10);
  CHECK(check_blobs(fixture.layout) == 10);
  CHECK(must(core::read_text_file(fixture.layout / "oci-layout", 100)) ==
        R"({"imageLayoutVersion":"1.0.0"})");
  const std::string index = exported.release.index.text();
  CHECK(tags_of(fixture.layout) == std::map<std::string, std::string>{
                                       {"r1", index},
                                       {"prod", index},
                                       {signature, exported.release.signature_manifest->text()}});
  CHECK(std::distance(fs::directory_iterator(fixture.layout), fs::directory_iterator()) == 3);
}

TEST_CASE("a second export writes nothing twice and adds to what is there") {
  Fixture fixture;
  must(fixture.run("r1"));
  CHECK(must(fixture.run("r1")).blobs_written == 0);
  fixture.make("r2");
  const auto second = must(fixture.run("r2"));
  CHECK(second.tags == std::vector<std::string>{"r2"});
  // packs are shared; index, manifests and catalogues name the release
  CHECK(second.blobs == 7);
  CHECK(second.blobs_written == 5);
  CHECK(tags_of(fixture.layout).size() == 4);

  must(builder::promote_release(fixture.store, "r2", "prod"));
  must(fixture.run("r2"));
  CHECK(tags_of(fixture.layout).at("prod") == second.release.index.text());
  CHECK(tags_of(fixture.layout).size() == 4);
}

TEST_CASE("descriptors of other tools stay as they were") {
  Fixture fixture;
  must(fixture.run("r1"));
  const std::string foreign =
      R"({"manifests":[{"annotations":{"x":"y"},"digest":"sha256:00","extra":[1,{"a":null}],)"
      R"("mediaType":"application/foreign","size":2}],"schemaVersion":2})";
  must(core::write_file_atomic(fixture.layout / "index.json", core::as_bytes(foreign)));
  must(fixture.run("r1"));
  CHECK_THAT(must(core::read_text_file(fixture.layout / "index.json", 1 << 20)),
             ContainsSubstring(R"({"annotations":{"x":"y"},"digest":"sha256:00","extra":[1,{"a":)"
                               R"(null}],"mediaType":"application/foreign","size":2},)"));
}

TEST_CASE("a damaged blob in the folder is replaced, stale temporaries go") {
  Fixture fixture;
  const auto exported = must(fixture.run("r1"));
  const fs::path blobs = fixture.layout / "blobs" / "sha256";
  const fs::path index = blobs / exported.release.index.hex();
  auto bytes = must(core::read_file(index, 1 << 20));
  bytes.back() ^= std::byte{1};
  must(core::write_file_atomic(index, bytes));
  std::ofstream(blobs / ("." + exported.release.index.hex() + ".abcdef")) << "half";
  CHECK(must(fixture.run("r1")).blobs_written == 1);
  CHECK(check_blobs(fixture.layout) == 10);
}

TEST_CASE("an interrupted first export is continued") {
  Fixture fixture;
  must(fixture.run("r1"));
  fs::remove(fixture.layout / "index.json");
  const auto again = must(fixture.run("r1"));
  CHECK(again.blobs_written == 0);
  CHECK(tags_of(fixture.layout).size() == 3);
}

TEST_CASE("a folder in use for something else and a broken layout are refused untouched") {
  Fixture fixture;
  fs::create_directories(fixture.layout);
  std::ofstream(fixture.layout / "thesis.tex") << "precious";
  const auto foreign = fixture.run("r1");
  REQUIRE_FALSE(foreign.has_value());
  CHECK(foreign.error().code == ErrorCode::exists);
  CHECK(std::distance(fs::directory_iterator(fixture.layout), fs::directory_iterator()) == 1);

  fixture.layout = fixture.folder.path() / "broken";
  must(fixture.run("r1"));
  must(core::write_file_atomic(fixture.layout / "index.json", core::as_bytes("{")));
  const auto broken = fixture.run("r1");
  REQUIRE_FALSE(broken.has_value());
  CHECK(broken.error().code == ErrorCode::corrupt);
  CHECK_THAT(broken.error().message, ContainsSubstring("index.json"));
  CHECK(must(core::read_text_file(fixture.layout / "index.json", 100)) == "{");
}

TEST_CASE("an unknown release makes no folder") {
  Fixture fixture;
  const auto result = fixture.run("r7");
  REQUIRE_FALSE(result.has_value());
  CHECK(result.error().code == ErrorCode::not_found);
  CHECK_FALSE(fs::exists(fixture.layout));
}
