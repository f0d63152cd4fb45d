// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <ctime>

#include <catch2/catch_test_macros.hpp>

#include "client/fetch.hpp"
#include "client/lookup.hpp"
#include "client/release.hpp"
#include "core/base/file.hpp"
#include "tests/client/test_layout.hpp"
#include "tests/scratch.hpp"

using namespace cubinary;
using client::Release;
using core::ErrorCode;
using core::PrivateKey;

namespace {

const PrivateKey& key() {
  static const PrivateKey made = PrivateKey::generate().value();
  return made;
}
const PrivateKey& other_key() {
  static const PrivateKey made = PrivateKey::generate().value();
  return made;
}

struct Fixture {
  test::Scratch scratch;
  std::filesystem::path layout = scratch / "layout";
  client::TrustOptions trust{.keys = {key().public_key()}};
  std::shared_ptr<client::Cache> cache = std::make_shared<client::Cache>(
      client::Cache::Options{.directory = scratch / "cache", .log = {}});

  core::Digest add(const test::TestRelease& release, const PrivateKey* signer = &key()) {
    const std::vector<PrivateKey> keys =
        signer == nullptr ? std::vector<PrivateKey>{} : std::vector<PrivateKey>{*signer};
    return test::write_release(layout, release, keys).value();
  }
  core::Result<std::unique_ptr<Release>> open(const std::string& tag = "") {
    const std::string text = layout.string() + (tag.empty() ? "" : ":" + tag);
    client::ReleaseOptions options;
    options.trust = trust;
    options.deadline = client::deadline_after(60);
    return Release::open(client::SourceName::parse(text).value(), std::move(options), cache);
  }
  ErrorCode open_error(const std::string& tag = "", std::string_view part = "") {
    const auto release = open(tag);
    REQUIRE(!release);
    INFO(release.error().message);
    CHECK(release.error().message.find(part) != std::string::npos);
    return release.error().code;
  }
};

client::Deadline soon() {
  return client::deadline_after(60);
}

}  // namespace

TEST_CASE("a signed release opens, and everything in it verifies") {
  Fixture fixture;
  const auto digest = fixture.add({});
  const auto release = fixture.open();
  REQUIRE(release);
  CHECK((*release)->index_digest() == digest);
  CHECK((*release)->name() == "v1");
  CHECK((*release)->key_id() == key().public_key().key_id());
  CHECK((*release)->statement()->serial == 1);
  REQUIRE((*release)->targets().size() == 2);

  const auto report = client::fetch(**release, {}, soon());
  REQUIRE(report);
  CHECK(report->packs == 4);
  CHECK(report->packs_received == 4);
  CHECK(report->artifacts.size() == 10);  // 4 of scale and 1 of split a target
  CHECK(report->minimum_driver == 580);
  for (const auto& artifact : report->artifacts) {
    CHECK(fixture.cache->find(client::Cache::Kind::artifact, artifact.digest, artifact.bytes)
              .has_value());
  }
  const auto again = client::fetch(**release, {}, soon());
  REQUIRE(again);
  CHECK(again->packs_received == 0);
}

TEST_CASE("a filter fetches its part only") {
  Fixture fixture;
  fixture.add({});
  const auto release = fixture.open().value();
  const auto one = client::fetch(
      *release, {.kernel_glob = "sc*", .targets = {core::Target::parse("sm_120").value()}}, soon());
  REQUIRE(one);
  CHECK(one->packs == 1);
  CHECK(one->artifacts.size() == 4);
  const auto hopper =
      client::fetch(*release,
                    {.kernel_glob = "",
                     .targets = {},
                     .device_class = core::DeviceClass::parse("sm90-s132-l50M-b5120-m80G").value()},
                    soon());
  REQUIRE(hopper);
  CHECK(std::all_of(hopper->artifacts.begin(), hopper->artifacts.end(),
                    [](const auto& a) { return a.target.text() == "sm_90"; }));

  const auto misspelt = client::fetch(*release, {.kernel_glob = "scael"}, soon());
  REQUIRE(!misspelt);
  CHECK(misspelt.error().code == ErrorCode::not_found);
  CHECK(misspelt.error().message.find("scale") != std::string::npos);
  const auto missing = client::fetch(
      *release, {.kernel_glob = "", .targets = {core::Target::parse("sm_80").value()}}, soon());
  REQUIRE(!missing);
  CHECK(missing.error().code == ErrorCode::no_match);
}

