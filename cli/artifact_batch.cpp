// SPDX-License-Identifier: Apache-2.0
#include "cli/artifact_batch.hpp"

namespace cubinary::cli {

void append_artifact(core::Bytes& batch, const core::Digest& digest, core::ByteView bytes) {
  const core::ByteView raw = digest.raw();
  batch.insert(batch.end(), raw.begin(), raw.end());
  for (unsigned i = 0; i < 8; ++i) {
    batch.push_back(static_cast<std::byte>(bytes.size() >> (8 * i)));
  }
  batch.insert(batch.end(), bytes.begin(), bytes.end());
}

}  // namespace cubinary::cli
