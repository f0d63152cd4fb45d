// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "core/base/bytes.hpp"
#include "core/base/result.hpp"

namespace cubinary::core {

struct CompressOptions {
  int level = 19;
  ByteView dictionary{};  ///< trained dictionary, or
  ByteView prefix{};      ///< raw bytes referred to as history; at most one of the two
};

/// One zstd frame with content size and checksum. The same input gives the same bytes for one
/// libzstd.
[[nodiscard]] Result<Bytes> compress(ByteView raw, const CompressOptions& options = {});

/// Compresses many inputs with one history, which is prepared once: with a prefix of a megabyte
/// that is most of the work of a small input. Its frames are undone like those of `compress`. One
/// thread.
class Compressor {
 public:
  /// The options' views must outlive it.
  [[nodiscard]] static Result<Compressor> make(const CompressOptions& options);
  Compressor(Compressor&&) noexcept;
  Compressor& operator=(Compressor&&) noexcept;
  ~Compressor();
  [[nodiscard]] Result<Bytes> compress(ByteView raw);

 private:
  struct Impl;
  explicit Compressor(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> m_impl;
};

struct DecompressOptions {
  std::uint64_t max_bytes = 0;  ///< bound on what may come out; required
  ByteView dictionary{};
  ByteView prefix{};
};

/// Undoes `compress`. A frame that declares or produces more than `max_bytes` is `too_large` before
/// the memory is taken; damaged bytes, trailing bytes and missing content size are `corrupt`.
[[nodiscard]] Result<Bytes> decompress(ByteView frame, const DecompressOptions& options);

/// Trains a dictionary of at most `max_bytes` from samples (ZDICT). Too few or too small samples
/// are `unsupported`: use the first sample as a prefix then.
[[nodiscard]] Result<Bytes> train_dictionary(std::span<const ByteView> samples,
                                             std::size_t max_bytes);

}  // namespace cubinary::core
