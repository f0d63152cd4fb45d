// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <memory>

#include "core/base/result.hpp"

struct ssl_ctx_st;
struct ssl_st;

namespace cubinary::server {

struct FreeSsl {
  void operator()(ssl_ctx_st* context) const;
  void operator()(ssl_st* session) const;
};

/// A server's certificate and key, ready for connections: TLS 1.2 or later, no compression, no
/// renegotiation. Sessions may be made by any thread.
class TlsContext {
 public:
  using Session = std::unique_ptr<ssl_st, FreeSsl>;

  /// Loads a PEM certificate chain and its private key. Errors name the file and what is wrong.
  [[nodiscard]] static core::Result<TlsContext> load(const std::filesystem::path& certificate,
                                                     const std::filesystem::path& key);
  /// A server-side session on a non-blocking socket; null when memory is short.
  [[nodiscard]] Session session(int fd) const;

 private:
  std::unique_ptr<ssl_ctx_st, FreeSsl> m_context;
};

}  // namespace cubinary::server
