// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <ctime>
#include <memory>
#include <string>
#include <vector>

#include "cli/command.hpp"
#include "cli/table.hpp"
#include "core/base/json.hpp"
#include "store/store.hpp"
#include "store/tokens.hpp"

namespace cubinary::cli {
namespace {

namespace json = core::json;
using core::Result;

struct Options {
  std::string store;
  std::string name;
  std::string scope = "read";
  std::string expires;
  std::string id;
  bool json = false;
};

std::string state_of(const store::Token& token) {
  if (token.revoked) {
    return "revoked";
  }
  return token.expires != 0 && token.expires <= std::time(nullptr) ? "expired" : "valid";
}

json::Object to_json(const store::Token& token) {
  return {{"id", token.id},
          {"name", token.name},
          {"scopes", store::scopes_text(token.scopes)},
          {"created", token.created},
          {"expires", token.expires},
          {"state", state_of(token)}};
}

Result<store::Store> open_for_writing(const Options& options) {
  return store::Store::open(options.store, {store::Access::write, false, "cubinary token"});
}

Result<int> create(const Options& options) {
  TRY_ASSIGN(const store::Scopes scopes, store::parse_scopes(options.scope));
  std::int64_t expires = 0;
  if (!options.expires.empty()) {
    TRY_ASSIGN(const std::int64_t seconds, parse_duration(options.expires));
    expires = std::time(nullptr) + seconds;
  }
  TRY_ASSIGN(store::Store store, open_for_writing(options));
  store::NewToken made;
  TRY(store.write([&](store::Writer& writer) -> Result<void> {
    TRY_ASSIGN(made, store::create_token(writer, options.name, scopes, expires));
    return {};
  }));
  if (options.json) {
    json::Object object = to_json(made.token);
    object.emplace("secret", made.secret);
    std::printf("%s\n", json::to_text(object).c_str());
    return 0;
  }
  // The secret alone on standard output, so that `> token-file` keeps just it.
  std::fprintf(stderr,
               "token %s for %s: scopes %s, expires %s; this is the only time it is shown\n",
               made.token.id.c_str(), made.token.name.c_str(), store::scopes_text(scopes).c_str(),
               format_time(expires).c_str());
  std::printf("%s\n", made.secret.c_str());
  return 0;
}

Result<int> list(const Options& options) {
  TRY_ASSIGN(const store::Store store, store::Store::open(options.store, {}));
  TRY_ASSIGN(const store::Reader reader, store.reader());
  TRY_ASSIGN(const std::vector<store::Token> tokens, store::list_tokens(reader));
  if (options.json) {
    json::Array array;
    for (const store::Token& token : tokens) {
      array.emplace_back(to_json(token));
    }
    std::printf("%s\n", json::to_text(array).c_str());
    return 0;
  }
  Table table({"id", "name", "scopes", "created", "expires", "state"});
  for (const store::Token& token : tokens) {
    table.add_row({token.id, token.name, store::scopes_text(token.scopes),
                   format_time(token.created), format_time(token.expires), state_of(token)});
  }
  std::fputs(table.text().c_str(), stdout);
  return 0;
}

Result<int> revoke(const Options& options) {
  TRY_ASSIGN(store::Store store, open_for_writing(options));
  TRY(store.write([&](store::Writer& writer) { return store::revoke_token(writer, options.id); }));
  if (options.json) {
    std::printf("%s\n", json::to_text(json::Object{{"revoked", options.id}}).c_str());
  } else {
    std::printf("revoked %s: it opens nothing from now on\n", options.id.c_str());
  }
  return 0;
}

CLI::App* add_verb(Cli& cli, CLI::App* parent, const std::shared_ptr<Options>& options,
                   const char* name, const char* help, Result<int> (*verb)(const Options&)) {
  CLI::App* app = parent->add_subcommand(name, help);
  app->add_option("--store", options->store, "the server's store")->required();
  app->add_flag("--json", options->json, "JSON");
  app->callback([&cli, options, verb] { cli.run = [options, verb] { return verb(*options); }; });
  return app;
}

}  // namespace

void add_token(Cli& cli) {
  CLI::App* app =
      cli.app.add_subcommand("token", "Access tokens of a server: create, list, revoke");
  app->require_subcommand(1);
  const auto options = std::make_shared<Options>();

  CLI::App* made =
      add_verb(cli, app, options, "create", "Make a token and print its secret, once", create);
  made->add_option("--name", options->name, "who holds it")->required();
  made->add_option("--scope", options->scope, "read, publish, tune, admin; comma-separated")
      ->capture_default_str();
  made->add_option("--expires", options->expires, "90d, 12h, …; never when left out");
  made->footer(
      "Example:\n  cubinary token create --store kernels.db --name ci --scope read,publish "
      "--expires 90d > ci.token");

  add_verb(cli, app, options, "list", "Show all tokens, never their secrets", list)
      ->footer("Example:\n  cubinary token list --store kernels.db");

  CLI::App* revoked = add_verb(cli, app, options, "revoke", "End a token", revoke);
  revoked->add_option("ID", options->id, "its 8 hex digits")->required();
  revoked->footer("Example:\n  cubinary token revoke 1a2b3c4d --store kernels.db");
}

}  // namespace cubinary::cli
