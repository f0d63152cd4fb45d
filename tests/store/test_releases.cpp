// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch_test_macros.hpp>

#include "core/wire/oci.hpp"
#include "store/connection.hpp"
#include "store/maintenance.hpp"
#include "store/releases.hpp"
#include "tests/store/scratch.hpp"

namespace cubinary::store {
namespace {

using core::ErrorCode;

core::LocatedExpression expr(std::string_view text) {
  return {must(core::Expression::parse(text)), {}};
}

core::TableEntry entry(const char* type, const core::Digest& artifact) {
  core::TableEntry made;
  made.types = {{"T", type}};
  made.artifact = artifact;
  made.size = 6000;
  made.symbols = {{"_Z4copy", 1024, 32, 0, 0}};
  return made;
}

/// `copy` for a target, in f32 and f16.
core::Catalogue catalogue(std::string_view target, const core::Digest& artifact) {
  core::KernelTable table;
  table.name = "copy";
  table.types = {{"T", {"f32", "f16"}, {}, {}}};
  core::Axis axis;
  axis.name = "n";
  table.axes = {axis};
  core::Argument argument;
  argument.name = "y";
  argument.kind = core::ArgumentKind::out;
  argument.type = "T";
  argument.length = expr("n");
  table.arguments = {argument};
  core::Step step;
  step.name = "main";
  step.entry = "copy<{T}>";
  step.launch.grid = {expr("n")};
  step.launch.block = {expr("32")};
  step.arguments = {0};
  table.steps = {step};
  table.interface = core::sha256(core::interface_text(table.arguments));
  table.entries = {entry("f16", artifact), entry("f32", artifact)};
  table.pack = core::sha256("pack");
  table.pack_size = 100;
  table.pack_raw_size = 6000;
  return core::Catalogue{"r", must(core::Target::parse(target)), {13, 0}, 580, {table}};
}

struct Fixture {
  Scratch scratch;
  Store store = open_new(scratch / "s.db");
  core::Digest artifact = core::sha256(made_up_cubin(1));

  Fixture() { put_made_up(store, "copy", 1); }

