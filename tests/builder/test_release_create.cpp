// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <set>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "builder/release/release.hpp"
#include "builder/release/view.hpp"
#include "core/wire/codec.hpp"
#include "core/wire/oci.hpp"
#include "store/changes.hpp"
#include "store/maintenance.hpp"
#include "tests/builder/synthetic_store.hpp"

using namespace cubinary;
using namespace cubinary::tests;
using Catch::Matchers::ContainsSubstring;
using core::ErrorCode;

namespace {

builder::ReleaseRequest request(const std::string& name) {
  builder::ReleaseRequest result;
  result.name = name;
  result.created = 1'800'000'000;
  return result;
}

std::vector<builder::ReleasedTarget> targets_of(const store::Store& store,
                                                const std::string& name) {
  std::vector<builder::ReleasedTarget> targets;
  const store::Reader reader = must(store.reader());
  const auto release = must(builder::require_release(reader, name));
  const auto visit = [&](const builder::ReleasedTarget& target) -> core::Result<void> {
    targets.push_back(target);
    return {};
  };
  must(builder::for_each_target(reader, release, visit));
  return targets;
}

/// `T=f16 rank 0 VEC=8 WARPS=4`, a line an entry.
std::vector<std::string> lines_of(const core::KernelTable& table) {
  std::vector<std::string> lines;
  for (const core::TableEntry& entry : table.entries) {
    lines.push_back(
        core::to_display(entry.types) + " " + core::to_display(entry.shape) + " " +
        (entry.origin == core::Origin::tuned ? entry.device_class : std::to_string(entry.rank)) +
        ": " + core::to_display(entry.config));
  }
  return lines;
}

/// The error of a release that must not come to be, and nothing of it may stay.
core::Error refusal(store::Store& store, const builder::ReleaseRequest& asked) {
  const auto before = must(store::list_releases(must(store.reader()))).size();
  const auto result = builder::create_release(store, asked);
  REQUIRE_FALSE(result.has_value());
  CHECK(must(store::list_releases(must(store.reader()))).size() == before);
  return result.error();
}

}  // namespace

TEST_CASE("an untuned release holds each combination's preferences, then its default") {
  const Scratch folder;
  store::Store store = create_store(folder.path() / "s.db");
  fill(store, scale_manifest(), {"sm_90", "sm_120"});
  fill(store, attend_manifest(), {"sm_90"});

  std::vector<std::string> heard;
  const auto created = must(builder::create_release(
      store, request("r1"),
      [&](const builder::ReleasedKernel& kernel) { heard.push_back(builder::describe(kernel)); }));
  CHECK(heard ==
        std::vector<std::string>{"attend sm_90: 2 entries, 0 tuned, 2 untuned (manifest default)",
                                 "scale sm_90: 5 entries, 0 tuned, 5 untuned (manifest default)",
                                 "scale sm_120: 5 entries, 0 tuned, 5 untuned (manifest default)"});
  CHECK(created.notes ==
        std::vector<std::string>{"kernel attend has no cubin for sm_120: left out"});
  CHECK(created.release.serial == 1);
  CHECK(created.release.targets == std::vector<std::string>{"sm_90", "sm_120"});

  const auto targets = targets_of(store, "r1");
  REQUIRE(targets.size() == 2);
  const core::Catalogue& catalogue = targets[0].catalogue;
  CHECK(catalogue.release == "r1");
  CHECK(catalogue.toolkit == core::ToolkitVersion{13, 0});
  CHECK(catalogue.minimum_driver ==
        core::minimum_driver({13, 0}, must(core::Target::parse("sm_90"))));
  REQUIRE(catalogue.kernels.size() == 2);
  CHECK(lines_of(catalogue.kernels[0]) ==
        std::vector<std::string>{"T=f16 d=64 0: STAGES=2", "T=f16 d=128 0: STAGES=2"});
  CHECK(lines_of(catalogue.kernels[1]) ==
        std::vector<std::string>{"T=f16 - 0: VEC=8 WARPS=4", "T=f16 - 1: VEC=4 WARPS=8",
                                 "T=f16 - 2: VEC=1 WARPS=4", "T=f32 - 0: VEC=4 WARPS=8",
                                 "T=f32 - 1: VEC=1 WARPS=4"});
  const core::TableEntry& entry = catalogue.kernels[1].entries.front();
  CHECK(entry.provenance.at("toolkit") == "13.0");
  CHECK(entry.provenance.at("backend") == "nvrtc");
  CHECK(entry.provenance.at("compiler") == "made-up compiler 13.0.88");
  CHECK(entry.provenance.at("build_key").size() == 64);
  REQUIRE(entry.symbols.size() == 1);
  CHECK(entry.symbols[0].symbol == "_Zscale0");
}