TEST_CASE("without a tag: the only release, else the choice is the user's") {
  Fixture fixture;
  fixture.add({.name = "v1", .channels = {"prod", "stable"}});
  CHECK(fixture.open());  // one release under three tags
  fixture.add({.name = "v2", .serial = 2, .note = "two"});
  CHECK(fixture.open_error("", "v2") == ErrorCode::not_found);
  CHECK(fixture.open("v2"));
  CHECK(fixture.open("prod").value()->name() == "v1");
  CHECK(fixture.open_error("v3", "v1") == ErrorCode::not_found);
  CHECK(fixture.open_error("prdo", "did you mean \"prod\"") == ErrorCode::not_found);
}

TEST_CASE("a release nobody pinned signed is refused") {
  Fixture fixture;
  SECTION("another key") {
    fixture.add({}, &other_key());
    CHECK(fixture.open_error("", key().public_key().key_id().substr(0, 8)) == ErrorCode::signature);
    fixture.trust.allow_unsigned = true;  // is for no signature, not for a wrong one
    CHECK(fixture.open_error() == ErrorCode::signature);
    fixture.trust.allow_unsigned = false;
    fixture.trust.keys.push_back(other_key().public_key());  // rotation
    CHECK(fixture.open());
  }
  SECTION("no signature") {
    fixture.add({}, nullptr);
    CHECK(fixture.open_error("", "not signed") == ErrorCode::signature);
    fixture.trust.allow_unsigned = true;
    const auto release = fixture.open();
    REQUIRE(release);
    CHECK_FALSE((*release)->statement().has_value());
  }
  SECTION("no key") {
    fixture.add({});
    fixture.trust.keys.clear();
    CHECK(fixture.open_error("", "no public key is pinned") == ErrorCode::signature);
  }
}

TEST_CASE("an expired release is refused unless told") {
  Fixture fixture;
  fixture.add({.expires = std::time(nullptr) - 10});
  CHECK(fixture.open_error("", "expired on") == ErrorCode::expired);
  fixture.trust.allow_expired = true;
  CHECK(fixture.open());
}

TEST_CASE("a tag never goes back to a lower serial") {
  Fixture fixture;
  fixture.add({.name = "v1", .serial = 1, .channels = {"prod"}});
  fixture.add({.name = "v2", .serial = 2, .channels = {"prod"}, .note = "two"});
  CHECK(fixture.open("prod").value()->name() == "v2");
  fixture.add({.name = "v1", .serial = 1, .channels = {"prod"}});
  CHECK(fixture.open_error("prod", "serial 2") == ErrorCode::rollback);
  CHECK(fixture.open("v1"));  // by its own name it is what it always was
  // Another machine has seen nothing yet.
  fixture.cache = std::make_shared<client::Cache>(
      client::Cache::Options{.directory = fixture.scratch / "elsewhere", .log = {}});
  CHECK(fixture.open("prod").value()->name() == "v1");
}

TEST_CASE("a device without code, a misspelt kernel, another interface, an old driver") {
  Fixture fixture;
  fixture.add({});
  const auto release = fixture.open().value();
  const auto find = [&](client::LookupQuery query) {
    auto found = client::find_kernel(*release, query, soon());
    REQUIRE(!found);
    return found.error();
  };
  const auto no_device = find({.kernel = "scale",
                               .capability = {8, 0},
                               .cuda_version = std::nullopt,
                               .interface_digest = std::nullopt});
  CHECK(no_device.code == ErrorCode::no_match);
  CHECK(no_device.message.find("sm_90, sm_120") != std::string::npos);
  const auto no_kernel = find({.kernel = "scail",
                               .capability = {9, 0},
                               .cuda_version = std::nullopt,
                               .interface_digest = std::nullopt});
  CHECK(no_kernel.code == ErrorCode::not_found);
  CHECK(no_kernel.message.find("did you mean \"scale\"") != std::string::npos);
  const auto differs = find({.kernel = "scale",
                             .capability = {9, 0},
                             .cuda_version = std::nullopt,
                             .interface_digest = core::sha256("other")});
  CHECK(differs.code == ErrorCode::interface_mismatch);
  const auto old = find({.kernel = "scale",
                         .capability = {9, 0},
                         .cuda_version = 12080,
                         .interface_digest = std::nullopt});
  CHECK(old.code == ErrorCode::driver);
  CHECK(old.message.find("580") != std::string::npos);
}

