// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include "store/connection.hpp"
#include "store/maintenance.hpp"
#include "store/releases.hpp"
#include "tests/store/scratch.hpp"

namespace cubinary::store {
namespace {

using core::Bytes;
using core::ErrorCode;

core::Digest put(Store& store, const Bytes& bytes) {
  must(store.write([&](Writer& writer) { return put_blob(writer, "application/x", bytes); }));
  return core::sha256(bytes);
}

TEST_CASE("a blob of any size reads back whole and in ranges") {
  const Scratch scratch;
  Store store = open_new(scratch / "s.db");
  const std::size_t size = GENERATE(0U, 1U, 65535U, 65536U, 65537U, 200'000U);
  const Bytes bytes = made_up_cubin(7, size);
  const core::Digest digest = put(store, bytes);
  CHECK(put(store, bytes) == digest);
  const Reader reader = must(store.reader());
  const auto info = must(find_blob(reader, digest));
  REQUIRE(info);
  CHECK(info->size == size);
  CHECK(info->media_type == "application/x");
  CHECK(must(read_blob(reader, digest, size)) == bytes);
  if (size > 0) {
    CHECK(code_of(read_blob(reader, digest, size - 1)) == ErrorCode::too_large);
  }

  const auto range = [&](std::uint64_t offset, std::uint64_t length) {
    Bytes got;
    std::size_t largest = 0;
    must(stream_blob(reader, digest, offset, length, [&](core::ByteView piece) {
      largest = std::max(largest, piece.size());
      got.insert(got.end(), piece.begin(), piece.end());
      return true;
    }));
    CHECK(largest <= 65536);
    const core::ByteView wanted = core::ByteView(bytes).subspan(offset, length);
    CHECK(std::equal(got.begin(), got.end(), wanted.begin(), wanted.end()));
  };
  range(0, size);
  range(size, 0);
  range(size / 2, size - size / 2);
  range(size / 3, size / 3);
  if (size > 65536) {
    range(65535, 2);
    range(65536, 1);
  }
  const auto ignore = [](core::ByteView) { return true; };
  CHECK(code_of(stream_blob(reader, digest, 0, size + 1, ignore)) == ErrorCode::usage);
  CHECK(code_of(stream_blob(reader, digest, size + 1, 0, ignore)) == ErrorCode::usage);
  CHECK(code_of(stream_blob(reader, digest, 1, UINT64_MAX, ignore)) == ErrorCode::usage);
}

TEST_CASE("a stream stops when its sink says so") {
  const Scratch scratch;
  Store store = open_new(scratch / "s.db");
  const core::Digest digest = put(store, made_up_cubin(7, 300'000));
  int pieces = 0;
  const auto stopped = stream_blob(must(store.reader()), digest, 0, 300'000,
                                   [&](core::ByteView) { return ++pieces < 2; });
  CHECK(code_of(stopped) == ErrorCode::cancelled);
  CHECK(pieces == 2);
}

TEST_CASE("no such blob") {
  const Scratch scratch;
  const Store store = open_new(scratch / "s.db");
  const Reader reader = must(store.reader());
  CHECK_FALSE(must(find_blob(reader, core::sha256("x"))));
  CHECK(code_of(read_blob(reader, core::sha256("x"), 10)) == ErrorCode::not_found);
  CHECK(code_of(stream_blob(reader, core::sha256("x"), 0, 0,
                            [](core::ByteView) { return true; })) == ErrorCode::not_found);
}

TEST_CASE("a damaged blob is corrupt when read whole, and cut short when a piece is missing") {
  const Scratch scratch;
  Store store = open_new(scratch / "s.db");
  const core::Digest digest = put(store, made_up_cubin(7, 100'000));
  must(store.write([](Writer& writer) {
    return writer.connection().run(
        "UPDATE blob_chunk SET bytes = zeroblob(length(bytes)) WHERE position = 0");
  }));
  CHECK(code_of(read_blob(must(store.reader()), digest, 100'000)) == ErrorCode::corrupt);
  must(store.write([](Writer& writer) {
    return writer.connection().run("DELETE FROM blob_chunk WHERE position = 1");
  }));
  const auto cut =
      stream_blob(must(store.reader()), digest, 0, 100'000, [](core::ByteView) { return true; });
  CHECK(code_of(cut) == ErrorCode::corrupt);
  const auto findings = must(fsck(store));
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].find(digest.text()) != std::string::npos);
}

}  // namespace
}  // namespace cubinary::store
