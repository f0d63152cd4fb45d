// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "builder/release/view.hpp"
#include "core/base/result.hpp"
#include "core/model/values.hpp"
#include "store/releases.hpp"

namespace cubinary::builder {

/// One code of a kernel, for every target of a release that has it, in one file.
struct FatBinary {
  struct Image {
    core::Digest artifact;
    std::vector<std::string> symbols;  ///< one a step, for cuModuleGetFunction
  };
  std::string file;  ///< in the folder
  std::string kernel;
  core::Types types;
  core::Shape axes;                     ///< those that are compiled in
  std::vector<core::Config> configs;    ///< all that run this code, all tunables
  std::map<std::string, Image> images;  ///< by target
};

/// Writes a release's cubins as fat binaries: what runs the same types, compiled axes and config is
/// one file over all targets, made by the toolkit's `fatbinary`. Cubins only, as they are: no PTX,
/// so that nothing is ever compiled when one is loaded. `fatbins.json` beside them says what is
/// what and is written last. `directory` is made when missing.
///
/// Errors: `environment` without the program; `corrupt` for a pack that is not what its digest
/// says; `not_found` for a release without kernels; those of files.
[[nodiscard]] core::Result<std::vector<FatBinary>> export_fatbins(
    const ReadBlob& read, const store::Release& release, const std::filesystem::path& directory,
    const std::filesystem::path& toolkit);

}  // namespace cubinary::builder
