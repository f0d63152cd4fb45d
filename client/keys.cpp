// SPDX-License-Identifier: Apache-2.0
#include "client/keys.hpp"

#include <algorithm>
#include <string_view>

namespace cubinary::client {

core::Result<std::vector<core::PublicKey>> load_keys(std::span<const std::string> files_or_pem) {
  std::vector<core::PublicKey> keys;
  for (const std::string& text : files_or_pem) {
    auto key = text.starts_with("-----BEGIN") ? core::PublicKey::from_pem(text)
                                              : core::PublicKey::load(text);
    if (!key) {
      return core::fail(std::move(key).error());
    }
    keys.push_back(*std::move(key));
  }
  return keys;
}

std::string trimmed_token(std::string token) {
  constexpr std::string_view k_space = " \t\r\n";
  const auto begin = token.find_first_not_of(k_space);
  if (begin == std::string::npos) {
    return {};
  }
  token = token.substr(begin, token.find_last_not_of(k_space) - begin + 1);
  const bool sendable =
      std::all_of(token.begin(), token.end(), [](unsigned char c) { return c >= ' ' && c != 127; });
  return sendable ? token : std::string();
}

}  // namespace cubinary::client
