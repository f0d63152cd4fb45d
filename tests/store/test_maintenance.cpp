// SPDX-License-Identifier: Apache-2.0
#include <fstream>

#include <catch2/catch_test_macros.hpp>

#include "core/base/file.hpp"
#include "store/connection.hpp"
#include "store/maintenance.hpp"
#include "store/measurements.hpp"
#include "store/releases.hpp"
#include "tests/store/scratch.hpp"

namespace cubinary::store {
namespace {

using core::ErrorCode;
namespace fs = std::filesystem;

std::vector<CandidateId> fill(Store& store, unsigned count) {
  std::vector<CandidateId> ids;
  for (unsigned i = 0; i < count; ++i) {
    ids.push_back(put_made_up(store, "rmsnorm", i));
  }
  must(store.write([&](Writer& writer) { return set_current(writer, "rmsnorm", "sm_90", ids); }));
  return ids;
}

/// Flips one bit of the file where `wanted` lies in it.
void flip_bit_of(const fs::path& path, const core::Bytes& wanted) {
  core::Bytes bytes = must(core::read_file(path, 100U << 20U));
  const auto at = std::search(bytes.begin(), bytes.end(), wanted.begin(), wanted.end());
  REQUIRE(at != bytes.end());
  at[static_cast<std::ptrdiff_t>(wanted.size() / 2)] ^= std::byte{16};
  must(core::write_file_atomic(path, bytes));
}

TEST_CASE("stats count what is there") {
  const Scratch scratch;
  Store store = open_new(scratch / "s.db");
  fill(store, 3);
  must(store.write([](Writer& writer) -> core::Result<void> {
    Candidate failed = made_up_candidate("rmsnorm", 99);
    failed.artifact.reset();
    failed.status = CandidateStatus::failed;
    TRY(put_candidate(writer, failed));
    return put_blob(writer, "x", core::as_bytes("hello"));
  }));
  const Stats found = must(stats(store));
  CHECK(found.kernels == 1);
  CHECK(found.candidates_ok == 3);
  CHECK(found.candidates_failed == 1);
  CHECK(found.artifacts == 3);
  CHECK(found.artifact_raw_bytes == 3 * made_up_cubin(0).size());
  CHECK(found.artifact_stored_bytes > 0);
  CHECK(found.artifact_stored_bytes < found.artifact_raw_bytes);
  CHECK(found.dictionary_bytes == 0);
  CHECK(found.measurements == 0);
  CHECK(found.releases == 0);
  CHECK(found.blob_bytes == 5);
  CHECK(found.file_bytes == fs::file_size(scratch / "s.db") + fs::file_size(scratch / "s.db-wal"));
}

TEST_CASE("a backup of a store in use is a whole store") {
  const Scratch scratch;
  Store store = open_new(scratch / "s.db");
  fill(store, 5);
  must(backup(open_read(scratch / "s.db"), scratch / "copy.db"));
  put_made_up(store, "later", 77);
  CHECK(fs::exists(scratch / "copy.db"));
  CHECK(std::distance(fs::directory_iterator(scratch.path()), fs::directory_iterator()) == 5);
  {
    const Store copy = open_read(scratch / "copy.db");
    CHECK(must(stats(copy)).artifacts == 5);
    CHECK(must(fsck(copy)).empty());
    CHECK(must(read_artifact(must(copy.reader()), core::sha256(made_up_cubin(4)))) ==
          made_up_cubin(4));
  }
  Store copy = must(Store::open(scratch / "copy.db", {Access::write, false, "test"}));
  put_made_up(copy, "later", 78);
  CHECK(must(stats(copy)).kernels == 2);

  CHECK(code_of(backup(store, scratch / "copy.db")) == ErrorCode::exists);
  CHECK(code_of(backup(store, scratch / "no/copy.db")) == ErrorCode::not_found);
}

TEST_CASE("a flipped bit in an artifact is found and named, and reading it is refused") {
  const Scratch scratch;
  const core::Digest digest = core::sha256(made_up_cubin(2));
  {
    Store store = open_new(scratch / "s.db");
    fill(store, 4);
    CHECK(must(fsck(store)).empty());
  }
  // Its end, which no other shares: the checksum. The whole lies in several pages.
  const core::Bytes frame = must(prepare_artifact(made_up_cubin(2), nullptr)).stored;
  flip_bit_of(scratch / "s.db", {frame.end() - 12, frame.end()});
  const Store store = open_read(scratch / "s.db");
  const auto findings = must(fsck(store));
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].find("artifact " + digest.text()) != std::string::npos);
  CHECK(findings[0].find("rmsnorm {\"T\":\"f32\"}") != std::string::npos);
  const auto read = read_artifact(must(store.reader()), digest);
  CHECK(code_of(read) == ErrorCode::corrupt);
  CHECK(read.error().message.find(digest.text()) != std::string::npos);
  CHECK(read.error().message.find("cubinary store fsck") != std::string::npos);
  CHECK(must(read_artifact(must(store.reader()), core::sha256(made_up_cubin(1)))) ==
        made_up_cubin(1));
}

