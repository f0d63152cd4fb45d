// SPDX-License-Identifier: Apache-2.0
#include <array>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "builder/release/diff.hpp"
#include "builder/release/release.hpp"
#include "builder/release/view.hpp"
#include "core/wire/oci.hpp"
#include "core/wire/signature.hpp"
#include "tests/builder/synthetic_store.hpp"

using namespace cubinary;
using namespace cubinary::tests;
namespace oci = cubinary::core::oci;
using Catch::Matchers::ContainsSubstring;
using core::ErrorCode;

namespace {

store::Release make_release(store::Store& store, const std::string& name) {
  builder::ReleaseRequest request;
  request.name = name;
  request.created = 1'800'000'000;
  request.expires = 1'900'000'000;
  return must(builder::create_release(store, request)).release;
}

oci::Manifest read_manifest(const store::Store& store, const core::Digest& digest) {
  const auto bytes =
      must(store::read_blob(must(store.reader()), digest, oci::k_max_document_bytes));
  return must(oci::manifest_from_json(core::as_text(bytes)));
}

std::string read_envelope(const store::Store& store, const core::Digest& manifest) {
  const auto bytes = must(store::read_blob(must(store.reader()),
                                           read_manifest(store, manifest).layers.at(0).digest,
                                           oci::k_max_document_bytes));
  return core::to_text(bytes);
}

}  // namespace

