// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/bytes.hpp"
#include "core/base/json.hpp"
#include "core/base/result.hpp"

namespace cubinary::cli {

/// Where a command finds its store: a file of its own, or a server that owns one.
struct StoreChoice {
  std::string file;        ///< `--store`
  std::string server;      ///< `--server`
  std::string token_file;  ///< `--token-file`; without one, CUBINARY_TOKEN in the environment
  std::string token;       ///< one that was read already; used before either
  int stop = -1;           ///< readable once nothing is worth waiting for: no second try then

  [[nodiscard]] bool remote() const { return !server.empty(); }
};

/// The API of a server that owns a store, as commands use it: JSON in, JSON out, the server's own
/// errors with their codes.
///
/// Every request may be sent again: the API's writes are idempotent. A server that cannot be
/// reached, is over a limit or restarts is asked again for about a minute, with growing pauses or
/// as its Retry-After says, unless the choice's `stop` says not to. One connection, kept alive; not
/// thread-safe.
class Remote {
 public:
  using Query = std::vector<std::pair<std::string, std::string>>;

  /// Connects lazily. Errors: `usage` for a URL that is not http(s)://HOST[:PORT] or a token sent
  /// in the clear to another machine; those of reading the token file.
  [[nodiscard]] static core::Result<Remote> open(const StoreChoice& choice);
  Remote(Remote&&) noexcept;
  Remote& operator=(Remote&&) noexcept;
  ~Remote();

  /// `path` is absolute and encoded (see `encode`); `query` is encoded here.
  [[nodiscard]] core::Result<core::json::Value> get(const std::string& path,
                                                    const Query& query = {});
  [[nodiscard]] core::Result<core::json::Value> post(const std::string& path,
                                                     const core::json::Value& body);
  [[nodiscard]] core::Result<core::json::Value> put(const std::string& path,
                                                    const core::json::Value& body);
  [[nodiscard]] core::Result<core::json::Value> remove(const std::string& path);

  /// Sends bytes, compressed on the way when they are many, with a content type.
  [[nodiscard]] core::Result<core::json::Value> post_bytes(const std::string& path,
                                                           std::string_view type,
                                                           core::ByteView bytes,
                                                           const Query& query = {});
  [[nodiscard]] core::Result<core::json::Value> put_bytes(const std::string& path,
                                                          std::string_view type,
                                                          core::ByteView bytes);
  /// Whole answer in memory; more than `max_bytes` is `too_large`.
  [[nodiscard]] core::Result<core::Bytes> get_bytes(const std::string& path,
                                                    std::uint64_t max_bytes,
                                                    const Query& query = {});
  /// Streams an answer of any size, once: a broken transfer is an error.
  [[nodiscard]] core::Result<void> download(
      const std::string& path, const std::function<core::Result<void>(core::ByteView)>& sink);

  /// The server, for messages.
  [[nodiscard]] const std::string& url() const;

 private:
  struct Impl;
  explicit Remote(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> m_impl;
};

/// Percent-encodes what may not stand in one segment of a path or one value of a query.
[[nodiscard]] std::string encode(std::string_view text);

}  // namespace cubinary::cli