TEST_CASE("a pack is one frame over the used artifacts, ascending by digest") {
  const Scratch folder;
  store::Store store = create_store(folder.path() / "s.db");
  fill(store, scale_manifest(), {"sm_120"});
  must(builder::create_release(store, request("r1")));

  const auto targets = targets_of(store, "r1");
  REQUIRE(targets.size() == 1);
  REQUIRE(targets[0].catalogue.kernels.size() == 1);
  const core::KernelTable& table = targets[0].catalogue.kernels[0];
  REQUIRE(targets[0].manifest.layers.size() == 1);
  const core::oci::Descriptor& layer = targets[0].manifest.layers[0];
  CHECK(targets[0].manifest.artifact_type == core::oci::k_release_artifact_type);
  CHECK(layer.media_type == core::oci::k_pack_type);
  CHECK(layer.digest == table.pack);
  CHECK(layer.size == table.pack_size);
  CHECK(layer.annotations.at("dev.cubinary.kernel") == "scale");

  const auto frame = must(store::read_blob(must(store.reader()), table.pack, table.pack_size));
  core::DecompressOptions bound;
  bound.max_bytes = table.pack_raw_size;
  const auto raw = must(core::decompress(frame, bound));
  REQUIRE(raw.size() == table.pack_raw_size);
  std::map<std::uint64_t, core::Digest> places;
  std::uint64_t used = 0;
  for (const core::TableEntry& entry : table.entries) {
    const core::ByteView bytes = core::ByteView(raw).subspan(entry.offset, entry.size);
    CHECK(core::sha256(bytes) == entry.artifact);
    used += places.emplace(entry.offset, entry.artifact).second ? entry.size : 0;
  }
  // VEC=2 was built, but no entry uses it: the pack holds five artifacts and nothing between them.
  CHECK(places.size() == 5);
  CHECK(used == raw.size());
  CHECK(std::is_sorted(places.begin(), places.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; }));
}

TEST_CASE("winners ship as tuned entries with their time, device class and origin") {
  const Scratch folder;
  store::Store store = create_store(folder.path() / "s.db");
  fill(store, scale_manifest(), {"sm_120"});
  measure_scale(store, "sm_120", "f16", 2, 4096, 10.0);
  measure_scale(store, "sm_120", "f16", 4, 4096, 12.0);
  const auto created = must(builder::create_release(store, request("r1")));
  REQUIRE(created.kernels.size() == 1);
  CHECK(created.kernels[0].tuned == 1);
  CHECK(created.kernels[0].artifacts == 6);
  CHECK(builder::describe(created.kernels[0]) ==
        "scale sm_120: 6 entries, 1 tuned, 5 untuned (manifest default)");

  const auto targets = targets_of(store, "r1");
  const auto& entries = targets.at(0).catalogue.kernels.at(0).entries;
  const auto tuned = std::find_if(
      entries.begin(), entries.end(),
      [](const core::TableEntry& entry) { return entry.origin == core::Origin::tuned; });
  REQUIRE(tuned != entries.end());
  CHECK(core::to_display(tuned->config) == "VEC=2 WARPS=8");
  CHECK(core::to_display(tuned->shape) == "n=4096");
  CHECK(tuned->device_class == "sm120-s188-l128M-b512-m96G");
  CHECK(tuned->time_us == 10.0);
  CHECK(tuned->confidence == 0.01);
  CHECK(tuned->provenance.at("driver") == "580.1");
  CHECK(tuned->provenance.at("product") == "Made-up GPU");
  CHECK(tuned->provenance.at("compile_seconds") == "0.0125");
}

TEST_CASE("the same store content gives the same bytes") {
  const Scratch folder;
  store::Store first = create_store(folder.path() / "first.db");
  fill(first, scale_manifest(), {"sm_90", "sm_120"});
  fill(first, attend_manifest(), {"sm_90"});
  store::Store second = create_store(folder.path() / "second.db");
  FillOptions reversed;
  reversed.reversed = true;
  fill(second, attend_manifest(), {"sm_90"}, reversed);
  fill(second, scale_manifest(), {"sm_120", "sm_90"}, reversed);

  const auto a = must(builder::create_release(first, request("r1")));
  auto later = request("r1");
  later.created += 1000;
  later.expires = later.created + 1;
  const auto b = must(builder::create_release(second, later));
  CHECK(a.release.index == b.release.index);
  const auto blobs_of = [](const store::Store& store, const store::Release& release) {
    std::set<core::Digest> digests;
    for (const auto& blob : must(store::release_blobs(must(store.reader()), release.id))) {
      digests.insert(blob.digest);
    }
    return digests;
  };
  // index, two manifests, two catalogues, three packs
  CHECK(blobs_of(first, a.release).size() == 8);
  CHECK(blobs_of(first, a.release) == blobs_of(second, b.release));
}

