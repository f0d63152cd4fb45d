// SPDX-License-Identifier: Apache-2.0
#include "cli/remote.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <optional>

#include <httplib.h>
#include <poll.h>
#include <unistd.h>

#include "client/http.hpp"
#include "core/base/file.hpp"
#include "core/wire/codec.hpp"

namespace cubinary::cli {
namespace {

namespace json = core::json;
using core::ErrorCode;
using core::fail;
using core::Result;
using Clock = std::chrono::steady_clock;

constexpr std::uint64_t k_max_json = 1ULL << 30U;
constexpr std::size_t k_worth_packing = 4096;
constexpr int k_packing_level = 3;
constexpr std::uint64_t k_max_token_file = 4096;
constexpr std::chrono::seconds k_patience{60};
constexpr std::chrono::seconds k_longest_pause{10};
/// An fsck or gc of a large store says nothing until it is done.
constexpr std::chrono::minutes k_silence{30};

struct Origin {
  std::string url;
  bool tls = false;
  bool loopback = false;
};

Result<Origin> parse_origin(std::string url) {
  while (url.ends_with('/')) {
    url.pop_back();
  }
  Origin origin;
  origin.tls = url.starts_with("https://");
  const std::size_t scheme = origin.tls ? 8 : 7;
  const std::string host = url.size() > scheme ? url.substr(scheme) : "";
  const bool plain = host.find_first_of("/?#@ ") == std::string::npos;
  if ((!origin.tls && !url.starts_with("http://")) || host.empty() || !plain) {
    return fail(ErrorCode::usage,
                "--server: \"" + url + "\" is no server: give http://HOST:PORT or https://HOST");
  }
  origin.loopback =
      host.starts_with("127.") || host.starts_with("localhost") || host.starts_with("[::1]");
  origin.url = std::move(url);
  return origin;
}

Result<std::string> read_token(const StoreChoice& choice) {
  if (!choice.token.empty()) {
    return choice.token;
  }
  if (choice.token_file.empty()) {
    const char* given = std::getenv("CUBINARY_TOKEN");
    return std::string(given == nullptr ? "" : given);
  }
  TRY_ASSIGN(std::string text, core::read_text_file(choice.token_file, k_max_token_file));
  text.erase(std::min(text.size(), text.find_first_of("\r\n")));
  if (text.empty()) {
    return fail(ErrorCode::usage, choice.token_file + ": the first line holds no token");
  }
  return text;
}

/// The system's certificates: a statically linked OpenSSL knows one distribution's folder only.
std::string certificates() {
  if (const char* named = std::getenv("SSL_CERT_FILE"); named != nullptr && *named != '\0') {
    return named;
  }
  for (const char* path : {"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt",
                           "/etc/ssl/ca-bundle.pem", "/etc/ssl/cert.pem"}) {
    if (::access(path, R_OK) == 0) {
      return path;
    }
  }
  return {};
}

/// The code whose name the server sent, else the first with its status.
ErrorCode code_of(std::string_view name, int status) {
  for (const core::ErrorInfo& info : core::error_table()) {
    if (info.name == name) {
      return info.code;
    }
  }
  switch (status) {
    case 400:
      return ErrorCode::usage;
    case 401:
      return ErrorCode::unauthorized;
    case 403:
      return ErrorCode::forbidden;
    case 404:
      return ErrorCode::not_found;
    case 413:
      return ErrorCode::too_large;
    default:
      return status >= 500 ? ErrorCode::network : ErrorCode::unsupported;
  }
}

core::Error error_of(const std::string& url, int status, const std::string& body) {
  std::string code;
  std::string message = "HTTP status " + std::to_string(status);
  if (const auto document = json::parse(body)) {
    const json::Node top(*document, "answer");
    const auto errors = top.find("errors");
    if (errors && errors->exists()) {
      if (const auto items = errors->elements(); items && !items->empty()) {
        code = items->front().text_or("code", "").value_or("");
        message = items->front().text_or("message", message).value_or(message);
      }
    }
  }
  return {code_of(code, status), url + ": " + message};
}

std::string describe(httplib::Error error, const std::string& url) {
  switch (error) {
    case httplib::Error::Connection:
      return client::describe_no_connection(url);
    case httplib::Error::Read:
      return "the server broke off, or sent nothing in time";
    case httplib::Error::SSLServerVerification:
      return "its certificate is not trusted (set SSL_CERT_FILE to its CA)";
    case httplib::Error::SSLServerHostnameVerification:
      return "its certificate is for another host";
    default:
      return httplib::to_string(error);
  }
}

bool may_pass(httplib::Error error) {
  return error == httplib::Error::Connection || error == httplib::Error::Read ||
         error == httplib::Error::Write || error == httplib::Error::ConnectionTimeout;
}

std::string with_query(const std::string& path, const Remote::Query& query) {
  std::string target = path;
  char mark = '?';
  for (const auto& [name, value] : query) {
    target.append(1, mark).append(encode(name)).append("=").append(encode(value));
    mark = '&';
  }
  return target;
}

}  // namespace

struct Remote::Impl {
  explicit Impl(const Origin& origin) : url(origin.url), client(origin.url) {
    client.set_keep_alive(true);
    client.set_path_encode(false);
    client.set_decompress(false);
    client.set_tcp_nodelay(true);
    client.set_connection_timeout(std::chrono::seconds(10));
    client.set_read_timeout(k_silence);
    client.set_write_timeout(std::chrono::minutes(1));
    if (origin.tls) {
      if (const auto bundle = certificates(); !bundle.empty()) {
        client.set_ca_cert_path(bundle);
      }
    }
  }

