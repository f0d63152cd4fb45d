// SPDX-License-Identifier: Apache-2.0
#include "core/wire/codec.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <memory>
#include <string>

#include <zstd.h>

namespace cubinary::core {
namespace {

struct FreeContext {
  void operator()(ZSTD_CCtx* context) const { ZSTD_freeCCtx(context); }
  void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
};
using Context = std::unique_ptr<ZSTD_CCtx, FreeContext>;
using Decompressor = std::unique_ptr<ZSTD_DCtx, FreeContext>;

// Level 19 looks back 8 MiB by itself. Beyond that the window grows to all there is, up to this: a
// pack is unpacked in one piece, so that a wide window costs its reader no memory.
constexpr int k_level_window_log = 23;
constexpr int k_max_window_log = 30;

int window_log(std::uint64_t bytes) {
  return std::min(static_cast<int>(std::bit_width(bytes)), k_max_window_log);
}

Result<std::size_t> checked(std::size_t code, ErrorCode error, std::string_view what) {
  if (ZSTD_isError(code) != 0) {
    return fail(error, std::string(what) + ": " + ZSTD_getErrorName(code));
  }
  return code;
}

constexpr auto k_failed = ErrorCode::internal;
constexpr std::string_view k_what = "cannot compress";

Result<void> set(ZSTD_CCtx* context, ZSTD_cParameter parameter, int value) {
  TRY(checked(ZSTD_CCtx_setParameter(context, parameter, value), k_failed, k_what));
  return {};
}

Result<Bytes> compress_frame(ZSTD_CCtx* context, ByteView raw) {
  Bytes frame(ZSTD_compressBound(raw.size()));
  TRY_ASSIGN(const std::size_t size,
             checked(ZSTD_compress2(context, frame.data(), frame.size(), raw.data(), raw.size()),
                     k_failed, k_what));
  frame.resize(size);
  frame.shrink_to_fit();
  return frame;
}

// The magic number of a trained dictionary, little-endian.
bool looks_trained(ByteView bytes) {
  constexpr std::array k_magic = {std::byte{0x37}, std::byte{0xA4}, std::byte{0x30},
                                  std::byte{0xEC}};
  return bytes.size() >= k_magic.size() && std::ranges::equal(bytes.first(4), k_magic);
}

// What the frame header declares. Only frames of the kind `compress` makes are taken.
Result<std::uint64_t> content_size(ByteView frame) {
  constexpr std::array k_magic = {std::byte{0x28}, std::byte{0xB5}, std::byte{0x2F},
                                  std::byte{0xFD}};
  constexpr std::byte k_checksum_flag{4};
  if (frame.size() <= k_magic.size() || !std::ranges::equal(frame.first(4), k_magic)) {
    return fail(ErrorCode::corrupt, "the compressed data does not begin with a zstd frame");
  }
  const unsigned long long size = ZSTD_getFrameContentSize(frame.data(), frame.size());
  if (size == ZSTD_CONTENTSIZE_ERROR) {
    return fail(ErrorCode::corrupt, "the header of the zstd frame is damaged");
  }
  if (size == ZSTD_CONTENTSIZE_UNKNOWN) {
    return fail(ErrorCode::corrupt, "the zstd frame does not say how large its content is");
  }
  if ((frame[k_magic.size()] & k_checksum_flag) == std::byte{0}) {
    return fail(ErrorCode::corrupt, "the zstd frame has no checksum");
  }
  return size;
}

Error only_one_history() {
  return Error{ErrorCode::internal, "a frame takes a dictionary or a prefix, not both"};
}

Result<void> load_dictionary(ZSTD_CCtx* context, ByteView bytes) {
  TRY(checked(ZSTD_CCtx_loadDictionary(context, bytes.data(), bytes.size()), k_failed,
              "cannot load the compression dictionary"));
  return {};
}

Result<Context> make_context(const CompressOptions& options) {
  if (!options.dictionary.empty() && !options.prefix.empty()) {
    return fail(only_one_history());
  }
  Context context(ZSTD_createCCtx());
  if (context == nullptr) {
    return fail(ErrorCode::environment, "cannot compress: out of memory");
  }
  TRY(set(context.get(), ZSTD_c_compressionLevel, options.level));
  TRY(set(context.get(), ZSTD_c_checksumFlag, 1));
  TRY(set(context.get(), ZSTD_c_contentSizeFlag, 1));
  if (!options.dictionary.empty()) {
    TRY(load_dictionary(context.get(), options.dictionary));
  }
  return context;
}

}  // namespace

struct Compressor::Impl {
  CompressOptions options;
  Context context;
  /// Referred to anew for each frame; else it is loaded, and stays.
  bool refer_to_prefix = false;
};

Compressor::Compressor(std::unique_ptr<Impl> impl) : m_impl(std::move(impl)) {
}
Compressor::Compressor(Compressor&&) noexcept = default;
Compressor& Compressor::operator=(Compressor&&) noexcept = default;
Compressor::~Compressor() = default;

Result<Compressor> Compressor::make(const CompressOptions& options) {
  auto impl = std::make_unique<Impl>();
  impl->options = options;
  TRY_ASSIGN(impl->context, make_context(options));
  // What looks like a trained dictionary would be loaded as one.
  impl->refer_to_prefix = looks_trained(options.prefix);
  if (!options.prefix.empty() && !impl->refer_to_prefix) {
    TRY(load_dictionary(impl->context.get(), options.prefix));
  }
  return Compressor(std::move(impl));
}

Result<Bytes> Compressor::compress(ByteView raw) {
  ZSTD_CCtx* const c = m_impl->context.get();
  if (m_impl->refer_to_prefix) {
    const ByteView prefix = m_impl->options.prefix;
    TRY(checked(ZSTD_CCtx_refPrefix(c, prefix.data(), prefix.size()), k_failed, k_what));
  }
  return compress_frame(c, raw);
}

Result<Bytes> compress(ByteView raw, const CompressOptions& options) {
  TRY_ASSIGN(const Context context, make_context(options));
  ZSTD_CCtx* const c = context.get();
  if (const int log = window_log(options.prefix.size() + raw.size()); log > k_level_window_log) {
    TRY(set(c, ZSTD_c_windowLog, log));
    TRY(set(c, ZSTD_c_enableLongDistanceMatching, 1));
  }
  if (!options.prefix.empty()) {
    TRY(checked(ZSTD_CCtx_refPrefix(c, options.prefix.data(), options.prefix.size()), k_failed,
                k_what));
  }
  return compress_frame(c, raw);
}

Result<Bytes> decompress(ByteView frame, const DecompressOptions& options) {
  constexpr auto k_corrupt = ErrorCode::corrupt;
  if (!options.dictionary.empty() && !options.prefix.empty()) {
    return fail(only_one_history());
  }
  TRY_ASSIGN(const std::uint64_t content, content_size(frame));
  if (content > options.max_bytes) {
    return fail(ErrorCode::too_large, "the zstd frame holds " + std::to_string(content) +
                                          " bytes; at most " + std::to_string(options.max_bytes) +
                                          " are accepted");
  }
  // Walks block headers only: damage and trailing bytes are found before the memory is taken.
  const std::size_t frame_size = ZSTD_findFrameCompressedSize(frame.data(), frame.size());
  if (ZSTD_isError(frame_size) != 0) {
    return fail(k_corrupt,
                std::string("the zstd frame is damaged: ") + ZSTD_getErrorName(frame_size));
  }
  if (frame_size != frame.size()) {
    return fail(k_corrupt,
                std::to_string(frame.size() - frame_size) + " bytes follow the zstd frame");
  }

  const Decompressor context(ZSTD_createDCtx());
  if (context == nullptr) {
    return fail(ErrorCode::environment, "cannot decompress: out of memory");
  }
  ZSTD_DCtx* const d = context.get();
  if (!options.dictionary.empty()) {
    TRY(checked(ZSTD_DCtx_loadDictionary(d, options.dictionary.data(), options.dictionary.size()),
                k_corrupt, "cannot load the compression dictionary"));
  }
  if (!options.prefix.empty()) {
    TRY(checked(ZSTD_DCtx_refPrefix(d, options.prefix.data(), options.prefix.size()), k_corrupt,
                "cannot decompress"));
  }
  Bytes raw(static_cast<std::size_t>(content));
  TRY_ASSIGN(const std::size_t size,
             checked(ZSTD_decompressDCtx(d, raw.data(), raw.size(), frame.data(), frame.size()),
                     k_corrupt, "the zstd frame is damaged"));
  if (size != raw.size()) {
    return fail(k_corrupt, "the zstd frame holds fewer bytes than it says");
  }
  return raw;
}

}  // namespace cubinary::core
