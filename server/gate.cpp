// SPDX-License-Identifier: Apache-2.0
#include "server/gate.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>

#include <arpa/inet.h>

#include "core/base/base64.hpp"
#include "store/tokens.hpp"

namespace cubinary::server {
namespace {

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

bool starts_with_word(std::string_view text, std::string_view word) {
  return text.size() > word.size() && text[word.size()] == ' ' &&
         std::ranges::equal(text.substr(0, word.size()), word, {}, lower, lower);
}

/// The name part of a Host header, without port, brackets and trailing dot, in lower case.
std::string host_name(std::string_view host) {
  if (host.starts_with('[')) {
    host = host.substr(1, host.find(']') - 1);
  } else {
    host = host.substr(0, host.find(':'));
  }
  if (host.ends_with('.')) {
    host.remove_suffix(1);
  }
  std::string name(host);
  std::ranges::transform(name, name.begin(), lower);
  return name;
}

bool is_address(const std::string& name) {
  std::array<unsigned char, sizeof(in6_addr)> buffer{};
  return inet_pton(AF_INET, name.c_str(), buffer.data()) == 1 ||
         inet_pton(AF_INET6, name.c_str(), buffer.data()) == 1;
}

std::int64_t unix_now() {
  return std::chrono::duration_cast<std::chrono::seconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

Response challenge(std::string_view message) {
  Response response = error_response(401, "UNAUTHORIZED", message);
  // Only Basic is announced: registry clients take a Bearer challenge as "ask the realm for a
  // token".
  response.headers.emplace_back("WWW-Authenticate", "Basic realm=\"cubinary\", charset=\"UTF-8\"");
  return response;
}

}  // namespace

std::optional<std::string> secret_of(std::string_view authorization) {
  if (starts_with_word(authorization, "bearer")) {
    authorization.remove_prefix(7);
    const auto begin = authorization.find_first_not_of(' ');
    if (begin == std::string_view::npos) {
      return std::nullopt;
    }
    return std::string(authorization.substr(begin));
  }
  if (starts_with_word(authorization, "basic")) {
    authorization.remove_prefix(6);
    const auto pair = core::base64_decode(authorization);
    if (!pair) {
      return std::nullopt;
    }
    const std::string text = core::to_text(*pair);
    const auto colon = text.find(':');
    if (colon == std::string::npos) {
      return std::nullopt;
    }
    return text.substr(colon + 1);
  }
  return std::nullopt;
}

Gate::Gate(const store::Store& store, Options options)
    : m_store(&store), m_options(std::move(options)) {
  for (std::string& host : m_options.hosts) {
    host = host_name(host);
  }
}

bool Gate::host_allowed(std::string_view host) const {
  // Another site's page can make a browser send its own name here (DNS rebinding), never an
  // address.
  const std::string name = host_name(host);
  return name.empty() || name == "localhost" || is_address(name) ||
         std::ranges::find(m_options.hosts, name) != m_options.hosts.end();
}

Gate::Pass Gate::check(const Request& request, Route route) const {
  const auto refuse = [](Response response) { return Pass{{}, {}, std::move(response)}; };
  if (is_open(route)) {
    return {};
  }
  if (!host_allowed(request.host)) {
    return refuse(error_response(421, "HOST_UNKNOWN",
                                 "this server does not answer to the host name \"" +
                                     host_name(request.host) +
                                     "\": start it with --host NAME to allow it"));
  }
  const MethodRule* const rule = find_method(route, request.method);
  const store::Scope scope = rule != nullptr ? rule->scope : store::Scope::read;
  const std::string scope_name = store::scopes_text(static_cast<store::Scopes>(scope));
  if (request.authorization.empty()) {
    if (request.loopback && !m_options.behind_proxy && scope == store::Scope::read) {
      return {{}, "local", std::nullopt};
    }
    return refuse(challenge("a token with the scope \"" + scope_name +
                            "\" is needed: send it as Bearer token or as Basic password"));
  }
  const std::optional<std::string> secret = secret_of(request.authorization);
  if (!secret) {
    return refuse(challenge("the Authorization header is neither Bearer TOKEN nor Basic"));
  }
  const auto reader = m_store->reader();
  if (!reader) {
    return refuse(error_response(reader.error()));
  }
  const auto token = store::check_token(*reader, *secret, unix_now());
  if (!token) {
    return refuse(error_response(token.error()));
  }
  if (!*token) {
    return refuse(challenge("the token is unknown, expired or revoked"));
  }
  const store::Token& known = **token;
  Pass pass{known.id, known.id + " " + known.name, std::nullopt};
  if ((known.scopes & static_cast<store::Scopes>(scope)) == 0) {
    pass.refusal = error_response(
        403, "DENIED", "the token " + known.id + " lacks the scope \"" + scope_name + "\"");
  }
  return pass;
}

}  // namespace cubinary::server