TEST_CASE("a release may be narrowed to targets and kernels") {
  const Scratch folder;
  store::Store store = create_store(folder.path() / "s.db");
  fill(store, scale_manifest(), {"sm_90", "sm_120"});
  fill(store, attend_manifest(), {"sm_90"});
  auto asked = request("r1");
  asked.targets = {"sm_90"};
  asked.kernels = "a*";
  const auto created = must(builder::create_release(store, asked));
  REQUIRE(created.kernels.size() == 1);
  CHECK(created.kernels[0].kernel == "attend");
  CHECK(created.release.targets == std::vector<std::string>{"sm_90"});
  CHECK(must(builder::create_release(store, request("r2"))).release.serial == 2);

  asked.name = "r3";
  asked.kernels = "skale";
  CHECK(refusal(store, asked).code == ErrorCode::not_found);
  CHECK_THAT(refusal(store, asked).message, ContainsSubstring("did you mean \"scale\"?"));
  asked.kernels.clear();
  asked.targets = {"sm_100"};
  CHECK(refusal(store, asked).code == ErrorCode::not_found);
  CHECK_THAT(refusal(store, asked).message, ContainsSubstring("sm_120, sm_90"));
  asked.targets = {"sm_121x"};
  CHECK(refusal(store, asked).code == ErrorCode::target);
}

TEST_CASE("names outside the tag grammar, taken names and channels are refused") {
  const Scratch folder;
  store::Store store = create_store(folder.path() / "s.db");
  fill(store, scale_manifest(), {"sm_120"});
  for (const char* name : {"", ".r1", "-r1", "r 1", "r/1", "r:1", "sha256-00"}) {
    CAPTURE(name);
    CHECK(refusal(store, request(name)).code == ErrorCode::usage);
  }
  CHECK(refusal(store, request(std::string(129, 'a'))).code == ErrorCode::usage);
  must(builder::create_release(store, request("r1")));
  CHECK(refusal(store, request("r1")).code == ErrorCode::exists);
  must(builder::promote_release(store, "r1", "prod"));
  CHECK(refusal(store, request("prod")).code == ErrorCode::exists);
  auto expired = request("r2");
  expired.expires = expired.created;
  CHECK(refusal(store, expired).code == ErrorCode::usage);
}

TEST_CASE("a store without candidates has nothing to release") {
  const Scratch folder;
  store::Store store = create_store(folder.path() / "s.db");
  CHECK(refusal(store, request("r1")).code == ErrorCode::not_found);
  FillOptions failing;
  failing.adjust = [](store::Candidate& candidate) {
    candidate.status = store::CandidateStatus::failed;
    return true;
  };
  fill(store, scale_manifest(), {"sm_120"}, failing);
  const core::Error error = refusal(store, request("r1"));
  CHECK(error.code == ErrorCode::not_found);
  CHECK_THAT(error.message, ContainsSubstring("no candidate compiled"));
}

TEST_CASE("a default config without a cubin is named, and left out only when told") {
  const Scratch folder;
  store::Store store = create_store(folder.path() / "s.db");
  FillOptions failing;
  failing.adjust = [](store::Candidate& candidate) {
    if (candidate.role == store::CandidateRole::kernel && candidate.types.at("T") == "f16") {
      const std::int64_t vec = must(core::to_integer(candidate.config.at("VEC")));
      if (vec == 1 || vec == 8) {
        candidate.status = store::CandidateStatus::failed;
        candidate.message = "too many cooks";
      }
    }
    return true;
  };
  fill(store, scale_manifest(), {"sm_120"}, failing);
  auto asked = request("r1");
  const core::Error error = refusal(store, asked);
  CHECK(error.code == ErrorCode::compile_failed);
  CHECK_THAT(error.message,
             ContainsSubstring("kernel scale, sm_120: the default config VEC=1 WARPS=4 for T=f16 "
                               "failed to compile: too many cooks"));

  asked.keep_going = true;
  const auto created = must(builder::create_release(store, asked));
  REQUIRE(created.notes.size() == 2);
  CHECK_THAT(created.notes[0], ContainsSubstring("the preferred config VEC=8 WARPS=4 for T=f16"));
  CHECK_THAT(created.notes[1], ContainsSubstring("the default config VEC=1 WARPS=4 for T=f16"));
  CHECK(lines_of(targets_of(store, "r1").at(0).catalogue.kernels.at(0)) ==
        std::vector<std::string>{"T=f16 - 0: VEC=4 WARPS=8", "T=f32 - 0: VEC=4 WARPS=8",
                                 "T=f32 - 1: VEC=1 WARPS=4"});
}

