// SPDX-License-Identifier: Apache-2.0
#include "server/tokens_api.hpp"

#include <ctime>
#include <limits>

#include "store/token_json.hpp"
#include "store/tokens.hpp"

namespace cubinary::server {
namespace {

namespace json = core::json;
using core::Result;

Result<Response> create(store::Store& store, const Request& request) {
  TRY_ASSIGN(const json::Value document, json_body(request));
  const json::Node top(document, "the request");
  TRY_ASSIGN(const std::string name, top.text("name"));
  TRY_ASSIGN(const std::string scope_text, top.text_or("scopes", "read"));
  TRY_ASSIGN(const store::Scopes scopes, store::parse_scopes(scope_text));
  TRY_ASSIGN(const std::int64_t expires,
             top.integer_or("expires", 0, std::numeric_limits<std::int64_t>::max(), 0));
  if (expires != 0 && expires <= std::time(nullptr)) {
    return core::fail(core::ErrorCode::usage, "the token would have expired already");
  }
  store::NewToken made;
  TRY(store.write([&](store::Writer& writer) -> Result<void> {
    TRY_ASSIGN(made, store::create_token(writer, name, scopes, expires));
    return {};
  }));
  json::Object object = store::to_json(made.token, std::time(nullptr));
  object.emplace("secret", made.secret);
  Response response = json_response(std::move(object));
  response.status = 201;
  return response;
}

}  // namespace

Result<Response> TokensApi::answer(const Request& request, const RouteMatch& match) const {
  if (match.route == Route::token) {
    TRY(m_store->write(
        [&](store::Writer& writer) { return store::revoke_token(writer, match.reference); }));
    return json_response(json::Object{{"revoked", match.reference}});
  }
  if (request.method == "POST") {
    return create(*m_store, request);
  }
  TRY_ASSIGN(const store::Reader reader, m_store->reader());
  TRY_ASSIGN(const std::vector<store::Token> tokens, store::list_tokens(reader));
  json::Array array;
  for (const store::Token& token : tokens) {
    array.emplace_back(store::to_json(token, std::time(nullptr)));
  }
  return json_response(std::move(array));
}

}  // namespace cubinary::server