TEST_CASE("a flipped bit in a dictionary condemns what needs it") {
  const Scratch scratch;
  core::Bytes stored;
  {
    Store store = open_new(scratch / "s.db");
    fill(store, 20);
    REQUIRE(must(repack_artifacts(store, "rmsnorm", "sm_90")) > 0);
    const Reader reader = must(store.reader());
    Statement row = must(reader.connection().query("SELECT stored FROM dictionary"));
    REQUIRE(must(row.step()));
    // A short piece: the whole may lie in several pages.
    const core::ByteView piece = row.blob(0).subspan(600, 64);
    stored.assign(piece.begin(), piece.end());
  }
  flip_bit_of(scratch / "s.db", stored);
  const Store store = open_read(scratch / "s.db");
  const auto findings = must(fsck(store));
  CHECK(findings.size() == 21);
  CHECK(findings.at(0).find("dictionary") != std::string::npos);
  CHECK(code_of(read_artifact(must(store.reader()), core::sha256(made_up_cubin(1)))) ==
        ErrorCode::corrupt);
}

TEST_CASE("bits flipped anywhere never give wrong bytes") {
  const Scratch scratch;
  {
    Store store = open_new(scratch / "s.db");
    fill(store, 10);
    must(repack_artifacts(store, "rmsnorm", "sm_90"));
  }
  const core::Bytes good = must(core::read_file(scratch / "s.db", 100U << 20U));
  std::uint64_t state = 42;
  unsigned noticed = 0;
  for (int round = 0; round < 60; ++round) {
    core::Bytes bytes = good;
    state = state * 6364136223846793005U + 1442695040888963407U;
    bytes[(state >> 20U) % bytes.size()] ^= std::byte{1} << ((state >> 60U) % 8);
    must(core::write_file_atomic(scratch / "s.db", bytes));
    const auto store = Store::open(scratch / "s.db", {});
    if (!store) {
      ++noticed;
      continue;
    }
    for (unsigned i = 0; i < 10; ++i) {
      const core::Bytes wanted = made_up_cubin(i);
      const auto reader = store->reader();
      const auto read =
          reader ? read_artifact(*reader, core::sha256(wanted)) : core::fail(reader.error());
      noticed += read ? 0 : 1;
      if (read) {
        REQUIRE(*read == wanted);
      }
    }
    const auto findings = fsck(*store);
    noticed += findings && findings->empty() ? 0 : 1;
  }
  CHECK(noticed > 0);
}

