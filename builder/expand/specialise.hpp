// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "builder/expand/expand.hpp"
#include "core/base/result.hpp"
#include "core/manifest/manifest.hpp"

namespace cubinary::builder {

/// What the compiler is asked for, for one variant: all that the manifest's placeholders turn into.
struct Specialisation {
  std::vector<std::string> entries;  ///< name expressions, one a step (a helper has one)
  std::vector<std::string> options;  ///< the manifest's flags, then macros and flags of the variant
};

/// Fills `{T}`, `{VEC}`, `{head_dim}` in the entries of the variant's role and collects its macros
/// and flags. Errors: `manifest` for a placeholder that names nothing that is fixed when compiling.
[[nodiscard]] core::Result<Specialisation> specialise(const core::Manifest& manifest,
                                                      const Variant& variant);

/// The sources a role is compiled from, relative to the manifest's folder.
[[nodiscard]] std::vector<std::string> sources_of(const core::Manifest& manifest,
                                                  store::CandidateRole role);

}  // namespace cubinary::builder
