// SPDX-License-Identifier: Apache-2.0
#include "server/tls.hpp"

#include <array>
#include <string>

#include <openssl/err.h>
#include <openssl/ssl.h>

namespace cubinary::server {
namespace {

core::Error tls_error(const std::string& what) {
  std::array<char, 256> reason{};
  const unsigned long code = ERR_get_error();
  ERR_error_string_n(code, reason.data(), reason.size());
  ERR_clear_error();
  return {core::ErrorCode::usage, what + (code != 0 ? std::string(": ") + reason.data() : "")};
}

}  // namespace

void FreeSsl::operator()(ssl_ctx_st* context) const {
  SSL_CTX_free(context);
}
void FreeSsl::operator()(ssl_st* session) const {
  SSL_free(session);
}

core::Result<TlsContext> TlsContext::load(const std::filesystem::path& certificate,
                                          const std::filesystem::path& key) {
  TlsContext tls;
  tls.m_context.reset(SSL_CTX_new(TLS_server_method()));
  SSL_CTX* const context = tls.m_context.get();
  if (context == nullptr || SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION) != 1) {
    return core::fail(tls_error("cannot set up TLS"));
  }
  SSL_CTX_set_options(
      context, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION | SSL_OP_CIPHER_SERVER_PREFERENCE);
  SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                SSL_MODE_RELEASE_BUFFERS);
  if (SSL_CTX_use_certificate_chain_file(context, certificate.c_str()) != 1) {
    return core::fail(tls_error("cannot use the certificate " + certificate.string()));
  }
  if (SSL_CTX_use_PrivateKey_file(context, key.c_str(), SSL_FILETYPE_PEM) != 1) {
    return core::fail(tls_error("cannot use the private key " + key.string()));
  }
  if (SSL_CTX_check_private_key(context) != 1) {
    return core::fail(tls_error("the private key " + key.string() + " is not the one of " +
                                certificate.string()));
  }
  return tls;
}

TlsContext::Session TlsContext::session(int fd) const {
  Session session(SSL_new(m_context.get()));
  if (session && SSL_set_fd(session.get(), fd) == 1) {
    SSL_set_accept_state(session.get());
    return session;
  }
  return nullptr;
}

}  // namespace cubinary::server
