// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <catch2/catch_test_macros.hpp>

#include "client/look_ahead.hpp"
#include "client/release.hpp"
#include "tests/client/test_layout.hpp"
#include "tests/scratch.hpp"

using namespace cubinary;
using client::LookAhead;
using client::Release;

namespace {

client::Deadline soon() {
  return client::deadline_after(60);
}

struct Fixture {
  test::Scratch scratch;
  std::filesystem::path layout = scratch / "layout";
  core::PrivateKey key = core::PrivateKey::generate().value();
  std::shared_ptr<client::Metrics> metrics;
  std::shared_ptr<client::Cache> cache;
  std::unique_ptr<Release> release;

  explicit Fixture(std::vector<std::string> targets) {
    test::TestRelease made;
    made.targets = std::move(targets);
    const std::vector<core::PrivateKey> keys{key};
    (void)test::write_release(layout, made, keys).value();
    start();
  }
  /// As another program would.
  void start() {
    release.reset();
    cache.reset();
    metrics = std::make_shared<client::Metrics>();
    cache = std::make_shared<client::Cache>(
        client::Cache::Options{.directory = scratch / "cache", .log = {}, .metrics = metrics});
    client::ReleaseOptions options;
    options.trust.keys = {key.public_key()};
    options.deadline = soon();
    options.metrics = metrics;
    release =
        Release::open(client::SourceName::parse(layout.string()).value(), std::move(options), cache)
            .value();
  }
  [[nodiscard]] std::string record() const { return "loaded " + release->index_digest().text(); }
};

std::vector<core::Digest> artifacts_of(const core::KernelTable& table) {
  std::vector<core::Digest> artifacts;
  for (const auto& entry : table.entries) {
    if (std::find(artifacts.begin(), artifacts.end(), entry.artifact) == artifacts.end()) {
      artifacts.push_back(entry.artifact);
    }
  }
  return artifacts;
}

}  // namespace

TEST_CASE("what the last program loaded is in memory before it is asked for") {
  Fixture f({"sm_90"});
  const core::Target target = f.release->targets()[0];
  {
    LookAhead first(*f.release, f.cache);
    first.begin(std::nullopt, soon());
    first.wait();
    // The only target's catalogue needs no record.
    CHECK(f.release->opened_targets() == std::vector{target});
    const auto tables = f.release->tables(target, soon()).value();
    const auto& table = *tables->table(0).value();
    const auto artifacts = artifacts_of(table);
    REQUIRE(artifacts.size() >= 3);
    for (std::size_t i = 0; i < 2; ++i) {
      (void)f.release->artifact(table, artifacts[i], soon()).value();
      first.loaded(artifacts[i]);
      first.loaded(artifacts[i]);
    }
  }

  f.start();
  LookAhead second(*f.release, f.cache);
  second.begin(std::nullopt, soon());
  second.wait();
  // Whatever happens to the files now, what was read ahead is there, and was checked.
  std::filesystem::remove_all(f.scratch / "cache" / "v1" / "artifacts");
  const auto tables = f.release->tables(target, soon()).value();
  const auto& table = *tables->table(0).value();
  const auto artifacts = artifacts_of(table);
  CHECK(f.metrics->stats().cache_hits == 0);
  for (std::size_t i = 0; i < 2; ++i) {
    const auto bytes = f.release->artifact(table, artifacts[i], soon()).value();
    CHECK(core::sha256(bytes.view()) == artifacts[i]);
    CHECK(f.metrics->stats().cache_hits == i + 1);
    (void)f.release->artifact(table, artifacts[i], soon()).value();
    CHECK(f.metrics->stats().cache_hits == i + 1);
  }
  CHECK(f.metrics->stats().packs_fetched == 0);
  (void)f.release->artifact(table, artifacts[2], soon()).value();
  CHECK(f.metrics->stats().packs_fetched == 1);
}