  core::Digest put(std::string_view text) {
    must(store.write([&](Writer& writer) {
      return put_blob(writer, core::oci::k_manifest_type, core::as_bytes(text));
    }));
    return core::sha256(text);
  }
  core::Result<Release> release(const std::string& name, const core::Digest& index,
                                const std::vector<core::Digest>& blobs = {},
                                bool with_tables = false) {
    NewRelease made;
    made.release.name = name;
    made.release.index = index;
    made.release.created = 1234;
    made.release.expires = 5678;
    made.release.serial = 99;
    made.release.targets = {"sm_90", "sm_120"};
    made.blobs = blobs;
    made.artifacts = {artifact};
    if (with_tables) {
      made.catalogues = {catalogue("sm_90", artifact), catalogue("sm_120", artifact)};
    }
    Release result;
    const auto written = store.write([&](Writer& writer) -> core::Result<void> {
      TRY_ASSIGN(result, put_release(writer, made));
      return {};
    });
    return written ? core::Result<Release>(result) : core::fail(written.error());
  }
};

TEST_CASE("a release is numbered, tagged, found and listed") {
  Fixture f;
  CHECK(must(next_serial(must(f.store.reader()))) == 1);
  const core::Digest pack = f.put("pack");
  const Release first = must(f.release("2026.1", f.put("index 1"), {pack}));
  CHECK(first.serial == 1);
  const Release second = must(f.release("2026.2", f.put("index 2"), {pack}));
  CHECK(second.serial == 2);
  const Reader reader = must(f.store.reader());
  const auto found = must(find_release(reader, "2026.1"));
  REQUIRE(found);
  CHECK(found->id == first.id);
  CHECK(found->index == core::sha256("index 1"));
  CHECK(found->created == 1234);
  CHECK(found->expires == 5678);
  CHECK_FALSE(found->signature_manifest);
  CHECK(found->targets == std::vector<std::string>{"sm_90", "sm_120"});
  CHECK_FALSE(must(find_release(reader, "2026.3")));
  const auto releases = must(list_releases(reader));
  REQUIRE(releases.size() == 2);
  CHECK(releases[1].name == "2026.2");
  const auto tag = must(find_tag(reader, "2026.2"));
  REQUIRE(tag);
  CHECK(tag->manifest == core::sha256("index 2"));
  CHECK(tag->media_type == core::oci::k_index_type);
  const auto blobs = must(release_blobs(reader, second.id));
  REQUIRE(blobs.size() == 2);
  CHECK(blobs[0].digest == pack);
  CHECK(blobs[1].digest == core::sha256("index 2"));
  CHECK(must(stats(f.store)).releases == 2);
}

TEST_CASE("a release is refused whole") {
  Fixture f;
  must(f.release("taken", f.put("index 1")));
  CHECK(code_of(f.release("taken", f.put("index 2"))) == ErrorCode::exists);
  CHECK(code_of(f.release("other", core::sha256("index 1"))) == ErrorCode::exists);
  CHECK(code_of(f.release("no blob", f.put("index 2"))) == ErrorCode::usage);
  CHECK(code_of(f.release("noblob", core::sha256("absent"))) == ErrorCode::not_found);
  CHECK(code_of(f.release("noblob", f.put("index 2"), {core::sha256("absent")})) ==
        ErrorCode::not_found);
  f.artifact = core::sha256("absent");
  CHECK(code_of(f.release("noartifact", f.put("index 2"))) == ErrorCode::not_found);
  CHECK(must(list_releases(must(f.store.reader()))).size() == 1);
  CHECK(must(next_serial(must(f.store.reader()))) == 2);
}

TEST_CASE("a signature is attached, found by subject and tag, and replaced") {
  Fixture f;
  const core::Digest shared = f.put("{}");
  const Release release = must(f.release("r1", f.put("index"), {shared}));
  const auto sign = [&](std::string_view manifest, std::string_view envelope) {
    const core::Digest digest = f.put(manifest);
    const std::vector<core::Digest> blobs{f.put(envelope), shared};
    must(f.store.write(
        [&](Writer& writer) { return put_signature(writer, release.id, digest, blobs); }));
    return digest;
  };
  sign("signature 1", "envelope 1");
  const core::Digest newest = sign("signature 2", "envelope 2");
  const Reader reader = must(f.store.reader());
  CHECK(must(find_release(reader, "r1"))->signature_manifest == newest);
  const auto tag = must(find_tag(reader, core::oci::signature_tag(core::sha256("index"))));
  REQUIRE(tag);
  CHECK(tag->manifest == newest);
  const auto referrers = must(list_referrers(reader, core::sha256("index")));
  REQUIRE(referrers.size() == 1);
  CHECK(referrers[0].manifest.digest == newest);
  CHECK(referrers[0].manifest.size == 11);
  CHECK(referrers[0].artifact_type == core::oci::k_signature_artifact_type);
  CHECK(must(list_referrers(reader, core::sha256("other"))).empty());
  std::vector<core::Digest> blobs;
  for (const BlobInfo& blob : must(release_blobs(reader, release.id))) {
    blobs.push_back(blob.digest);
  }
  CHECK(blobs == std::vector<core::Digest>{shared, core::sha256("index"), newest,
                                           core::sha256("envelope 2")});
  const auto nothing =
      f.store.write([&](Writer& writer) { return put_signature(writer, 999, newest, {}); });
  CHECK(code_of(nothing) == ErrorCode::not_found);
}

TEST_CASE("channels move, release names do not") {
  Fixture f;
  const core::Digest one = f.put("index 1");
  const core::Digest two = f.put("index 2");
  must(f.release("r1", one));
  must(f.release("r2", two));
  const auto tag = [&](const std::string& name, const core::Digest& digest) {
    return f.store.write([&](Writer& writer) {
      return put_tag(writer, {name, digest, std::string(core::oci::k_index_type)});
    });
  };
  must(tag("prod", one));
  must(tag("prod", two));
  CHECK(must(find_tag(must(f.store.reader()), "prod"))->manifest == two);
  CHECK(code_of(tag("r1", two)) == ErrorCode::exists);
  must(tag("r1", one));
  CHECK(code_of(tag("-bad", one)) == ErrorCode::usage);
  CHECK(code_of(tag("x", core::sha256("absent"))) == ErrorCode::not_found);
  CHECK(code_of(f.release("prod", f.put("index 3"))) == ErrorCode::exists);
}

TEST_CASE("tags are listed in byte order, page by page") {
  Fixture f;
  const core::Digest digest = f.put("index");
  must(f.store.write([&](Writer& writer) -> core::Result<void> {
    for (const char* name : {"b", "a", "B", "_", "a.1", "9"}) {
      TRY(put_tag(writer, {name, digest, "x"}));
    }
    return {};
  }));
  const Reader reader = must(f.store.reader());
  using Names = std::vector<std::string>;
  CHECK(must(list_tags(reader, "", 100)) == Names{"9", "B", "_", "a", "a.1", "b"});
  CHECK(must(list_tags(reader, "", 2)) == Names{"9", "B"});
  CHECK(must(list_tags(reader, "B", 2)) == Names{"_", "a"});
  CHECK(must(list_tags(reader, "aa", 2)) == Names{"b"});
  CHECK(must(list_tags(reader, "b", 2)).empty());
  CHECK(must(list_tags(reader, "", 0)).empty());
}

TEST_CASE("released tables come in parts, entries by types and device class") {
  Fixture f;
  const Release release = must(f.release("r1", f.put("index"), {}, true));
  const Reader reader = must(f.store.reader());
  const auto kernels = must(find_released(reader, release.id, "copy"));
  REQUIRE(kernels.size() == 2);
  CHECK(kernels[0].target.text() == "sm_120");
  CHECK(kernels[1].target.text() == "sm_90");
  const core::KernelTable table = must(read_released_table(reader, kernels[1].id));
  CHECK(table.name == "copy");
  CHECK(table.interface == catalogue("sm_90", f.artifact).kernels[0].interface);
  CHECK(table.steps.at(0).launch.block.at(0).expression.text() == "32");
  CHECK(table.entries.empty());

  const core::Types f32{{"T", "f32"}};
  CHECK(must(released_classes(reader, kernels[1].id, f32)) == std::vector<std::string>{""});
  const auto entries = must(read_released_entries(reader, kernels[1].id, f32, ""));
  REQUIRE(entries.size() == 1);
  CHECK(entries[0].types == f32);
  CHECK(entries[0].artifact == f.artifact);
  CHECK(
      must(read_released_entries(reader, kernels[1].id, f32, "sm90-s132-l50M-b5120-m80G")).empty());
  CHECK(must(read_released_entries(reader, kernels[1].id)).size() ==
        catalogue("sm_90", f.artifact).kernels[0].entries.size());

  for (const core::Types& types : {core::Types{{"T", "bf16"}}, core::Types{}}) {
    CHECK(must(released_classes(reader, kernels[0].id, types)).empty());
    CHECK(must(read_released_entries(reader, kernels[0].id, types, "")).empty());
  }
  CHECK(must(find_released(reader, release.id, "cpy")).empty());
  CHECK(must(find_released(reader, 999, "copy")).empty());
  CHECK(must(newest_release(reader)).value().id == release.id);
  CHECK(must(find_release_by_index(reader, release.index)).value().name == "r1");
}

TEST_CASE("released entries are found by index") {
  Fixture f;
  const Reader reader = must(f.store.reader());
  Statement plan = must(reader.connection().query(
      "EXPLAIN QUERY PLAN SELECT json FROM released_entry WHERE released_id = ?1 AND "
      "types_id = ?2 AND device_class = ?3 ORDER BY id"));
  REQUIRE(must(plan.step()));
  CHECK(plan.text(3).find("(released_id=? AND types_id=? AND device_class=?)") !=
        std::string::npos);
  CHECK_FALSE(must(plan.step()));  // no sorting
}

}  // namespace
}  // namespace cubinary::store
