// SPDX-License-Identifier: Apache-2.0
// Apart from the codec: the dictionary builder in Debian's static libzstd is not
// position-independent, and libcubinary, which only unpacks, must link without it.
#include <string>
#include <vector>

#include <zdict.h>

#include "core/wire/codec.hpp"

namespace cubinary::core {

Result<Bytes> train_dictionary(std::span<const ByteView> samples, std::size_t max_bytes) {
  Bytes all;
  std::vector<std::size_t> sizes;
  sizes.reserve(samples.size());
  for (const ByteView sample : samples) {
    all.insert(all.end(), sample.begin(), sample.end());
    sizes.push_back(sample.size());
  }
  Bytes dictionary(max_bytes);
  const std::size_t size = ZDICT_trainFromBuffer(dictionary.data(), dictionary.size(), all.data(),
                                                 sizes.data(), static_cast<unsigned>(sizes.size()));
  if (ZDICT_isError(size) != 0) {
    return fail(ErrorCode::unsupported,
                std::to_string(samples.size()) + " samples of " + std::to_string(all.size()) +
                    " bytes in all are too few to train a dictionary (" + ZDICT_getErrorName(size) +
                    "): use the first one as a prefix");
  }
  dictionary.resize(size);
  return dictionary;
}

}  // namespace cubinary::core
