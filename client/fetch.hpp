// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "client/release.hpp"
#include "core/base/result.hpp"
#include "core/model/device_class.hpp"
#include "core/model/target.hpp"

namespace cubinary::client {

/// Which part of a release; everything by default.
struct FetchFilter {
  std::string kernel_glob = {};                        ///< as the shell's; empty: all kernels
  std::vector<core::Target> targets = {};              ///< empty: all
  std::optional<core::DeviceClass> device_class = {};  ///< only targets that run on it
  std::size_t width = 8;                               ///< packs on their way at once
};

struct FetchedArtifact {
  std::string kernel;
  core::Target target;
  core::Digest digest;
  std::uint64_t bytes = 0;  ///< as the loader takes them
  std::size_t entries = 0;  ///< table entries that use it
};

struct FetchReport {
  std::vector<FetchedArtifact> artifacts;  ///< by target, kernel, digest
  std::size_t catalogues = 0;
  std::size_t packs = 0;
  std::size_t packs_received = 0;    ///< the others were in the cache
  std::uint64_t bytes_received = 0;  ///< of packs
  std::uint64_t artifact_bytes = 0;
  int minimum_driver = 0;  ///< branch that loads all of it
};

/// Told before each pack: how many were begun before it, of how many, and what. One call at a time.
using FetchProgress =
    std::function<void(std::size_t done, std::size_t all, const core::KernelTable& table)>;

/// Fetches catalogues and packs into the release's cache and checks every artifact's digest, of
/// those in the cache already too. Errors: `no_match` (no such target, or none for the device
/// class), `not_found` (no kernel matches), and what fetching may meet.
[[nodiscard]] core::Result<FetchReport> fetch(Release& release, const FetchFilter& filter,
                                              Deadline deadline,
                                              const FetchProgress& progress = {});

}  // namespace cubinary::client