TEST_CASE("a damaged entry is not read ahead, and fetched when it is asked for") {
  Fixture f({"sm_90"});
  const auto tables = f.release->tables(f.release->targets()[0], soon()).value();
  const auto& table = *tables->table(0).value();
  const core::Digest digest = artifacts_of(table)[0];
  (void)f.release->artifact(table, digest, soon()).value();
  LookAhead(*f.release, f.cache).loaded(digest);
  REQUIRE(f.cache->flush());
  const auto path = f.scratch / "cache" / "v1" / "artifacts" / "sha256" / digest.hex();
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 1);

  f.start();
  LookAhead second(*f.release, f.cache);
  second.begin(std::nullopt, soon());
  second.wait();
  CHECK(f.metrics->stats().damaged == 1);
  const auto bytes = f.release->artifact(table, digest, soon()).value();
  CHECK(core::sha256(bytes.view()) == digest);
  CHECK(f.metrics->stats().packs_fetched == 1);
}

TEST_CASE("which catalogues are read ahead") {
  Fixture f({"sm_90", "sm_120"});
  const auto opened = [&](std::optional<core::Capability> capability) {
    f.start();
    LookAhead ahead(*f.release, f.cache);
    ahead.begin(capability, soon());
    ahead.wait();
    std::vector<std::string> names;
    for (const auto& target : f.release->opened_targets()) {
      names.push_back(target.text());
    }
    return names;
  };
  using Names = std::vector<std::string>;
  CHECK(opened(std::nullopt).empty());  // nobody knows which
  CHECK(opened(core::Capability{9, 0}) == Names{"sm_90"});
  CHECK(opened(core::Capability{7, 5}).empty());
  f.cache->put_record(f.record(), R"({"artifacts":[],"targets":["sm_120"]})");
  CHECK(opened(std::nullopt) == Names{"sm_120"});
  CHECK(opened(core::Capability{9, 0}) == Names{"sm_90"});
  for (const char* nonsense : {"", "{", "[]", "{}", R"({"artifacts":7,"targets":{}})",
                               R"({"artifacts":["x",1],"targets":["sm_x",null]})"}) {
    f.cache->put_record(f.record(), nonsense);
    CHECK(opened(std::nullopt).empty());
  }
}

TEST_CASE("the record follows a program that never ends") {
  Fixture f({"sm_90"});
  const auto tables = f.release->tables(f.release->targets()[0], soon()).value();
  const auto artifacts = artifacts_of(*tables->table(0).value());
  auto ahead = std::make_unique<LookAhead>(*f.release, f.cache);
  const auto known = [&](const core::Digest& digest) {
    const auto text = f.cache->find_record(f.record());
    return text && text->find(digest.hex()) != std::string::npos;
  };
  ahead->loaded(artifacts[0]);
  CHECK(known(artifacts[0]));
  ahead->loaded(artifacts[1]);
  CHECK(known(artifacts[1]));
  ahead->loaded(artifacts[2]);
  CHECK_FALSE(known(artifacts[2]));  // at the next doubling, or the end
  ahead.reset();
  CHECK(known(artifacts[2]));
}

TEST_CASE("what is expected is there before it is asked for, fetched once") {
  Fixture f({"sm_90"});
  const auto tables = f.release->tables(f.release->targets()[0], soon()).value();
  const auto& table = *tables->table(0).value();
  const auto artifacts = artifacts_of(table);
  const auto expect_all = [&] {
    LookAhead ahead(*f.release, f.cache);
    for (int again = 0; again < 2; ++again) {
      for (const core::Digest& artifact : artifacts) {
        ahead.expect(table, artifact, soon());
      }
    }
    ahead.wait();
  };
  expect_all();
  CHECK(f.metrics->stats().packs_fetched == 1);
  CHECK(f.metrics->stats().cache_misses == 1);
  // Neither the source nor the cache is looked at any more.
  REQUIRE(f.cache->flush());
  std::filesystem::remove_all(f.scratch / "layout");
  for (const core::Digest& artifact : artifacts) {
    CHECK(core::sha256(f.release->artifact(table, artifact, soon()).value().view()) == artifact);
  }
  CHECK(f.metrics->stats().cache_hits == 0);
}

TEST_CASE("what is expected and cannot be had is no error until somebody needs it") {
  Fixture f({"sm_90"});
  const auto tables = f.release->tables(f.release->targets()[0], soon()).value();
  const auto& table = *tables->table(0).value();
  std::filesystem::remove_all(f.scratch / "layout");
  {
    LookAhead ahead(*f.release, f.cache);
    ahead.expect(table, table.entries[0].artifact, soon());
  }
  CHECK(f.metrics->stats().packs_fetched == 0);
  CHECK_FALSE(f.release->artifact(table, table.entries[0].artifact, soon()));
}
