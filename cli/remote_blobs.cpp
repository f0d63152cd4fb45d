// SPDX-License-Identifier: Apache-2.0
#include "cli/remote_blobs.hpp"

namespace cubinary::cli {

builder::ReadBlob blobs_of(Remote& remote) {
  return [&remote](const core::Digest& digest,
                   std::uint64_t max_bytes) -> core::Result<core::Bytes> {
    TRY_ASSIGN(core::Bytes bytes, remote.get_bytes("/api/v1/blobs/" + digest.text(), max_bytes));
    if (core::sha256(bytes) != digest) {
      return core::fail(core::ErrorCode::corrupt,
                        remote.url() + ": the bytes of blob " + digest.text() +
                            " do not match their digest: run `cubinary store fsck` there");
    }
    return bytes;
  };
}

}  // namespace cubinary::cli