  /// Sends until an answer comes that is no passing trouble. `response` is left for the caller.
  Result<httplib::Response> send(const httplib::Request& request) {
    const Clock::time_point deadline = Clock::now() + k_patience;
    std::chrono::milliseconds pause{200};
    while (true) {
      auto result = client.send(request);
      const bool busy = result && (result->status == 429 || result->status == 503);
      if (result && !busy) {
        if (result->status >= 200 && result->status < 300) {
          return std::move(*result);
        }
        return fail(error_of(url, result->status, result->body));
      }
      std::chrono::milliseconds wait = pause;
      if (busy) {
        const std::string after = result->get_header_value("Retry-After");
        wait = std::max(wait, std::chrono::milliseconds(1000 * std::atol(after.c_str())));
      }
      const bool hopeless = !result && !may_pass(result.error());
      if (hopeless || Clock::now() + wait > deadline) {
        return result ? fail(error_of(url, result->status, result->body))
                      : fail(ErrorCode::network, url + ": " + describe(result.error(), url));
      }
      pollfd stopped{stop, POLLIN, 0};
      if (poll(&stopped, 1, static_cast<int>(wait.count())) > 0) {
        return fail(ErrorCode::cancelled, url + ": stopped while it could not be reached");
      }
      pause = std::min<std::chrono::milliseconds>(2 * pause, k_longest_pause);
    }
  }

  httplib::Request request(const char* method, const std::string& target) const {
    httplib::Request made;
    made.method = method;
    made.path = target;
    if (!token.empty()) {
      made.headers.emplace("Authorization", "Bearer " + token);
    }
    return made;
  }

  Result<json::Value> exchange(httplib::Request request) {
    TRY_ASSIGN(const httplib::Response response, send(request));
    if (response.body.empty()) {
      return json::Value();
    }
    auto value = json::parse(response.body);
    if (!value) {
      return fail(value.error().with_context(url + request.path));
    }
    return value;
  }

  Result<json::Value> exchange(const char* method, const std::string& path, std::string_view type,
                               std::string_view body) {
    httplib::Request made = request(method, path);
    made.headers.emplace("Content-Type", type);
    made.body = body;
    if (body.size() >= k_worth_packing) {
      TRY_ASSIGN(const core::Bytes packed,
                 core::compress(core::as_bytes(body), {.level = k_packing_level}));
      made.body = core::as_text(packed);
      made.headers.emplace("Content-Encoding", "zstd");
    }
    return exchange(std::move(made));
  }

