// SPDX-License-Identifier: Apache-2.0
// Stands in for libFuzzer where it is not linked: runs the seeds and mutations of them that are the
// same on every machine. Usage: PROGRAM MUTATIONS SEED-FILE...
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "core/base/file.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

using Input = std::vector<std::uint8_t>;

void run(const Input& input) {
  LLVMFuzzerTestOneInput(input.data(), input.size());
}

// One to four small changes: flip a bit, set a byte, cut, repeat a piece, drop a piece.
Input mutated(Input input, std::mt19937& random) {
  const unsigned changes = 1 + random() % 4;
  for (unsigned i = 0; i < changes && !input.empty(); ++i) {
    const std::size_t at = random() % input.size();
    const std::size_t length = 1 + random() % std::min<std::size_t>(16, input.size() - at);
    const auto begin = input.begin() + static_cast<std::ptrdiff_t>(at);
    switch (random() % 5) {
      case 0:
        input[at] ^= static_cast<std::uint8_t>(1U << random() % 8);
        break;
      case 1:
        input[at] = static_cast<std::uint8_t>(random());
        break;
      case 2:
        input.resize(at);
        break;
      case 3: {
        const Input piece(begin, begin + static_cast<std::ptrdiff_t>(length));
        input.insert(begin, piece.begin(), piece.end());
        break;
      }
      default:
        input.erase(begin, begin + static_cast<std::ptrdiff_t>(length));
    }
  }
  return input;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: %s MUTATIONS SEED-FILE...\n", argv[0]);
    return 2;
  }
  const long mutations = std::strtol(argv[1], nullptr, 10);
  std::mt19937 random(20'250'101);
  long runs = 0;
  for (int i = 2; i < argc; ++i) {
    const auto bytes = cubinary::core::read_file(argv[i], 1U << 20U);
    if (!bytes) {
      std::fprintf(stderr, "%s\n", bytes.error().message.c_str());
      return 1;
    }
    const auto* data = reinterpret_cast<const std::uint8_t*>(bytes->data());
    const Input seed(data, data + bytes->size());
    run(seed);
    for (long round = 0; round < mutations; ++round) {
      run(mutated(seed, random));
    }
    runs += 1 + mutations;
  }
  std::printf("%ld inputs\n", runs);
  return 0;
}
