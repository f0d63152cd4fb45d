// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include "core/wire/codec.hpp"
#include "store/artifacts.hpp"
#include "store/connection.hpp"
#include "store/maintenance.hpp"
#include "tests/store/scratch.hpp"

namespace cubinary::store {
namespace {

using core::Bytes;
using core::ErrorCode;

ArtifactId put(Store& store, const PreparedArtifact& artifact) {
  ArtifactId id = 0;
  must(store.write([&](Writer& writer) -> core::Result<void> {
    TRY_ASSIGN(id, put_artifact(writer, artifact));
    return {};
  }));
  return id;
}

TEST_CASE("an artifact reads back, once whatever it is put") {
  const Scratch scratch;
  Store store = open_new(scratch / "s.db");
  const Bytes raw = made_up_cubin(1);
  const PreparedArtifact prepared = must(prepare_artifact(raw, nullptr));
  CHECK(prepared.digest == core::sha256(raw));
  CHECK(prepared.size == raw.size());
  const ArtifactId id = put(store, prepared);
  CHECK(put(store, prepared) == id);
  const Reader reader = must(store.reader());
  CHECK(must(read_artifact(reader, prepared.digest)) == raw);
  CHECK(must(has_artifact(reader, prepared.digest)));
  CHECK_FALSE(must(has_artifact(reader, core::sha256("other"))));
  CHECK(code_of(read_artifact(reader, core::sha256("other"))) == ErrorCode::not_found);
  CHECK(must(stats(store)).artifacts == 1);
}

TEST_CASE("an empty artifact reads back") {
  const Scratch scratch;
  Store store = open_new(scratch / "s.db");
  const PreparedArtifact prepared = must(prepare_artifact({}, nullptr));
  put(store, prepared);
  CHECK(must(read_artifact(must(store.reader()), prepared.digest)).empty());
}

TEST_CASE("dictionaries, prefix and trained, serve what is put from then on") {
  const Scratch scratch;
  Store store = open_new(scratch / "s.db");
  CHECK(must(current_dictionary(must(store.reader()), "k", "sm_90")).id == 0);

  const bool trained = GENERATE_COPY(false, true);
  Bytes bytes = made_up_cubin(1);
  if (trained) {
    std::vector<Bytes> samples;
    for (unsigned i = 0; i < 40; ++i) {
      samples.push_back(made_up_cubin(i));
    }
    const std::vector<core::ByteView> views(samples.begin(), samples.end());
    bytes = must(core::train_dictionary(views, 8192));
  }
  must(store.write([&](Writer& writer) -> core::Result<void> {
    TRY_ASSIGN(const PreparedDictionary dictionary, prepare_dictionary(trained, bytes));
    TRY(put_dictionary(writer, "k", "sm_90", dictionary));
    return {};
  }));
  const Dictionary dictionary = must(current_dictionary(must(store.reader()), "k", "sm_90"));
  CHECK(dictionary.id != 0);
  CHECK(dictionary.trained == trained);
  CHECK(dictionary.bytes == bytes);
  CHECK(must(current_dictionary(must(store.reader()), "k", "sm_120")).id == 0);

  const Bytes raw = made_up_cubin(2);
  const PreparedArtifact with = must(prepare_artifact(raw, &dictionary));
  const PreparedArtifact without = must(prepare_artifact(raw, nullptr));
  CHECK(with.stored.size() * 2 < without.stored.size());
  put(store, with);
  CHECK(must(read_artifact(must(store.reader()), with.digest)) == raw);
}

TEST_CASE("an artifact prepared with a dictionary that is gone is refused") {
  const Scratch scratch;
  Store store = open_new(scratch / "s.db");
  Dictionary dictionary;
  dictionary.id = 77;
  dictionary.bytes = made_up_cubin(1);
  const PreparedArtifact prepared = must(prepare_artifact(made_up_cubin(2), &dictionary));
  const auto written = store.write([&](Writer& writer) -> core::Result<void> {
    TRY(put_artifact(writer, prepared));
    return {};
  });
  CHECK(code_of(written) == ErrorCode::not_found);
  CHECK(written.error().message.find("prepare artifact") != std::string::npos);
}

TEST_CASE("repack saves, keeps every byte, and rests until there is more") {
  const Scratch scratch;
  Store store = open_new(scratch / "s.db");
  constexpr unsigned k_count = 60;
  for (unsigned i = 0; i < k_count; ++i) {
    put_made_up(store, "rmsnorm", i);
  }
  put_made_up(store, "other", 1000);
  const Stats before = must(stats(store));
  const std::uint64_t saved = must(repack_artifacts(store, "rmsnorm", "sm_90"));
  const Stats after = must(stats(store));
  CHECK(saved > 0);
  CHECK(before.artifact_stored_bytes + before.dictionary_bytes ==
        saved + after.artifact_stored_bytes + after.dictionary_bytes);
  CHECK(after.dictionary_bytes > 0);
  CHECK(after.artifact_raw_bytes > 8 * (after.artifact_stored_bytes + after.dictionary_bytes));
  CHECK(after.file_bytes <= before.file_bytes);
  {
    const Reader reader = must(store.reader());
    for (unsigned i = 0; i < k_count; ++i) {
      const Bytes raw = made_up_cubin(i);
      REQUIRE(must(read_artifact(reader, core::sha256(raw))) == raw);
    }
    CHECK(must(read_artifact(reader, core::sha256(made_up_cubin(1000)))) == made_up_cubin(1000));
  }
  CHECK(must(fsck(store)).empty());

  CHECK(must(repack_artifacts(store, "rmsnorm", "sm_90")) == 0);
  CHECK(must(repack_artifacts(store, "rmsnorm", "sm_120")) == 0);
  CHECK(must(repack_artifacts(store, "no such kernel", "sm_90")) == 0);

  // Half as many again: a new dictionary, and the old one goes.
  for (unsigned i = k_count; i < k_count * 3 / 2; ++i) {
    put_made_up(store, "rmsnorm", i);
  }
  CHECK(must(repack_artifacts(store, "rmsnorm", "sm_90")) > 0);
  CHECK(must(must(store.reader()).connection().find_integer("SELECT count(*) FROM dictionary")) ==
        1);
  CHECK(must(fsck(store)).empty());
}

TEST_CASE("repack leaves artifacts that have nothing in common as they are") {
  const Scratch scratch;
  Store store = open_new(scratch / "s.db");
  must(store.write([&](Writer& writer) -> core::Result<void> {
    TRY(put_kernel(writer, made_up_kernel("noise")));
    for (unsigned i = 0; i < 3; ++i) {
      Bytes noise;
      for (core::Digest block = core::sha256(std::to_string(i)); noise.size() < 4096;
           block = core::sha256(block.raw())) {
        noise.insert(noise.end(), block.raw().begin(), block.raw().end());
      }
      TRY_ASSIGN(const PreparedArtifact artifact, prepare_artifact(noise, nullptr));
      TRY(put_artifact(writer, artifact));
      Candidate candidate = made_up_candidate("noise", i);
      candidate.artifact = artifact.digest;
      TRY(put_candidate(writer, candidate));
    }
    return {};
  }));
  const Stats before = must(stats(store));
  CHECK(must(repack_artifacts(store, "noise", "sm_90")) == 0);
  CHECK(must(stats(store)).artifact_stored_bytes == before.artifact_stored_bytes);
  CHECK(must(stats(store)).dictionary_bytes == 0);
}

}  // namespace
}  // namespace cubinary::store
