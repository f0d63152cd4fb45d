// SPDX-License-Identifier: Apache-2.0
// The only place that includes the HTTP library: it is heavy, and its exceptions end here.
#include "client/http.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <exception>
#include <memory>
#include <mutex>
#include <utility>

#include <httplib.h>
#include <netdb.h>

#include "client/certificates.hpp"

namespace cubinary::client {
namespace {

using core::ErrorCode;
using core::fail;
using core::Result;

constexpr std::chrono::milliseconds k_silence{15'000};
constexpr std::chrono::milliseconds k_connect{10'000};

std::chrono::milliseconds remaining(Deadline deadline) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(deadline -
                                                               std::chrono::steady_clock::now());
}

struct Address {
  bool tls = false;
  std::string host;
  int port = 80;
};

/// Of an origin, which is SourceName's and so well-formed.
Address address_of(const std::string& origin) {
  const auto scheme = origin.find("://");
  Address address{origin.starts_with("https"), origin.substr(scheme + 3)};
  address.port = address.tls ? 443 : 80;
  std::string& host = address.host;
  const auto bracket = host.find(']');
  if (const auto colon = host.find(':', bracket == std::string::npos ? 0 : bracket);
      colon != std::string::npos) {
    address.port = static_cast<int>(std::strtol(host.c_str() + colon + 1, nullptr, 10));
    host.resize(colon);
  }
  if (host.starts_with('[')) {
    host = host.substr(1, host.size() - 2);
  }
  return address;
}

/// A client of the library for `origin`.
std::unique_ptr<httplib::ClientImpl> make_client(const std::string& origin) {
  const auto [tls, host, port] = address_of(origin);
  if (!tls) {
    return std::make_unique<httplib::ClientImpl>(host, port);
  }
  auto client = std::make_unique<httplib::SSLClient>(host, port);
  const std::string bundle = certificate_bundle();
  if (CertificateStore store = trusted_certificates(bundle)) {
    // Without certificates of its own, even none, it would read the system's for every connection.
    client->load_ca_cert_store("\n", 1);
    client->set_ca_cert_store(store.release());
  } else if (!bundle.empty()) {
    client->set_ca_cert_path(bundle);  // the library finds out, and says, what is wrong with it
  }
  return client;
}

HttpReply reply_from(const httplib::Response& response) {
  HttpReply reply;
  reply.status = response.status;
  for (const auto& [name, value] : response.headers) {
    std::string lower = name;
    std::transform(lower.begin(), lower.end(), lower.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    reply.headers.emplace(std::move(lower), value);
  }
  return reply;
}

std::string describe(httplib::Error error, const std::string& origin) {
  switch (error) {
    case httplib::Error::Connection:
      return describe_no_connection(origin);
    case httplib::Error::Read:
      return "the peer broke off, or sent nothing in time";
    case httplib::Error::Write:
      return "the request could not be sent";
    case httplib::Error::SSLConnection:
      return "TLS handshake failed";
    case httplib::Error::SSLLoadingCerts:
      return "no CA certificates could be loaded (set SSL_CERT_FILE)";
    case httplib::Error::SSLServerVerification:
      return "the server's certificate is not trusted (set SSL_CERT_FILE to its CA)";
    case httplib::Error::SSLServerHostnameVerification:
      return "the server's certificate is for another host";
    default:
      return httplib::to_string(error);
  }
}

}  // namespace

std::string describe_no_connection(const std::string& origin) {
  // The HTTP library has one error for both.
  addrinfo* found = nullptr;
  const int unknown = ::getaddrinfo(address_of(origin).host.c_str(), nullptr, nullptr, &found);
  if (unknown != 0) {
    return "no address is known for this host (" + std::string(::gai_strerror(unknown)) + ")";
  }
  ::freeaddrinfo(found);
  return "cannot connect";
}

std::string_view HttpReply::header(const std::string& name) const {
  const auto found = headers.find(name);
  return found == headers.end() ? std::string_view() : std::string_view(found->second);
}

struct HttpConnection::Impl {
  explicit Impl(const std::string& where) : origin(where), client(make_client(where)) {
    client->set_keep_alive(true);
    client->set_follow_location(false);
    client->set_path_encode(false);
    client->set_decompress(false);
    client->set_tcp_nodelay(true);
  }

  std::mutex mutex;
  std::string origin;
  const std::unique_ptr<httplib::ClientImpl> client;
};

HttpConnection::HttpConnection(const std::string& origin) : m_impl(std::make_unique<Impl>(origin)) {
}
HttpConnection::~HttpConnection() = default;

Result<HttpReply> HttpConnection::get(const HttpRequest& request) try {
  const std::lock_guard lock(m_impl->mutex);
  httplib::ClientImpl& client = *m_impl->client;
  const auto left = remaining(request.deadline);
  const auto late = [&] { return fail(ErrorCode::timeout, "the deadline passed"); };
  if (left.count() <= 0) {
    return late();
  }
  client.set_connection_timeout(std::min(left, k_connect));
  client.set_read_timeout(std::min(left, k_silence));
  client.set_write_timeout(std::min(left, k_silence));
  client.set_max_timeout(left);

  httplib::Headers headers;
  for (const auto& [name, value] : request.headers) {
    headers.emplace(name, value);
  }
  HttpReply reply;
  bool stopped = false;
  const auto result = client.Get(
      request.target, headers,
      [&](const httplib::Response& response) {
        reply = reply_from(response);
        stopped = request.head && !request.head(reply);
        return !stopped;
      },
      [&](const char* data, std::size_t size) {
        // The library's own clock covers waiting; a peer that drips always has something to give.
        if (remaining(request.deadline).count() <= 0) {
          return false;
        }
        stopped = request.body && !request.body(core::as_bytes({data, size}));
        return !stopped;
      });
  if (stopped) {
    return reply;
  }
  if (!result) {
    if (remaining(request.deadline).count() <= 0) {
      return late();
    }
    return fail(ErrorCode::network, describe(result.error(), m_impl->origin));
  }
  return reply_from(*result);
} catch (const std::exception& error) {
  return fail(ErrorCode::network, error.what());
}

}  // namespace cubinary::client
