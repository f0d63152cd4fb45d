// SPDX-License-Identifier: Apache-2.0
#include "builder/triton/key.hpp"

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

namespace cubinary::builder {
namespace {

/// MAJOR and MINOR of `3.6.0+git1234`.
std::optional<std::pair<int, int>> version_of(std::string_view text) {
  std::pair<int, int> version;
  const char* const begin = text.data();
  const char* const end = begin + text.size();
  const auto major = std::from_chars(begin, end, version.first);
  if (major.ec != std::errc() || major.ptr == end || *major.ptr != '.') {
    return std::nullopt;
  }
  if (std::from_chars(major.ptr + 1, end, version.second).ec != std::errc()) {
    return std::nullopt;
  }
  return version;
}

}  // namespace

std::string triton_folder_name(const core::Digest& digest) {
  constexpr std::string_view k_alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
  constexpr unsigned k_bits = 5;
  std::string text;
  unsigned pending = 0;
  unsigned count = 0;
  for (const std::byte byte : digest.raw()) {
    pending = (pending << 8U) | std::to_integer<unsigned>(byte);
    count += 8;
    while (count >= k_bits) {
      count -= k_bits;
      text += k_alphabet[(pending >> count) & 31U];
    }
    pending &= (1U << count) - 1;
  }
  if (count > 0) {
    text += k_alphabet[(pending << (k_bits - count)) & 31U];
  }
  return text;
}

std::vector<std::string> triton_host_keys(std::string_view source, std::string_view machine) {
  std::vector<std::string> keys;
  for (const std::string_view format : {"ELF", ""}) {
    core::Hasher hasher;
    hasher.update(source).update(machine).update(",Linux,64bit,").update(format);
    keys.push_back(triton_folder_name(hasher.finish()));
  }
  std::ranges::sort(keys);
  return keys;
}

bool has_plain_host_keys(std::string_view version) {
  const auto parsed = version_of(version);
  return parsed && *parsed >= std::pair(3, 4) && *parsed <= std::pair(3, 7);
}

bool is_supported_triton(std::string_view version) {
  const auto parsed = version_of(version);
  return parsed && *parsed >= std::pair(3, 4);
}

std::string abi_of_module(std::string_view file) {
  constexpr std::string_view k_tag = ".cpython-";
  const std::size_t at = file.find(k_tag);
  if (at == std::string_view::npos) {
    return {};
  }
  const std::string_view rest = file.substr(at + k_tag.size());
  const std::string_view digits = rest.substr(0, rest.find('-'));
  return digits.empty() ? std::string() : "cp" + std::string(digits);
}

}  // namespace cubinary::builder
