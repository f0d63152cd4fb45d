// SPDX-License-Identifier: Apache-2.0
#include "core/base/base64.hpp"

#include <algorithm>
#include <cstdint>

namespace cubinary::core {
namespace {

constexpr std::string_view k_alphabet =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

// 0..63, or 64 for what is no digit.
std::uint32_t digit_value(char c) {
  if (c >= 'A' && c <= 'Z') {
    return static_cast<std::uint32_t>(c - 'A');
  }
  if (c >= 'a' && c <= 'z') {
    return static_cast<std::uint32_t>(c - 'a' + 26);
  }
  if (c >= '0' && c <= '9') {
    return static_cast<std::uint32_t>(c - '0' + 52);
  }
  if (c == '+' || c == '-') {
    return 62;
  }
  return c == '/' || c == '_' ? 63 : 64;
}

tl::unexpected<Error> refuse(std::string_view why) {
  return fail(ErrorCode::corrupt, "the base64 text " + std::string(why));
}

}  // namespace

std::string base64_encode(ByteView bytes) {
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::size_t count = std::min<std::size_t>(3, bytes.size() - i);
    std::uint32_t group = 0;
    for (std::size_t j = 0; j < 3; ++j) {
      group = group << 8U | (j < count ? std::to_integer<std::uint32_t>(bytes[i + j]) : 0U);
    }
    for (std::size_t j = 0; j < 4; ++j) {
      text += j <= count ? k_alphabet[group >> (18 - 6 * j) & 63U] : '=';
    }
  }
  return text;
}

Result<Bytes> base64_decode(std::string_view text) {
  if (text.size() % 4 != 0) {
    return refuse("is cut off: its length is no multiple of four");
  }
  const bool standard = text.find_first_of("+/") != std::string_view::npos;
  const bool url_safe = text.find_first_of("-_") != std::string_view::npos;
  if (standard && url_safe) {
    return refuse("mixes the standard and the URL-safe alphabet");
  }
  std::size_t padding = 0;
  while (padding < 2 && text.ends_with('=')) {
    text.remove_suffix(1);
    ++padding;
  }
  Bytes bytes;
  bytes.reserve(text.size() / 4 * 3 + 2);
  std::uint32_t group = 0;
  unsigned bits = 0;
  for (const char c : text) {
    const std::uint32_t value = digit_value(c);
    if (value > 63) {
      return refuse("holds a character that is no base64 digit");
    }
    group = group << 6U | value;
    bits += 6;
    if (bits >= 8) {
      bits -= 8;
      bytes.push_back(static_cast<std::byte>(group >> bits));
      group &= (1U << bits) - 1U;
    }
  }
  if (group != 0) {
    return refuse("ends in bits that belong to no byte");
  }
  return bytes;
}

}  // namespace cubinary::core