TEST_CASE("a default config that was never built is named") {
  const Scratch folder;
  store::Store store = create_store(folder.path() / "s.db");
  FillOptions missing;
  missing.adjust = [](store::Candidate& candidate) {
    return candidate.config != core::Config{{"VEC", std::int64_t{1}}};
  };
  fill(store, scale_manifest(), {"sm_120"}, missing);
  CHECK_THAT(refusal(store, request("r1")).message,
             ContainsSubstring("for T=f32 has no candidate: run `cubinary build --target sm_120`"));
}

TEST_CASE("cubins of one target built under an older manifest are not mixed in") {
  const Scratch folder;
  store::Store store = create_store(folder.path() / "s.db");
  fill(store, scale_manifest(), {"sm_90", "sm_120"});
  fill(store, scale_manifest() + "# edited\n", {"sm_120"});
  auto asked = request("r1");
  const core::Error error = refusal(store, asked);
  CHECK(error.code == ErrorCode::compile_failed);
  CHECK_THAT(error.message, ContainsSubstring("scale, sm_90: its manifest has changed"));
  CHECK_THAT(error.message, !ContainsSubstring("scale, sm_120"));

  asked.keep_going = true;
  CHECK(must(builder::create_release(store, asked)).release.targets ==
        std::vector<std::string>{"sm_120"});
  fill(store, scale_manifest() + "# edited\n", {"sm_90"});
  CHECK(must(builder::create_release(store, request("r2"))).release.targets.size() == 2);
}

namespace {

std::vector<core::TableEntry> entries_of(const store::Store& store, const std::string& name,
                                         const std::string& target) {
  for (const builder::ReleasedTarget& released : targets_of(store, name)) {
    if (released.catalogue.target.text() == target) {
      return released.catalogue.kernels.front().entries;
    }
  }
  return {};
}

}  // namespace

TEST_CASE("A winner ships with what makes it believable, and what devices proved is attested") {
  Scratch folder;
  store::Store store = create_store(folder.path() / "s.db");
  fill(store, scale_manifest(), {"sm_120"});
  MadeUpMeasurement fast;
  fast.vec = 4;
  fast.median_us = 8;
  const auto winner = measure(store, fast);
  MadeUpMeasurement plain = fast;  // what an untuned release would run
  plain.vec = 1;
  plain.warps = 4;
  plain.median_us = 12;
  const auto baseline = measure(store, plain);
  put_tuning(store, fast, {winner, baseline}, 0, true);
  MadeUpMeasurement elsewhere = fast;
  elsewhere.device_class = "sm120-s84-l64M-b256-m16G";
  measure(store, elsewhere);
  must(builder::create_release(store, request("r1")));

  std::size_t tuned = 0;
  std::size_t attested_defaults = 0;
  for (const core::TableEntry& entry : entries_of(store, "r1", "sm_120")) {
    if (entry.origin != core::Origin::tuned) {
      attested_defaults += entry.provenance.contains("attested") ? 1 : 0;
      continue;
    }
    ++tuned;
    CHECK(entry.config.at("VEC") == core::TunableValue(std::int64_t{4}));
    CHECK(entry.time_us == 8);
    CHECK(std::abs(*entry.confidence - 0.01) < 1e-12);
    CHECK(entry.provenance.at("driver") == "580.1");
    CHECK(entry.provenance.at("samples") == "1");
    CHECK(entry.provenance.at("error") == "0.5");
    CHECK(entry.provenance.at("search") ==
          (entry.device_class.find("s188") != std::string::npos ? "tuned" : "measured"));
    // One cubin and config, proved on both devices, whichever the entry is for.
    CHECK(entry.provenance.at("attested") ==
          "sm120-s188-l128M-b512-m96G driver 580.1, sm120-s84-l64M-b256-m16G driver 580.1");
  }
  CHECK(tuned == 2);
  // VEC=1 WARPS=4 in f32; `prefer`s VEC=4 WARPS=8, which won, too.
  CHECK(attested_defaults == 2);
}

