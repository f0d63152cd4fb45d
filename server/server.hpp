// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/base/result.hpp"

namespace cubinary::server {

/// How `cubinary serve` was asked to serve.
struct ServeOptions {
  std::filesystem::path store;
  bool read_only = false;  ///< do not own the store: others may change it, nobody through here
  std::string listen = "127.0.0.1:8421";
  std::string repository = "cubinary";
  std::vector<std::string> hosts;         ///< more names allowed in Host
  std::filesystem::path tls_certificate;  ///< both or neither
  std::filesystem::path tls_key;
  bool behind_proxy = false;
  std::string access_log;               ///< a file; empty: standard error; "none": nowhere
  std::chrono::seconds drain_time{30};  ///< for requests under way at SIGTERM
  std::size_t workers = 64;
  std::size_t max_connections = 4096;
  std::optional<std::size_t> max_per_peer;  ///< default: 512, loopback and proxies any number
  std::uint64_t cache_mib = 64;             ///< memory for hot blobs; 0: none
  std::uint64_t body_mib = 256;             ///< memory for request bodies under way
  std::chrono::seconds head_time{10};
  std::chrono::seconds idle_time{30};
};

/// Serves until SIGTERM or SIGINT, drains, and returns 0. A second signal ends it at once. Prints
/// one line on standard output once it answers: "serving STORE on URL". Errors are those of opening
/// the store and the listening address; unsafe or contradictory options are `usage`.
[[nodiscard]] core::Result<int> serve(const ServeOptions& options);

}  // namespace cubinary::server
