// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.hpp"
#include "store/store.hpp"

namespace cubinary::store {

/// What a token's holder may do; a bit set.
enum class Scope : std::uint8_t { read = 1, publish = 2, tune = 4, admin = 8 };
using Scopes = std::uint8_t;
[[nodiscard]] core::Result<Scopes> parse_scopes(std::string_view comma_separated);
[[nodiscard]] std::string scopes_text(Scopes scopes);

struct Token {
  std::string id;  ///< 8 hex digits, safe to show
  std::string name;
  Scopes scopes = 0;
  std::int64_t created = 0;
  std::int64_t expires = 0;  ///< 0: never
  bool revoked = false;
};

/// Makes a random token and returns its secret, shown once: only SHA-256 of it is stored.
struct NewToken {
  Token token;
  std::string secret;  ///< "cbt_" + id + "_" + 43 characters of base64url
};
[[nodiscard]] core::Result<NewToken> create_token(Writer& writer, std::string_view name,
                                                  Scopes scopes, std::int64_t expires);
[[nodiscard]] core::Result<std::vector<Token>> list_tokens(const Reader& reader);
[[nodiscard]] core::Result<void> revoke_token(Writer& writer, std::string_view id);
/// The token a secret belongs to, if it is neither expired nor revoked. Constant-time comparison.
[[nodiscard]] core::Result<std::optional<Token>> check_token(const Reader& reader,
                                                             std::string_view secret,
                                                             std::int64_t now);

}  // namespace cubinary::store