TEST_CASE("What a tuning cut short has not compared with what runs untuned is no winner") {
  const Scratch folder;
  store::Store store = create_store(folder.path() / "s.db");
  fill(store, scale_manifest(), {"sm_120"});
  MadeUpMeasurement slow;
  slow.vec = 1;
  const auto only = measure(store, slow);
  put_tuning(store, slow, {only}, 0, false, false);
  const auto cut = must(builder::create_release(store, request("cut")));
  CHECK(cut.kernels.at(0).tuned == 0);
  REQUIRE(cut.notes.size() == 1);
  CHECK_THAT(cut.notes.front(), ContainsSubstring("before what runs untuned was measured"));
  put_tuning(store, slow, {only}, 0, false, true);  // it was what runs untuned
  CHECK(must(builder::create_release(store, request("compared"))).kernels.at(0).tuned == 1);
}

TEST_CASE("What a device found wrong does not ship untold") {
  Scratch folder;
  store::Store store = create_store(folder.path() / "s.db");
  fill(store, scale_manifest(), {"sm_120"});
  MadeUpMeasurement preferred;
  preferred.vec = 4;
  preferred.status = store::MeasurementStatus::wrong;
  measure(store, preferred);
  const auto created = must(builder::create_release(store, request("r1")));
  REQUIRE(created.notes.size() == 1);
  CHECK_THAT(created.notes[0],
             ContainsSubstring("preferred config VEC=4 WARPS=8 for T=f32 was wrong at n=1024"));
  for (const core::TableEntry& entry : entries_of(store, "r1", "sm_120")) {
    CHECK_FALSE((entry.types.at("T") == "f32" &&
                 entry.config.at("VEC") == core::TunableValue(std::int64_t{4})));
  }

  MadeUpMeasurement fallback;
  fallback.vec = 1;
  fallback.warps = 4;
  fallback.status = store::MeasurementStatus::fault;
  measure(store, fallback);
  const auto refused = builder::create_release(store, request("r2"));
  REQUIRE_FALSE(refused.has_value());
  CHECK_THAT(refused.error().message,
             ContainsSubstring("the default config VEC=1 WARPS=4 for T=f32 faulted at n=1024"));

  // Measured again, it was right: only the newest word of a device and driver counts.
  fallback.status = store::MeasurementStatus::ok;
  measure(store, fallback);
  CHECK(builder::create_release(store, request("r3")).has_value());
}

TEST_CASE("others change the store while a release is packed, and the release is of before") {
  const Scratch folder;
  store::Store store = create_store(folder.path() / "s.db");
  fill(store, scale_manifest(), {"sm_90", "sm_120"});
  const auto alone = must(builder::create_release(store, request("alone")));

  int published = 0;
  const auto created =
      must(builder::create_release(store, request("r1"), [&](const builder::ReleasedKernel&) {
        if (published++ == 0) {
          fill(store, attend_manifest(), {"sm_90"});
        }
        must(store.write([](store::Writer& writer) {
          return store::record_change(writer, "test", "while it was packed", {});
        }));
      }));
  CHECK(published == 2);
  REQUIRE(created.kernels.size() == 2);
  CHECK(created.kernels[0].kernel == "scale");
  CHECK(created.kernels[1].kernel == "scale");
  CHECK(created.release.serial == alone.release.serial + 1);
  const auto after = must(builder::create_release(store, request("r2")));
  CHECK(after.kernels.size() == 3);
}

TEST_CASE("a name taken while a release is packed is found taken, and nothing of it stays") {
  const Scratch folder;
  store::Store store = create_store(folder.path() / "s.db");
  fill(store, scale_manifest(), {"sm_90"});
  const auto first = must(builder::create_release(store, request("first")));
  const auto blobs = [&] { return must(store::stats(store)).blob_bytes; };
  const auto before = blobs();

  const auto result =
      builder::create_release(store, request("r1"), [&](const builder::ReleasedKernel&) {
        must(store.write([&](store::Writer& writer) {
          return store::put_tag(writer,
                                {"r1", first.release.index, std::string(core::oci::k_index_type)});
        }));
      });
  REQUIRE_FALSE(result.has_value());
  CHECK(result.error().code == ErrorCode::exists);
  CHECK(blobs() == before);
  CHECK(must(store::list_releases(must(store.reader()))).size() == 1);
}
