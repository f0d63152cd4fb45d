// SPDX-License-Identifier: Apache-2.0
#include "core/base/base64.hpp"

#include <algorithm>
#include <array>
#include <cstdint>

namespace cubinary::core {
namespace {

constexpr std::string_view k_alphabet =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

constexpr std::uint8_t k_no_digit = 64;

// What a character stands for, in either alphabet: 0..63, or k_no_digit.
constexpr std::array<std::uint8_t, 256> k_values = [] {
  std::array<std::uint8_t, 256> values{};
  values.fill(k_no_digit);
  for (std::size_t i = 0; i < k_alphabet.size(); ++i) {
    values[static_cast<unsigned char>(k_alphabet[i])] = static_cast<std::uint8_t>(i);
  }
  values['-'] = values['+'];
  values['_'] = values['/'];
  return values;
}();

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
  std::size_t padding = 0;
  while (padding < 2 && text.ends_with('=')) {
    text.remove_suffix(1);
    ++padding;
  }
  Bytes bytes(text.size() * 3 / 4);
  std::byte* out = bytes.data();
  bool standard = false;
  bool url_safe = false;
  // Four digits are three bytes; the last group may lack one byte or two.
  for (std::size_t at = 0; at < text.size(); at += 4) {
    const std::string_view digits = text.substr(at, 4);
    std::uint32_t group = 0;
    for (const char c : digits) {
      const std::uint32_t value = k_values[static_cast<unsigned char>(c)];
      if (value == k_no_digit) {
        return refuse("holds a character that is no base64 digit");
      }
      if (value >= 62) {
        (c == '+' || c == '/' ? standard : url_safe) = true;
      }
      group = group << 6U | value;
    }
    group <<= 6 * (4 - digits.size());
    for (std::size_t i = 0; i + 1 < digits.size(); ++i) {
      *out++ = static_cast<std::byte>(group >> 16U);
      group = group << 8U & 0xff'ffffU;
    }
    if (group != 0) {
      return refuse("ends in bits that belong to no byte");
    }
  }
  if (standard && url_safe) {
    return refuse("mixes the standard and the URL-safe alphabet");
  }
  return bytes;
}

}  // namespace cubinary::core
