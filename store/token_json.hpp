// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/base/json.hpp"
#include "store/tokens.hpp"

namespace cubinary::store {

/// Id, name, scopes, times, and what the token is good for at `now`: valid, expired or revoked.
[[nodiscard]] inline core::json::Object to_json(const Token& token, std::int64_t now) {
  const bool expired = token.expires != 0 && token.expires <= now;
  return {{"id", token.id},
          {"name", token.name},
          {"scopes", scopes_text(token.scopes)},
          {"created", token.created},
          {"expires", token.expires},
          {"state", token.revoked ? "revoked"
                    : expired     ? "expired"
                                  : "valid"}};
}

}  // namespace cubinary::store
