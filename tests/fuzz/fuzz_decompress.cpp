// SPDX-License-Identifier: Apache-2.0
// decompress: never more than the bound, with and without history.
#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "core/wire/codec.hpp"

using namespace cubinary::core;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::uint64_t k_bound = 1U << 20U;
  const ByteView bytes(reinterpret_cast<const std::byte*>(data), size);
  const auto check = [](const Result<Bytes>& raw) {
    if (raw && raw->size() > k_bound) {
      std::abort();
    }
  };
  check(decompress(bytes, {.max_bytes = k_bound}));
  const std::size_t half = size / 2;
  check(decompress(bytes.subspan(half), {.max_bytes = k_bound, .prefix = bytes.first(half)}));
  check(decompress(bytes.subspan(half), {.max_bytes = k_bound, .dictionary = bytes.first(half)}));
  const Bytes frame = compress(bytes, {.level = 1}).value();
  const auto again = decompress(frame, {.max_bytes = size});
  if (!again || !std::equal(again->begin(), again->end(), bytes.begin(), bytes.end())) {
    std::abort();
  }
  return 0;
}
