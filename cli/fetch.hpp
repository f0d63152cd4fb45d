// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "client/release.hpp"
#include "core/base/result.hpp"

namespace cubinary::cli {

/// How a command reaches a release, the same for every command that reads one.
struct SourceArguments {
  std::string source;
  std::vector<std::string> keys;
  std::string token;  ///< else CUBINARY_TOKEN
  double timeout_seconds = 600;
  bool allow_unsigned = false;
  bool allow_expired = false;
  bool offline = false;
  std::optional<core::Digest> pinned = {};  ///< this index and no other
};
/// Adds --key, --token-file, --timeout, --allow-unsigned and --allow-expired.
void describe_trust(CLI::App& app, SourceArguments& arguments);
/// Opens the release the arguments name; warnings go to stderr.
[[nodiscard]] core::Result<std::unique_ptr<client::Release>> open_release(
    const SourceArguments& arguments, std::shared_ptr<client::Cache> cache,
    client::Deadline deadline, bool remember_serial);
/// "warning: …" on stderr.
void print_warning(const std::string& message);

/// Describes fetching on `app` and returns what to run once it is parsed: `cubinary fetch` and
/// `cubinary-fetch` are the same thing.
[[nodiscard]] std::function<core::Result<int>()> describe_fetch(CLI::App& app);

}  // namespace cubinary::cli
