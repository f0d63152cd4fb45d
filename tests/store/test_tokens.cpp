// SPDX-License-Identifier: Apache-2.0
#include <fstream>

#include <catch2/catch_test_macros.hpp>

#include "core/base/file.hpp"
#include "store/tokens.hpp"
#include "tests/store/scratch.hpp"

namespace cubinary::store {
namespace {

using core::ErrorCode;

NewToken make(Store& store, std::string_view name, Scopes scopes, std::int64_t expires) {
  NewToken made;
  must(store.write([&](Writer& writer) -> core::Result<void> {
    TRY_ASSIGN(made, create_token(writer, name, scopes, expires));
    return {};
  }));
  return made;
}

TEST_CASE("scopes parse and print") {
  CHECK(must(parse_scopes("read")) == 1);
  CHECK(must(parse_scopes("admin,read,tune")) == 13);
  CHECK(scopes_text(13) == "read,tune,admin");
  CHECK(scopes_text(15) == "read,publish,tune,admin");
  for (const char* wrong : {"", "read,", "Read", "read publish"}) {
    CHECK(code_of(parse_scopes(wrong)) == ErrorCode::usage);
  }
  CHECK(parse_scopes("publsh").error().message.find("did you mean \"publish\"") !=
        std::string::npos);
}

TEST_CASE("a secret names its token until it is revoked or expires") {
  const Scratch scratch;
  Store store = open_new(scratch / "s.db");
  const NewToken ci = make(store, "ci", 3, 0);
  const NewToken guest = make(store, "guest", 1, 1000);
  CHECK(ci.token.id.size() == 8);
  CHECK(ci.secret.size() == 4 + 8 + 1 + 43);
  CHECK(ci.secret.starts_with("cbt_" + ci.token.id + "_"));
  CHECK(ci.secret.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                                    "0123456789-_") == std::string::npos);
  CHECK(ci.secret != guest.secret);

  const auto check = [&](std::string_view secret, std::int64_t now) {
    return must(check_token(must(store.reader()), secret, now));
  };
  const auto found = check(ci.secret, 5000);
  REQUIRE(found);
  CHECK(found->id == ci.token.id);
  CHECK(found->name == "ci");
  CHECK(found->scopes == 3);
  CHECK(check(guest.secret, 999));
  CHECK_FALSE(check(guest.secret, 1000));

  std::string wrong = ci.secret;
  wrong.back() = wrong.back() == 'A' ? 'B' : 'A';
  CHECK_FALSE(check(wrong, 0));
  CHECK_FALSE(check(guest.secret.substr(0, 13) + ci.secret.substr(13), 0));
  CHECK_FALSE(check("", 0));
  CHECK_FALSE(check("cbt_", 0));
  CHECK_FALSE(check(ci.secret.substr(0, 12), 0));
  CHECK_FALSE(check(ci.secret + "x", 0));

  must(store.write([&](Writer& writer) { return revoke_token(writer, ci.token.id); }));
  CHECK_FALSE(check(ci.secret, 5000));
  const auto tokens = must(list_tokens(must(store.reader())));
  REQUIRE(tokens.size() == 2);
  CHECK((tokens[0].id == ci.token.id ? tokens[0] : tokens[1]).revoked);
}

TEST_CASE("no secret is kept") {
  const Scratch scratch;
  NewToken made;
  {
    Store store = open_new(scratch / "s.db");
    made = make(store, "ci", 1, 0);
  }
  const std::string bytes = must(core::read_text_file(scratch / "s.db", 10U << 20U));
  CHECK(bytes.find(made.token.id) != std::string::npos);
  CHECK(bytes.find(made.secret.substr(13)) == std::string::npos);
}

TEST_CASE("bad requests for tokens are refused") {
  const Scratch scratch;
  Store store = open_new(scratch / "s.db");
  const auto create = [&](std::string_view name, Scopes scopes) {
    return store.write([&](Writer& writer) -> core::Result<void> {
      TRY(create_token(writer, name, scopes, 0));
      return {};
    });
  };
  CHECK(code_of(create("", 1)) == ErrorCode::usage);
  CHECK(code_of(create("x", 0)) == ErrorCode::usage);
  const auto revoked = store.write([](Writer& writer) { return revoke_token(writer, "00000000"); });
  CHECK(code_of(revoked) == ErrorCode::not_found);
}

}  // namespace
}  // namespace cubinary::store