TEST_CASE("one flipped byte anywhere in a layout is noticed") {
  Fixture fixture;
  fixture.add({.targets = {"sm_90"}});
  std::size_t files = 0;
  for (const auto& file :
       std::filesystem::directory_iterator(fixture.layout / "blobs" / "sha256")) {
    const auto good = core::read_file(file.path(), 1U << 24U).value();
    if (good.size() == 2) {
      continue;  // the empty config says nothing and is not read
    }
    ++files;
    for (const std::size_t at : {std::size_t{0}, good.size() / 2, good.size() - 1}) {
      auto bad = good;
      bad[at] ^= std::byte{0x20};
      REQUIRE(core::write_file_atomic(file.path(), bad));
      fixture.cache =
          std::make_shared<client::Cache>(client::Cache::Options{.directory = {}, .log = {}});
      auto release = fixture.open();
      auto outcome = release ? client::fetch(**release, {}, soon()).map([](auto&&) {})
                             : core::Result<void>(core::fail(release.error()));
      INFO(file.path() << " at " << at);
      REQUIRE(!outcome);
      CHECK(outcome.error().code == ErrorCode::corrupt);
    }
    REQUIRE(core::write_file_atomic(file.path(), good));
  }
  CHECK(files >= 7);  // index, manifest, catalogue, two packs, signature, envelope
  fixture.cache =
      std::make_shared<client::Cache>(client::Cache::Options{.directory = {}, .log = {}});
  CHECK(client::fetch(*fixture.open().value(), {}, soon()));
}

TEST_CASE("what is revoked does not load: a release, a catalogue, one artifact") {
  Fixture fixture;
  const core::Digest index = fixture.add({});
  const auto revoke = [&](std::uint64_t serial, const core::Digest& digest,
                          const PrivateKey& signer = key()) {
    REQUIRE(test::write_revocations(fixture.layout,
                                    {serial, 1, {{digest, "wrong for odd sizes", 1}}}, {{signer}}));
  };
  core::Digest artifact;
  core::Digest pack;
  {
    const auto release = fixture.open().value();
    const auto tables = release->tables(release->targets()[0], soon()).value();
    artifact = tables->table(0).value()->entries[0].artifact;
    pack = tables->table(0).value()->pack;
  }

  revoke(1, artifact);
  {
    const auto release = fixture.open().value();
    CHECK(release->revoked().at(artifact) == "wrong for odd sizes");
    std::size_t left = 0;
    for (const auto& target : release->targets()) {
      const auto tables = release->tables(target, soon()).value();
      for (std::size_t i = 0; i < tables->size(); ++i) {
        for (const auto& entry : tables->table(i).value()->entries) {
          CHECK(entry.artifact != artifact);
          ++left;
        }
      }
    }
    CHECK(left > 0);
  }
  revoke(2, pack);  // a pack: the whole kernel is gone from that target
  {
    const auto release = fixture.open().value();
    const auto tables = release->tables(release->targets()[0], soon()).value();
    CHECK(tables->table(0).value()->entries.empty());
    CHECK_FALSE(tables->table(1).value()->entries.empty());
  }
  revoke(3, index);
  CHECK(fixture.open_error("", "wrong for odd sizes") == ErrorCode::revoked);

  SECTION("an older list, or none, does not bring it back") {
    revoke(1, artifact);
    CHECK(fixture.open_error("", "revoked") == ErrorCode::revoked);
    std::filesystem::remove_all(fixture.layout);
    fixture.add({});
    CHECK(fixture.open_error("", "revoked") == ErrorCode::revoked);
  }
  SECTION("a list by another key is refused") {
    revoke(4, artifact, other_key());
    CHECK(fixture.open_error("", "revocation list") == ErrorCode::signature);
  }
}

TEST_CASE("a pinned index is opened wherever its tag points") {
  Fixture fixture;
  const core::Digest first = fixture.add({.name = "v1", .serial = 1, .channels = {"prod"}});
  const core::Digest second =
      fixture.add({.name = "v2", .serial = 2, .channels = {"prod"}, .note = "two"});
  REQUIRE(fixture.open("prod").value()->index_digest() == second);
  client::ReleaseOptions options;
  options.trust = fixture.trust;
  options.deadline = soon();
  options.pinned = first;
  const auto name = client::SourceName::parse(fixture.layout.string() + ":prod").value();
  const auto release = Release::open(name, options, fixture.cache);
  REQUIRE(release);
  CHECK((*release)->index_digest() == first);
  CHECK((*release)->name() == "v1");
  CHECK(fixture.open("prod").value()->index_digest() == second);  // nothing was forgotten
  options.pinned = core::sha256("another");
  CHECK_FALSE(Release::open(name, options, fixture.cache));
}
