// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>

#include <catch2/catch_test_macros.hpp>

#include "core/base/file.hpp"
#include "core/wire/codec.hpp"
#include "core/wire/oci.hpp"
#include "store/maintenance.hpp"
#include "store/measurements.hpp"
#include "store/releases.hpp"
#include "store/tokens.hpp"
#include "tests/store/scratch.hpp"

namespace cubinary::store {
namespace {

/// What every golden store holds, in the terms of today's interface.
void fill(Store& store) {
  std::vector<CandidateId> ids;
  for (unsigned i = 0; i < 6; ++i) {
    ids.push_back(put_made_up(store, "rmsnorm", i));
  }
  must(repack_artifacts(store, "rmsnorm", "sm_90"));
  must(store.write([&](Writer& writer) -> core::Result<void> {
    TRY(set_current(writer, "rmsnorm", "sm_90", ids));
    DeviceSession session;
    TRY_ASSIGN(session.device_class, core::DeviceClass::parse("sm90-s132-l60M-b6144-m144G"));
    session.product = "H200";
    session.driver = "580.159.04";
    Measurement measurement;
    TRY_ASSIGN(measurement.session, put_session(writer, session));
    measurement.candidate = ids[2];
    measurement.config = {{"VEC", std::int64_t{4}}, {"WARPS", std::int64_t{8}}};
    measurement.shape = {{"cols", 4096}, {"rows", 64}};
    measurement.samples_us = {10.5, 11.5};
    measurement.median_us = 11;
    TRY(put_measurement(writer, measurement));
    TRY(put_blob(writer, core::oci::k_index_type, core::as_bytes("{\"manifests\":[]}")));
    TRY(put_blob(writer, core::oci::k_manifest_type, core::as_bytes("{\"signature\":1}")));
    NewRelease release;
    release.release.name = "2026.11";
    release.release.index = core::sha256("{\"manifests\":[]}");
    release.release.created = 1'796'000'000;
    release.release.targets = {"sm_90"};
    release.artifacts = {core::sha256(made_up_cubin(2))};
    TRY_ASSIGN(const Release made, put_release(writer, release));
    TRY(put_signature(writer, made.id, core::sha256("{\"signature\":1}"), {}));
    TRY(create_token(writer, "ci", 3, 0));
    return {};
  }));
}

void check(const Store& store) {
  CHECK(must(fsck(store)).empty());
  const Stats found = must(stats(store));
  CHECK(found.kernels == 1);
  CHECK(found.candidates_ok == 6);
  CHECK(found.artifacts == 6);
  CHECK(found.dictionary_bytes > 0);
  const Reader reader = must(store.reader());
  for (unsigned i = 0; i < 6; ++i) {
    CHECK(must(read_artifact(reader, core::sha256(made_up_cubin(i)))) == made_up_cubin(i));
    CHECK(must(find_candidate(reader, made_up_candidate("rmsnorm", i).build_key)));
  }
  CHECK(must(find_kernel(reader, "rmsnorm"))->manifest == "name = \"rmsnorm\"\n");
  const auto won = must(winners(reader, "rmsnorm", "sm_90"));
  REQUIRE(won.size() == 1);
  CHECK(won[0].median_us == 11);
  CHECK(won[0].shape == core::Shape{{"cols", 4096}, {"rows", 64}});
  CHECK(won[0].product == "H200");
  const auto release = must(find_release(reader, "2026.11"));
  REQUIRE(release);
  CHECK(release->serial == 1);
  CHECK(release->created == 1'796'000'000);
  CHECK(release->signature_manifest == core::sha256("{\"signature\":1}"));
  CHECK(must(read_blob(reader, release->index, 100)) == core::to_bytes("{\"manifests\":[]}"));
  CHECK(must(list_referrers(reader, release->index)).size() == 1);
  CHECK(must(list_tokens(reader)).at(0).scopes == 3);
}

TEST_CASE("stores of every format read as they did when written") {
  const Scratch scratch;
  for (const char* name : {"v1.db.zst"}) {
    const core::Bytes frame =
        must(core::read_file(std::string(CUBINARY_GOLDEN) + "/" + name, 1U << 20U));
    core::DecompressOptions options;
    options.max_bytes = 4U << 20U;
    must(core::write_file_atomic(scratch / "s.db", must(core::decompress(frame, options))));
    check(must(Store::open(scratch / "s.db", {Access::write, false, "test"})));
    check(open_read(scratch / "s.db"));
  }
}

// Run once when a format is new: CUBINARY_NEW_GOLDEN=tests/store/golden/vN.db.zst test_store
// '[new-golden]'
TEST_CASE("write a golden store of today's format", "[.new-golden]") {
  const char* path = std::getenv("CUBINARY_NEW_GOLDEN");
  REQUIRE(path != nullptr);
  const Scratch scratch;
  {
    Store store = open_new(scratch / "s.db");
    fill(store);
    check(store);
  }
  const core::Bytes bytes = must(core::read_file(scratch / "s.db", 4U << 20U));
  must(core::write_file_atomic(path, must(core::compress(bytes))));
}

}  // namespace
}  // namespace cubinary::store
