// SPDX-License-Identifier: Apache-2.0
#include "store/tokens.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <ctime>
#include <span>
#include <utility>

#include <sys/random.h>

#include "core/base/base64.hpp"
#include "core/base/digest.hpp"
#include "core/base/file.hpp"
#include "core/base/nearest.hpp"
#include "store/changes.hpp"
#include "store/connection.hpp"

namespace cubinary::store {

using core::ErrorCode;
using core::fail;
using core::Result;

namespace {

constexpr std::string_view k_prefix = "cbt_";
constexpr std::size_t k_id_digits = 8;
constexpr std::size_t k_secret_bytes = 32;
constexpr std::array<std::pair<Scope, std::string_view>, 4> k_scope_names{{
    {Scope::read, "read"},
    {Scope::publish, "publish"},
    {Scope::tune, "tune"},
    {Scope::admin, "admin"},
}};

Result<void> fill_random(std::span<std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t got = getrandom(bytes.data(), bytes.size(), 0);
    if (got < 0) {
      if (errno == EINTR) {
        continue;
      }
      return fail(core::errno_error("cannot get random bytes", errno));
    }
    bytes = bytes.subspan(static_cast<std::size_t>(got));
  }
  return {};
}

/// Unpadded base64url.
std::string base64url(core::ByteView bytes) {
  std::string text = core::base64_encode(bytes);
  text.erase(std::min(text.find('='), text.size()));
  std::replace(text.begin(), text.end(), '+', '-');
  std::replace(text.begin(), text.end(), '/', '_');
  return text;
}

/// Takes the same time wherever the two differ.
bool equal_digests(const core::Digest& a, const core::Digest& b) {
  unsigned difference = 0;
  for (std::size_t i = 0; i < core::Digest::k_size; ++i) {
    difference |= std::to_integer<unsigned>(a.raw()[i] ^ b.raw()[i]);
  }
  return difference == 0;
}

Token token_of(const Statement& row) {
  Token token;
  token.id = row.text(0);
  token.name = row.text(1);
  token.scopes = static_cast<Scopes>(row.integer(2) & 15);
  token.created = row.integer(3);
  token.expires = row.integer(4);
  token.revoked = row.integer(5) != 0;
  return token;
}

}  // namespace

Result<Scopes> parse_scopes(std::string_view comma_separated) {
  unsigned scopes = 0;
  std::string_view rest = comma_separated;
  while (true) {
    const std::size_t comma = rest.find(',');
    const std::string_view word = rest.substr(0, comma);
    unsigned bit = 0;
    std::vector<std::string> names;
    for (const auto& [scope, name] : k_scope_names) {
      names.emplace_back(name);
      if (word == name) {
        bit = static_cast<unsigned>(scope);
      }
    }
    if (bit == 0) {
      return fail(ErrorCode::usage, "no scope \"" + std::string(word) + "\"" +
                                        core::did_you_mean(word, names) +
                                        "; there are read, publish, tune and admin");
    }
    scopes |= bit;
    if (comma == std::string_view::npos) {
      return static_cast<Scopes>(scopes);
    }
    rest.remove_prefix(comma + 1);
  }
}

std::string scopes_text(Scopes scopes) {
  std::string text;
  for (const auto& [scope, name] : k_scope_names) {
    if ((scopes & static_cast<unsigned>(scope)) != 0) {
      text += text.empty() ? "" : ",";
      text += name;
    }
  }
  return text;
}

Result<NewToken> create_token(Writer& writer, std::string_view name, Scopes scopes,
                              std::int64_t expires) {
  if (name.empty() || name.size() > 128) {
    return fail(ErrorCode::usage, "a token needs a name of 1 to 128 bytes that says who holds it");
  }
  if (scopes == 0) {
    return fail(ErrorCode::usage, "a token needs at least one scope: read, publish, tune or admin");
  }
  std::array<std::byte, 16> id{};
  std::array<std::byte, k_secret_bytes> secret{};
  TRY(fill_random(secret));
  Connection& connection = writer.connection();
  NewToken made;
  while (true) {
    TRY(fill_random(id));
    made.token.id = core::sha256(id).hex().substr(0, k_id_digits);
    TRY_ASSIGN(const auto taken,
               connection.find_integer("SELECT 1 FROM token WHERE id = ?1", made.token.id));
    if (!taken) {
      break;
    }
  }
  made.token.name = name;
  made.token.scopes = scopes;
  made.token.created = std::time(nullptr);
  made.token.expires = expires;
  made.secret = std::string(k_prefix) + made.token.id + "_" + base64url(secret);
  TRY(connection.run(
      "INSERT INTO token (id, name, scopes, hash, created, expires) "
      "VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
      made.token.id, name, scopes, core::sha256(made.secret), made.token.created, expires));
  TRY(record_change(writer, "token create", made.token.id,
                    {{"name", name}, {"scopes", scopes_text(scopes)}, {"expires", expires}}));
  return made;
}

Result<std::vector<Token>> list_tokens(const Reader& reader) {
  TRY_ASSIGN(Statement row,
             reader.connection().query("SELECT id, name, scopes, created, expires, revoked "
                                       "FROM token ORDER BY created, id"));
  std::vector<Token> tokens;
  while (true) {
    TRY_ASSIGN(const bool more, row.step());
    if (!more) {
      return tokens;
    }
    tokens.push_back(token_of(row));
  }
}

Result<void> revoke_token(Writer& writer, std::string_view id) {
  Connection& connection = writer.connection();
  TRY(connection.run("UPDATE token SET revoked = 1 WHERE id = ?1 AND revoked = 0", id));
  if (connection.changes() != 0) {
    return record_change(writer, "token revoke", id);
  }
  TRY_ASSIGN(const auto known, connection.find_integer("SELECT 1 FROM token WHERE id = ?1", id));
  if (known) {
    return {};  // revoked before
  }
  TRY_ASSIGN(const std::vector<Token> tokens, list_tokens(writer.reader()));
  std::vector<std::string> ids;
  for (const Token& token : tokens) {
    ids.push_back(token.id);
  }
  return fail(ErrorCode::not_found, "no token with id \"" + std::string(id) + "\"" +
                                        core::did_you_mean(id, ids) +
                                        "; `cubinary token list` shows all");
}

Result<std::optional<Token>> check_token(const Reader& reader, std::string_view secret,
                                         std::int64_t now) {
  const core::Digest given = core::sha256(secret);
  if (!secret.starts_with(k_prefix) || secret.size() < k_prefix.size() + k_id_digits + 1 ||
      secret[k_prefix.size() + k_id_digits] != '_') {
    return std::nullopt;
  }
  TRY_ASSIGN(Statement row,
             reader.connection().query("SELECT id, name, scopes, created, expires, revoked, hash "
                                       "FROM token WHERE id = ?1",
                                       secret.substr(k_prefix.size(), k_id_digits)));
  TRY_ASSIGN(const bool found, row.step());
  if (!found || !equal_digests(row.digest(6), given)) {
    return std::nullopt;
  }
  Token token = token_of(row);
  if (token.revoked || (token.expires != 0 && token.expires <= now)) {
    return std::nullopt;
  }
  return token;
}

}  // namespace cubinary::store
