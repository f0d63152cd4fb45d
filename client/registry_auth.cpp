// SPDX-License-Identifier: Apache-2.0
#include "client/registry_auth.hpp"

#include <algorithm>
#include <cctype>
#include <map>
#include <utility>

#include "core/base/base64.hpp"
#include "core/base/json.hpp"

namespace cubinary::client {
namespace {

using core::ErrorCode;
using core::fail;
using core::Result;

std::string percent_encode(std::string_view text) {
  constexpr std::string_view k_hex = "0123456789ABCDEF";
  std::string result;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) != 0 || c == '-' || c == '.' || c == '_' || c == '~') {
      result += c;
    } else {
      result += '%';
      result += k_hex[byte >> 4U];
      result += k_hex[byte & 15U];
    }
  }
  return result;
}

bool same_word(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](unsigned char x, unsigned char y) {
    return std::tolower(x) == std::tolower(y);
  });
}

/// `realm="…",service="…"`: names in lower case.
std::map<std::string, std::string> parameters_of(std::string_view text) {
  std::map<std::string, std::string> result;
  std::size_t at = 0;
  while (at < text.size()) {
    at = text.find_first_not_of(" ,\t", at);
    if (at == text.npos) {
      break;
    }
    const auto equals = text.find('=', at);
    if (equals == text.npos) {
      break;
    }
    std::string name(text.substr(at, equals - at));
    std::transform(name.begin(), name.end(), name.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    at = equals + 1;
    std::string value;
    if (at < text.size() && text[at] == '"') {
      for (++at; at < text.size() && text[at] != '"'; ++at) {
        if (text[at] == '\\' && at + 1 < text.size()) {
          ++at;
        }
        value += text[at];
      }
      ++at;
    } else {
      const auto end = std::min(text.find(',', at), text.size());
      value = text.substr(at, end - at);
      at = end;
    }
    result.emplace(std::move(name), std::move(value));
  }
  return result;
}

}  // namespace

std::string RegistryAuth::header() const {
  const std::lock_guard lock(m_mutex);
  if (!m_token.empty()) {
    return "Bearer " + m_token;
  }
  if (m_credentials.empty()) {
    return {};
  }
  if (m_credentials.find(':') == std::string::npos) {
    return "Bearer " + m_credentials;
  }
  return m_basic ? "Basic " + core::base64_encode(core::as_bytes(m_credentials)) : std::string();
}

Result<bool> RegistryAuth::answer(std::string_view challenge, std::string_view origin,
                                  std::string_view repository, const GetDocument& get,
                                  Deadline deadline) {
  const auto space = challenge.find(' ');
  const std::string_view scheme = challenge.substr(0, space);
  const bool has_password = m_credentials.find(':') != std::string::npos;
  if (same_word(scheme, "Basic")) {
    const std::lock_guard lock(m_mutex);
    return has_password && !std::exchange(m_basic, true);
  }
  if (!same_word(scheme, "Bearer") || space == challenge.npos) {
    return false;
  }
  const auto parameters = parameters_of(challenge.substr(space + 1));
  const auto realm = parameters.find("realm");
  if (realm == parameters.end() || realm->second.find("://") == std::string::npos ||
      (!m_credentials.empty() && !has_password)) {
    return false;  // no token service, or the user's own token was refused
  }
  if (origin.starts_with("https://") && !realm->second.starts_with("https://")) {
    return fail(ErrorCode::unauthorized,
                "refused to ask a token service over plain http: " + realm->second);
  }
  std::string url = realm->second;
  url += url.find('?') == std::string::npos ? '?' : '&';
  if (const auto service = parameters.find("service"); service != parameters.end()) {
    url += "service=" + percent_encode(service->second) + "&";
  }
  const auto scope = parameters.find("scope");
  url += "scope=" + percent_encode(scope != parameters.end()
                                       ? scope->second
                                       : "repository:" + std::string(repository) + ":pull");
  TRY_ASSIGN(const std::string text,
             get(url,
                 has_password ? "Basic " + core::base64_encode(core::as_bytes(m_credentials))
                              : std::string(),
                 deadline));
  TRY_ASSIGN(const auto json, core::json::parse(text));
  const core::json::Node top(json, "the token service's answer");
  TRY_ASSIGN(std::string token, top.text_or("token", ""));
  if (token.empty()) {
    TRY_ASSIGN(token, top.text_or("access_token", ""));
  }
  if (token.empty() || std::any_of(token.begin(), token.end(),
                                   [](unsigned char c) { return c <= ' ' || c >= 127; })) {
    return fail(ErrorCode::unauthorized, "the token service gave no token");
  }
  const std::lock_guard lock(m_mutex);
  m_token = std::move(token);
  return true;
}

}  // namespace cubinary::client