TEST_CASE("a signature states the release and hangs on its index") {
  const Scratch folder;
  store::Store store = create_store(folder.path() / "s.db");
  fill(store, scale_manifest(), {"sm_90", "sm_120"});
  const store::Release release = make_release(store, "r1");
  CHECK_FALSE(release.signature_manifest.has_value());
  const std::array keys{must(core::PrivateKey::generate())};
  const auto result = must(builder::sign_release(store, "r1", keys));
  CHECK(result.key_ids == std::vector<std::string>{keys[0].public_key().key_id()});

  const oci::Manifest manifest = read_manifest(store, result.signature_manifest);
  CHECK(manifest.artifact_type == "application/vnd.cubinary.signature.v1");
  CHECK(manifest.config.media_type == "application/vnd.oci.empty.v1+json");
  CHECK(manifest.config.size == 2);
  REQUIRE(manifest.layers.size() == 1);
  CHECK(manifest.layers[0].media_type == "application/vnd.dsse.envelope.v1+json");
  REQUIRE(manifest.subject.has_value());
  CHECK(manifest.subject->digest == release.index);
  CHECK(manifest.subject->media_type == oci::k_index_type);

  const std::array pinned{keys[0].public_key()};
  const auto payload =
      must(core::dsse_verify(read_envelope(store, result.signature_manifest), pinned));
  const auto statement = must(core::statement_from_json(payload.payload));
  CHECK(statement.name == "r1");
  CHECK(statement.index == release.index);
  CHECK(statement.serial == 1);
  CHECK(statement.created == 1'800'000'000);
  CHECK(statement.expires == 1'900'000'000);
  CHECK(statement.provenance.at("toolkit") == "13.0");
  CHECK(statement.provenance.at("targets") == "sm_90,sm_120");

  const store::Reader reader = must(store.reader());
  const auto tag = must(store::find_tag(reader, oci::signature_tag(release.index)));
  REQUIRE(tag.has_value());
  CHECK(tag->manifest == result.signature_manifest);
  const auto referrers = must(store::list_referrers(reader, release.index));
  REQUIRE(referrers.size() == 1);
  CHECK(referrers[0].manifest.digest == result.signature_manifest);
  CHECK(referrers[0].artifact_type == "application/vnd.cubinary.signature.v1");
  CHECK(must(builder::signing_keys(reader, must(builder::require_release(reader, "r1")))) ==
        result.key_ids);
}

TEST_CASE("signing again, with two keys, replaces the signature") {
  const Scratch folder;
  store::Store store = create_store(folder.path() / "s.db");
  fill(store, scale_manifest(), {"sm_120"});
  const store::Release release = make_release(store, "r1");
  const auto old_key = must(core::PrivateKey::generate());
  const auto new_key = must(core::PrivateKey::generate());
  must(builder::sign_release(store, "r1", std::array{old_key}));
  const auto again = must(builder::sign_release(store, "r1", std::array{old_key, new_key}));

  const store::Reader reader = must(store.reader());
  const auto found = must(builder::require_release(reader, "r1"));
  CHECK(found.signature_manifest == again.signature_manifest);
  CHECK(found.index == release.index);
  const std::string envelope = read_envelope(store, again.signature_manifest);
  CHECK(core::dsse_verify(envelope, std::array{old_key.public_key()}).has_value());
  CHECK(core::dsse_verify(envelope, std::array{new_key.public_key()}).has_value());
  CHECK(must(store::find_tag(reader, oci::signature_tag(release.index)))->manifest ==
        again.signature_manifest);
}

TEST_CASE("an unknown release is not signed, and the nearest name is given") {
  const Scratch folder;
  store::Store store = create_store(folder.path() / "s.db");
  fill(store, scale_manifest(), {"sm_120"});
  make_release(store, "nightly");
  const std::array keys{must(core::PrivateKey::generate())};
  const auto result = builder::sign_release(store, "nigthly", keys);
  REQUIRE_FALSE(result.has_value());
  CHECK(result.error().code == ErrorCode::not_found);
  CHECK_THAT(result.error().message, ContainsSubstring("did you mean \"nightly\"?"));
}

TEST_CASE("a channel moves between releases and never hides one") {
  const Scratch folder;
  store::Store store = create_store(folder.path() / "s.db");
  fill(store, scale_manifest(), {"sm_120"});
  const store::Release first = make_release(store, "r1");
  const store::Release second = make_release(store, "r2");
  must(builder::sign_release(store, "r1", std::array{must(core::PrivateKey::generate())}));

  const auto unsigned_promotion = must(builder::promote_release(store, "r2", "prod"));
  REQUIRE(unsigned_promotion.notes.size() == 1);
  CHECK_THAT(unsigned_promotion.notes[0], ContainsSubstring("until it is signed"));
  const auto back = must(builder::promote_release(store, "r1", "prod"));
  REQUIRE(back.notes.size() == 1);
  CHECK_THAT(back.notes[0], ContainsSubstring("seen serial 2 refuse serial 1"));
  {
    const store::Reader reader = must(store.reader());
    CHECK(must(store::find_tag(reader, "prod"))->manifest == first.index);
    CHECK(must(builder::channels_of(reader, first)) == std::vector<std::string>{"prod"});
    CHECK(must(builder::channels_of(reader, second)).empty());
  }
  CHECK(builder::promote_release(store, "r1", "r2").error().code == ErrorCode::exists);
  CHECK(builder::promote_release(store, "r1", "bad tag").error().code == ErrorCode::usage);
  CHECK(builder::promote_release(store, "r1", "sha256-00").error().code == ErrorCode::usage);
  CHECK(builder::promote_release(store, "r9", "prod").error().code == ErrorCode::not_found);
  CHECK(must(store::find_tag(must(store.reader()), "prod"))->manifest == first.index);
}

TEST_CASE("a summary counts kernels, channels and bytes") {
  const Scratch folder;
  store::Store store = create_store(folder.path() / "s.db");
  fill(store, scale_manifest(), {"sm_90", "sm_120"});
  fill(store, attend_manifest(), {"sm_90"});
  const store::Release release = make_release(store, "r1");
  must(builder::promote_release(store, "r1", "prod"));
  const store::Reader reader = must(store.reader());
  const auto all = must(builder::summarise_all(reader));
  REQUIRE(all.size() == 1);
  CHECK(all[0].kernels == 2);
  CHECK(all[0].channels == std::vector<std::string>{"prod"});
  std::uint64_t bytes = 0;
  for (const auto& blob : must(store::release_blobs(reader, release.id))) {
    bytes += blob.size;
  }
  CHECK(all[0].bytes == bytes);
}

TEST_CASE("a diff says what clients would do differently") {
  const Scratch folder;
  store::Store store = create_store(folder.path() / "s.db");
  fill(store, scale_manifest(), {"sm_90", "sm_120"});
  make_release(store, "r1");
  make_release(store, "same");
  measure_scale(store, "sm_120", "f16", 2, 4096, 10.0);
  make_release(store, "tuned");
  measure_scale(store, "sm_120", "f16", 4, 4096, 8.0);
  make_release(store, "faster");

  const store::Reader reader = must(store.reader());
  CHECK(must(builder::diff_releases(reader, "r1", "same")).empty());
  const auto added = must(builder::diff_releases(reader, "same", "tuned"));
  REQUIRE(added.size() == 1);
  CHECK(builder::kind_name(added[0].kind) == "added");
  CHECK(added[0].target == "sm_120");
  CHECK(added[0].kernel == "scale");
  CHECK(added[0].entry == "T=f16 n=4096 sm120-s188-l128M-b512-m96G");
  CHECK(added[0].what == "VEC=2 WARPS=8");
  const auto changed = must(builder::diff_releases(reader, "tuned", "faster"));
  REQUIRE(changed.size() == 1);
  CHECK(builder::kind_name(changed[0].kind) == "changed");
  CHECK(changed[0].what == "config VEC=2 WARPS=8 -> VEC=4 WARPS=8; time 10.000 us -> 8.000 us");
  const auto removed = must(builder::diff_releases(reader, "tuned", "r1"));
  REQUIRE(removed.size() == 1);
  CHECK(builder::kind_name(removed[0].kind) == "removed");
  CHECK(builder::diff_releases(reader, "r1", "r9").error().code == ErrorCode::not_found);
}
