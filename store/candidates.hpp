// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/digest.hpp"
#include "core/base/result.hpp"
#include "core/model/values.hpp"
#include "core/table/kernel_table.hpp"
#include "store/artifacts.hpp"
#include "store/store.hpp"

namespace cubinary::store {

using KernelId = std::int64_t;
using CandidateId = std::int64_t;

/// A kernel as last built: its manifest's text is what releases and tuners work from.
struct Kernel {
  KernelId id = 0;
  std::string name;
  core::Digest interface;
  core::Digest manifest_digest;
  std::string manifest;       ///< the TOML text
  std::string manifest_path;  ///< where it was, for messages only
  std::string inputs;         ///< what the last finished build hashed (builder's JSON), for
                              ///< `build --explain`; empty before the first
};

/// Inserts or updates the kernel of this name.
[[nodiscard]] core::Result<KernelId> put_kernel(Writer& writer, const Kernel& kernel);
[[nodiscard]] core::Result<std::optional<Kernel>> find_kernel(const Reader& reader,
                                                              std::string_view name);
[[nodiscard]] core::Result<std::vector<Kernel>> list_kernels(const Reader& reader);

enum class CandidateRole : std::uint8_t {
  kernel,     ///< ships in releases
  reference,  ///< the manifest's reference kernel, for checking
  prepare,    ///< the manifest's input maker, for checking
};
enum class CandidateStatus : std::uint8_t { ok, failed, timeout, crashed };
[[nodiscard]] std::string_view status_name(CandidateStatus status);
[[nodiscard]] std::string_view role_name(CandidateRole role);

/// The compiler that made a candidate.
struct Toolchain {
  std::string backend;  ///< "nvrtc" or "nvcc"
  core::ToolkitVersion version;
  std::string identity;  ///< the compiler's own build string
};

/// Kernel × types × compile axes × code-changing tunables × target × toolchain = one cubin.
struct Candidate {
  CandidateId id = 0;
  std::string kernel;
  CandidateRole role = CandidateRole::kernel;
  core::Digest build_key;
  core::Types types;
  core::Shape compile_axes;
  core::Config config;  ///< code-changing tunables only
  std::string target;
  Toolchain toolchain;
  CandidateStatus status = CandidateStatus::ok;
  std::string message;    ///< why it failed, one sentence; empty when ok
  std::string log;        ///< the compiler's log; may be empty
  double compile_ms = 0;  ///< wall
  double cpu_ms = 0;
  std::optional<core::Digest> artifact;
  std::uint64_t raw_size = 0;  ///< read only: of the artifact
  std::uint64_t stored_size =
      0;  ///< read only: as stored, or its share of the dictionary it lies in
  std::vector<core::EntrySymbol> symbols;  ///< one a step
  std::vector<std::string> extra_entries;  ///< entries in the cubin nobody asked for
  std::int64_t created = 0;                ///< Unix seconds; set by the store
};

/// Inserts the candidate, or replaces the one with the same build key (a retried failure). The
/// artifact must have been put before.
[[nodiscard]] core::Result<CandidateId> put_candidate(Writer& writer, const Candidate& candidate);

struct CandidateState {
  CandidateId id = 0;
  CandidateStatus status = CandidateStatus::ok;
  bool current = true;  ///< what its kernel's inputs said when a build of it last ended
};
/// By build key; fast enough for 10,000 look-ups in well under 0.1 s.
[[nodiscard]] core::Result<std::optional<CandidateState>> find_candidate(
    const Reader& reader, const core::Digest& build_key);

/// Declares that, for this kernel and target, exactly these candidates are what its inputs now say.
/// Others stay in the store until `gc`, but no new release takes them.
[[nodiscard]] core::Result<void> set_current(Writer& writer, std::string_view kernel,
                                             std::string_view target,
                                             std::span<const CandidateId> candidates);
/// Makes candidates of this kernel current besides those that are. Whether they were made of the
/// inputs in force is the caller's to know.
[[nodiscard]] core::Result<void> add_current(Writer& writer, std::string_view kernel,
                                             std::span<const CandidateId> candidates);
/// The manifest digest the kernel had when set_current was last called for this target; none
/// before. Launch expressions come from the kernel's one manifest, so a release refuses a target
/// whose cubins were built under another.
[[nodiscard]] core::Result<std::optional<core::Digest>> current_manifest(const Reader& reader,
                                                                         std::string_view kernel,
                                                                         std::string_view target);

struct CandidateFilter {
  std::string kernel;  ///< empty: all
  std::string target;  ///< empty: all
  std::optional<CandidateRole> role;
  bool current_only = true;
};
/// Calls `visit` a candidate at a time, sorted by kernel, target, role, types, axes, config; stops
/// at its first error. `log` is loaded only when `with_log`.
[[nodiscard]] core::Result<void> for_each_candidate(
    const Reader& reader, const CandidateFilter& filter, bool with_log,
    const std::function<core::Result<void>(const Candidate&)>& visit);

/// A compiler identity found earlier for a file, so that a no-op build need not load the compiler.
/// `probe` names the library by real path, size and modification time.
[[nodiscard]] core::Result<std::optional<std::string>> find_toolchain_probe(const Reader& reader,
                                                                            std::string_view probe);
[[nodiscard]] core::Result<void> put_toolchain_probe(Writer& writer, std::string_view probe,
                                                     std::string_view identity);

}  // namespace cubinary::store