  std::string url;
  std::string token;
  int stop = -1;
  httplib::Client client;
};

Remote::Remote(std::unique_ptr<Impl> impl) : m_impl(std::move(impl)) {
}
Remote::Remote(Remote&&) noexcept = default;
Remote& Remote::operator=(Remote&&) noexcept = default;
Remote::~Remote() = default;

Result<Remote> Remote::open(const StoreChoice& choice) {
  TRY_ASSIGN(const Origin origin, parse_origin(choice.server));
  auto impl = std::make_unique<Impl>(origin);
  TRY_ASSIGN(impl->token, read_token(choice));
  impl->stop = choice.stop;
  if (!impl->token.empty() && !origin.tls && !origin.loopback) {
    return fail(ErrorCode::usage, origin.url +
                                      ": a token must not travel in the clear; use https:// (or a "
                                      "tunnel to this machine)");
  }
  return Remote(std::move(impl));
}

Result<json::Value> Remote::get(const std::string& path, const Query& query) {
  return m_impl->exchange(m_impl->request("GET", with_query(path, query)));
}

Result<json::Value> Remote::post(const std::string& path, const json::Value& body) {
  return m_impl->exchange("POST", path, "application/json", json::to_text(body));
}

Result<json::Value> Remote::put(const std::string& path, const json::Value& body) {
  return m_impl->exchange("PUT", path, "application/json", json::to_text(body));
}

Result<json::Value> Remote::remove(const std::string& path) {
  return m_impl->exchange(m_impl->request("DELETE", path));
}

Result<json::Value> Remote::put_bytes(const std::string& path, std::string_view type,
                                      core::ByteView bytes) {
  return m_impl->exchange("PUT", path, type, core::as_text(bytes));
}

Result<json::Value> Remote::post_bytes(const std::string& path, std::string_view type,
                                       core::ByteView bytes, const Query& query) {
  return m_impl->exchange("POST", with_query(path, query), type, core::as_text(bytes));
}

Result<core::Bytes> Remote::get_bytes(const std::string& path, std::uint64_t max_bytes,
                                      const Query& query) {
  httplib::Request made = m_impl->request("GET", with_query(path, query));
  std::string body;
  bool too_large = false;
  made.content_receiver = [&](const char* data, std::size_t size, std::size_t offset, std::size_t) {
    if (offset == 0) {
      body.clear();
    }
    too_large = body.size() + size > max_bytes;
    if (!too_large) {
      body.append(data, size);
    }
    return !too_large;
  };
  auto response = m_impl->send(made);
  if (too_large) {
    return fail(ErrorCode::too_large, m_impl->url + path + ": the answer has more than " +
                                          std::to_string(max_bytes) + " bytes");
  }
  TRY(response);
  return core::to_bytes(body);
}

Result<void> Remote::download(const std::string& path,
                              const std::function<Result<void>(core::ByteView)>& sink) {
  httplib::Request made = m_impl->request("GET", path);
  std::optional<core::Error> problem;
  int status = 0;
  std::string refusal;
  made.response_handler = [&](const httplib::Response& response) {
    status = response.status;
    return true;
  };
  made.content_receiver = [&](const char* data, std::size_t size, std::size_t, std::size_t) {
    if (status != 200) {
      refusal.append(data, std::min<std::size_t>(size, 65536));
      return refusal.size() < 65536;
    }
    if (auto taken = sink(core::as_bytes({data, size})); !taken) {
      problem = taken.error();
    }
    return !problem;
  };
  const auto result = m_impl->client.send(made);
  if (problem) {
    return fail(*problem);
  }
  if (!result) {
    return fail(ErrorCode::network, m_impl->url + ": " + describe(result.error(), m_impl->url));
  }
  if (result->status != 200) {
    return fail(error_of(m_impl->url, result->status, refusal));
  }
  return {};
}

const std::string& Remote::url() const {
  return m_impl->url;
}

std::string encode(std::string_view text) {
  constexpr std::string_view k_hex = "0123456789ABCDEF";
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                       c == '-' || c == '.' || c == '_' || c == '~' || c == ':' || c == ',';
    if (plain) {
      out += c;
    } else {
      out.append(1, '%').append(1, k_hex[byte >> 4U]).append(1, k_hex[byte & 15U]);
    }
  }
  return out;
}

}  // namespace cubinary::cli