TEST_CASE("gc drops what is not current and keeps what is released") {
  const Scratch scratch;
  Store store = open_new(scratch / "s.db");
  const std::vector<CandidateId> ids = fill(store, 6);
  must(store.write([&](Writer& writer) -> core::Result<void> {
    DeviceSession session;
    TRY_ASSIGN(session.device_class, core::DeviceClass::parse("sm90-s132-l60M-b6144-m144G"));
    TRY_ASSIGN(const SessionId id, put_session(writer, session));
    for (const CandidateId candidate : {ids[0], ids[5]}) {
      Measurement measurement;
      measurement.candidate = candidate;
      measurement.session = id;
      TRY(put_measurement(writer, measurement));
    }
    // Released: candidates 4 and 5, of which 5 will no longer be current.
    TRY(put_blob(writer, "x", core::as_bytes("index")));
    TRY(put_blob(writer, "x", core::as_bytes("pack")));
    TRY(put_blob(writer, "x", core::as_bytes("orphan")));
    NewRelease release;
    release.release.name = "r1";
    release.release.index = core::sha256("index");
    release.blobs = {core::sha256("pack")};
    release.artifacts = {core::sha256(made_up_cubin(4)), core::sha256(made_up_cubin(5))};
    TRY(put_release(writer, release));
    return set_current(writer, "rmsnorm", "sm_90", std::span(ids).subspan(2, 3));
  }));
  const Stats before = must(stats(store));
  const GcResult dry = must(gc(store, true));
  CHECK(dry.candidates == 2);
  CHECK(dry.measurements == 1);
  CHECK(dry.artifacts == 2);
  CHECK(dry.blobs == 1);
  CHECK(must(stats(store)).artifacts == before.artifacts);

  const GcResult done = must(gc(store, false));
  CHECK(done.candidates == dry.candidates);
  CHECK(done.measurements == dry.measurements);
  CHECK(done.artifacts == dry.artifacts);
  CHECK(done.blobs == dry.blobs);
  CHECK(done.bytes == dry.bytes);
  const Stats after = must(stats(store));
  CHECK(after.artifacts == 4);
  CHECK(after.candidates_ok == 4);
  CHECK(after.measurements == 1);
  CHECK(before.artifact_stored_bytes + before.blob_bytes ==
        after.artifact_stored_bytes + after.blob_bytes + done.bytes);
  const Reader reader = must(store.reader());
  for (const unsigned kept : {2U, 3U, 4U, 5U}) {
    CHECK(must(read_artifact(reader, core::sha256(made_up_cubin(kept)))) == made_up_cubin(kept));
  }
  CHECK_FALSE(must(has_artifact(reader, core::sha256(made_up_cubin(0)))));
  CHECK(must(read_blob(reader, core::sha256("pack"), 100)) == core::to_bytes("pack"));
  CHECK_FALSE(must(find_blob(reader, core::sha256("orphan"))));
  CHECK(must(fsck(store)).empty());
  CHECK(must(gc(store, false)).candidates == 0);
}

TEST_CASE("gc drops dictionaries nobody uses and gives the room back") {
  const Scratch scratch;
  Store store = open_new(scratch / "s.db");
  fill(store, 30);
  must(repack_artifacts(store, "rmsnorm", "sm_90"));
  must(store.write([](Writer& writer) { return set_current(writer, "rmsnorm", "sm_90", {}); }));
  const Stats before = must(stats(store));
  CHECK(before.dictionary_bytes > 0);
  CHECK(must(gc(store, false)).artifacts == 30);
  const Stats after = must(stats(store));
  CHECK(after.dictionary_bytes == 0);
  CHECK(after.artifact_raw_bytes == 0);
  CHECK(after.file_bytes < before.file_bytes);
  // Dictionary ids are not used again: what was prepared with the old one must not meet another.
  const DictionaryId old = 1;
  must(store.write([&](Writer& writer) -> core::Result<void> {
    TRY_ASSIGN(const PreparedDictionary dictionary,
               prepare_dictionary(false, core::as_bytes("prefix")));
    TRY_ASSIGN(const DictionaryId next, put_dictionary(writer, "rmsnorm", "sm_90", dictionary));
    CHECK(next > old);
    return {};
  }));
}

TEST_CASE("gc needs a store open for writing") {
  const Scratch scratch;
  open_new(scratch / "s.db");
  Store store = open_read(scratch / "s.db");
  CHECK(code_of(gc(store, true)) == ErrorCode::permission);
}

}  // namespace
}  // namespace cubinary::store
