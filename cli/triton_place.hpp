// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "builder/triton/ingest.hpp"
#include "cli/remote.hpp"
#include "core/base/result.hpp"

namespace cubinary::cli {

/// Where captures go and come from: a store of one's own, opened for each call and left to others
/// meanwhile, or a server.
class TritonPlace {
 public:
  /// `command` is named to whoever finds the store in use.
  TritonPlace(StoreChoice choice, std::string command)
      : m_choice(std::move(choice)), m_command(std::move(command)) {}

  /// Whether something can be put there now: what hinders is to be known before a long run.
  [[nodiscard]] core::Result<void> check() const;
  /// All records there.
  [[nodiscard]] core::Result<std::vector<std::string>> records() const;
  /// Puts everything complete of a folder there; on a server all of it at once, or nothing.
  [[nodiscard]] core::Result<builder::TritonIngest> take(
      const std::filesystem::path& folder, const builder::TritonFolderOptions& options) const;
  /// For messages.
  [[nodiscard]] const std::string& name() const {
    return m_choice.remote() ? m_choice.server : m_choice.file;
  }

 private:
  StoreChoice m_choice;
  std::string m_command;
};

}  // namespace cubinary::cli
