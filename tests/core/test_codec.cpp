// SPDX-License-Identifier: Apache-2.0
#include <random>

#include <catch2/catch_test_macros.hpp>

#include "core/wire/codec.hpp"

using namespace cubinary::core;

namespace {

// Compressible in itself, and alike for neighbouring seeds.
Bytes sample(std::size_t size, unsigned seed) {
  std::mt19937 common(7);
  std::mt19937 own(seed);
  Bytes bytes(size);
  for (std::size_t i = 0; i < size; ++i) {
    const unsigned value = common() % 64;
    bytes[i] = static_cast<std::byte>(own() % 50 == 0 ? own() : value);
  }
  return bytes;
}

Bytes noise(std::size_t size, unsigned seed) {
  std::mt19937 own(seed);
  Bytes bytes(size);
  for (std::byte& byte : bytes) {
    byte = static_cast<std::byte>(own());
  }
  return bytes;
}

ErrorCode code_of(ByteView frame, const DecompressOptions& options) {
  const auto result = decompress(frame, options);
  REQUIRE_FALSE(result);
  return result.error().code;
}

}  // namespace

TEST_CASE("bytes come back as they went in") {
  for (const std::size_t size : {0U, 1U, 300U, 200'000U}) {
    const Bytes raw = sample(size, 1);
    const Bytes frame = compress(raw).value();
    CHECK(decompress(frame, {.max_bytes = size}).value() == raw);
    CHECK(compress(raw).value() == frame);
  }
}

TEST_CASE("a prefix pays and is needed again") {
  const Bytes first = noise(60'000, 1);
  Bytes second = first;
  second[30'000] = std::byte{0};
  const Bytes frame = compress(second, {.prefix = first}).value();
  CHECK(frame.size() < second.size() / 100);
  CHECK(decompress(frame, {.max_bytes = second.size(), .prefix = first}).value() == second);
  CHECK(code_of(frame, {.max_bytes = second.size()}) == ErrorCode::corrupt);
  CHECK(code_of(frame, {.max_bytes = second.size(), .prefix = noise(60'000, 2)}) ==
        ErrorCode::corrupt);
}

TEST_CASE("a prefix is reached across content larger than the level's own window") {
  // 9 MiB that do not compress, twice: only a window over all of it sees the repetition.
  const Bytes block = noise(9U << 20U, 3);
  const Bytes history = block;
  const Bytes with_prefix = compress(block, {.level = 3, .prefix = history}).value();
  CHECK(with_prefix.size() < block.size() / 100);
  CHECK(decompress(with_prefix, {.max_bytes = block.size(), .prefix = block}).value() == block);
  Bytes twice = block;
  twice.insert(twice.end(), block.begin(), block.end());
  const Bytes frame = compress(twice, {.level = 3}).value();
  CHECK(frame.size() < block.size() + block.size() / 100);
  CHECK(decompress(frame, {.max_bytes = twice.size()}).value() == twice);
}

TEST_CASE("a trained dictionary pays and is needed again") {
  std::vector<Bytes> samples;
  std::vector<ByteView> views;
  for (unsigned seed = 0; seed < 64; ++seed) {
    samples.push_back(sample(4000, seed));
  }
  views.assign(samples.begin(), samples.end());
  const Bytes dictionary = train_dictionary(views, 16'384).value();
  CHECK(dictionary.size() <= 16'384);
  const Bytes raw = sample(4000, 1000);
  const Bytes frame = compress(raw, {.dictionary = dictionary}).value();
  CHECK(frame.size() < compress(raw).value().size());
  CHECK(decompress(frame, {.max_bytes = 4000, .dictionary = dictionary}).value() == raw);
  CHECK(code_of(frame, {.max_bytes = 4000}) == ErrorCode::corrupt);
}

TEST_CASE("too few samples say so") {
  const Bytes raw = sample(100, 1);
  const std::vector<ByteView> views = {raw};
  const auto trained = train_dictionary(views, 1000);
  REQUIRE_FALSE(trained);
  CHECK(trained.error().code == ErrorCode::unsupported);
  CHECK(trained.error().message.find("as a prefix") != std::string::npos);
  CHECK_FALSE(train_dictionary({}, 1000));
}

TEST_CASE("the bound holds for what the frame declares") {
  const Bytes frame = compress(Bytes(1U << 20U)).value();
  CHECK(frame.size() < 200);
  CHECK(code_of(frame, {.max_bytes = (1U << 20U) - 1}) == ErrorCode::too_large);
  CHECK(decompress(frame, {.max_bytes = 1U << 20U}));
}

TEST_CASE("a frame that lies about its size is damaged, whatever it says") {
  const Bytes raw = sample(1000, 1);
  Bytes frame = compress(raw).value();
  // The two-byte content size follows magic and descriptor; it holds size - 256.
  REQUIRE(std::to_integer<int>(frame[5]) + 256 * std::to_integer<int>(frame[6]) == 1000 - 256);
  frame[5] ^= std::byte{1};
  CHECK(code_of(frame, {.max_bytes = 1U << 20U}) == ErrorCode::corrupt);
}

TEST_CASE("no flipped bit goes unnoticed") {
  const Bytes raw = sample(300, 5);
  const Bytes frame = compress(raw).value();
  for (std::size_t bit = 0; bit < 8 * frame.size(); ++bit) {
    Bytes broken = frame;
    broken[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
    const auto result = decompress(broken, {.max_bytes = 4096});
    // Header bits that only matter to streaming readers (the window, a reserved bit) may change
    // nothing; content never changes.
    if (result) {
      CHECK(*result == raw);
    } else {
      CHECK((result.error().code == ErrorCode::corrupt ||
             result.error().code == ErrorCode::too_large));
    }
  }
}

TEST_CASE("cut, followed, foreign and unbounded frames are refused") {
  const Bytes raw = sample(1000, 5);
  const Bytes frame = compress(raw).value();
  for (std::size_t size = 0; size < frame.size(); ++size) {
    CHECK(code_of(ByteView(frame).first(size), {.max_bytes = 4096}) == ErrorCode::corrupt);
  }
  Bytes longer = frame;
  longer.push_back(std::byte{0});
  CHECK(code_of(longer, {.max_bytes = 4096}) == ErrorCode::corrupt);
  Bytes twice = frame;
  twice.insert(twice.end(), frame.begin(), frame.end());
  CHECK(code_of(twice, {.max_bytes = 4096}) == ErrorCode::corrupt);
  CHECK(code_of(as_bytes("\x1f\x8b gzip, not zstd"), {.max_bytes = 4096}) == ErrorCode::corrupt);

  // Single segment, one raw block of one byte: with neither checksum nor content size.
  const Bytes no_checksum = to_bytes(std::string("\x28\xB5\x2F\xFD\x20\x01\x09\x00\x00x", 10));
  CHECK(code_of(no_checksum, {.max_bytes = 10}) == ErrorCode::corrupt);
  const Bytes no_size = to_bytes(std::string("\x28\xB5\x2F\xFD\x04\x00\x09\x00\x00x\0\0\0\0", 14));
  const auto refused = decompress(no_size, {.max_bytes = 10});
  REQUIRE_FALSE(refused);
  CHECK(refused.error().message.find("how large") != std::string::npos);
}

TEST_CASE("dictionary and prefix exclude each other") {
  const Bytes raw = sample(100, 1);
  CHECK_FALSE(compress(raw, {.dictionary = raw, .prefix = raw}));
  CHECK_FALSE(decompress(raw, {.max_bytes = 100, .dictionary = raw, .prefix = raw}));
}
