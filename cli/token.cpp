// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <ctime>
#include <memory>
#include <string>
#include <vector>

#include "cli/answer.hpp"
#include "cli/command.hpp"
#include "cli/table.hpp"
#include "cli/verb.hpp"
#include "store/store.hpp"
#include "store/token_json.hpp"

namespace cubinary::cli {
namespace {

namespace json = core::json;
using core::Result;

struct Options : VerbOptions {
  std::string name;
  std::string scope = "read";
  std::string expires;
  std::string id;
};

Result<store::Store> open_for_writing(const Options& options) {
  return store::Store::open(options.choice.file, {store::Access::write, false, "cubinary token"});
}

// --- create ---

Result<json::Value> make_token(const Options& options, store::Scopes scopes, std::int64_t expires) {
  if (options.choice.remote()) {
    TRY_ASSIGN(Remote remote, Remote::open(options.choice));
    return remote.post("/api/v1/tokens", json::Object{{"name", options.name},
                                                      {"scopes", store::scopes_text(scopes)},
                                                      {"expires", expires}});
  }
  TRY_ASSIGN(store::Store store, open_for_writing(options));
  store::NewToken made;
  TRY(store.write([&](store::Writer& writer) -> Result<void> {
    TRY_ASSIGN(made, store::create_token(writer, options.name, scopes, expires));
    return {};
  }));
  json::Object object = store::to_json(made.token, std::time(nullptr));
  object.emplace("secret", made.secret);
  return json::Value(std::move(object));
}

Result<int> create(const Options& options) {
  TRY_ASSIGN(const store::Scopes scopes, store::parse_scopes(options.scope));
  std::int64_t expires = 0;
  if (!options.expires.empty()) {
    TRY_ASSIGN(const std::int64_t seconds, parse_duration(options.expires));
    expires = std::time(nullptr) + seconds;
  }
  TRY_ASSIGN(const json::Value made, make_token(options, scopes, expires));
  if (options.json) {
    print_json(made);
    return 0;
  }
  // The secret alone on standard output, so that `> token-file` keeps just it.
  std::fprintf(stderr,
               "token %s for %s: scopes %s, expires %s; this is the only time it is shown\n",
               text_at(made, "id").c_str(), text_at(made, "name").c_str(),
               text_at(made, "scopes").c_str(), format_time(expires).c_str());
  std::printf("%s\n", text_at(made, "secret").c_str());
  return 0;
}

// --- list ---

Result<json::Value> get_tokens(const Options& options) {
  if (options.choice.remote()) {
    TRY_ASSIGN(Remote remote, Remote::open(options.choice));
    return remote.get("/api/v1/tokens");
  }
  TRY_ASSIGN(const store::Store store, store::Store::open(options.choice.file, {}));
  TRY_ASSIGN(const store::Reader reader, store.reader());
  TRY_ASSIGN(const std::vector<store::Token> tokens, store::list_tokens(reader));
  json::Array array;
  for (const store::Token& token : tokens) {
    array.emplace_back(store::to_json(token, std::time(nullptr)));
  }
  return json::Value(std::move(array));
}

Result<int> list(const Options& options) {
  TRY_ASSIGN(const json::Value tokens, get_tokens(options));
  if (options.json) {
    print_json(tokens);
    return 0;
  }
  Table table({"id", "name", "scopes", "created", "expires", "state"});
  for (const json::Value& token : array_of(tokens)) {
    table.add_row({text_at(token, "id"), text_at(token, "name"), text_at(token, "scopes"),
                   format_time(integer_at(token, "created")),
                   format_time(integer_at(token, "expires")), text_at(token, "state")});
  }
  std::fputs(table.text().c_str(), stdout);
  return 0;
}

// --- revoke ---

Result<int> revoke(const Options& options) {
  if (options.choice.remote()) {
    TRY_ASSIGN(Remote remote, Remote::open(options.choice));
    TRY(remote.remove("/api/v1/tokens/" + encode(options.id)));
  } else {
    TRY_ASSIGN(store::Store store, open_for_writing(options));
    TRY(store.write(
        [&](store::Writer& writer) { return store::revoke_token(writer, options.id); }));
  }
  if (options.json) {
    print_json(json::Object{{"revoked", options.id}});
  } else {
    std::printf("revoked %s: it opens nothing from now on\n", options.id.c_str());
  }
  return 0;
}

}  // namespace

void add_token(Cli& cli) {
  CLI::App* app =
      cli.app.add_subcommand("token", "Access tokens of a server: create, list, revoke");
  app->require_subcommand(1);
  const auto options = std::make_shared<Options>();

  CLI::App* made =
      add_verb(cli, *app, options, "create", "Make a token and print its secret, once", create);
  made->add_option("--name", options->name, "who holds it")->required();
  made->add_option("--scope", options->scope, "read, publish, tune, admin; comma-separated")
      ->capture_default_str();
  made->add_option("--expires", options->expires, "90d, 12h, …; never when left out");
  made->footer(
      "Example:\n  cubinary token create --store kernels.db --name ci --scope read,publish "
      "--expires 90d > ci.token\nThe first token of a store is made before it is served; a server "
      "then takes an `admin` token.");

  add_verb(cli, *app, options, "list", "Show all tokens, never their secrets", list)
      ->footer("Example:\n  cubinary token list --store kernels.db");

  CLI::App* revoked = add_verb(cli, *app, options, "revoke", "End a token", revoke);
  revoked->add_option("ID", options->id, "its 8 hex digits")->required();
  revoked->footer("Example:\n  cubinary token revoke 1a2b3c4d --store kernels.db");
}

}  // namespace cubinary::cli
