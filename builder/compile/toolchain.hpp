// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "builder/compile/worker.hpp"
#include "core/base/result.hpp"
#include "core/manifest/manifest.hpp"
#include "store/candidates.hpp"
#include "store/store.hpp"

namespace cubinary::builder {

/// Where a toolkit's parts lie. Nothing was loaded or run yet.
struct Toolkit {
  std::filesystem::path root;                   ///< as named or found
  std::filesystem::path nvrtc;                  ///< real path of the library; empty: none
  std::filesystem::path nvcc;                   ///< real path of the program; empty: none
  std::filesystem::path fatbinary;              ///< real path of the program; empty: none
  std::vector<std::filesystem::path> includes;  ///< headers, then CCCL's
};

/// Finds a toolkit: `named` (--toolkit) alone when given, otherwise the first of CUBINARY_TOOLKIT,
/// CUDA_HOME, CUDA_PATH, /usr/local/cuda, the folder of an nvcc on the PATH, and the system's own
/// folders that has what `backend` needs. Knows the layouts of the toolkit, of the vendor's Python
/// wheels unpacked into a folder, and of a distribution's packages. Error: `environment`, with all
/// that was tried and the way out.
[[nodiscard]] core::Result<Toolkit> find_toolkit(core::Backend backend,
                                                 const std::filesystem::path& named);

/// Finds the program that packs cubins into a fat binary, where find_toolkit looks. Error:
/// `environment`.
[[nodiscard]] core::Result<std::filesystem::path> find_fatbinary(
    const std::filesystem::path& named);

/// Names the compiler's files by real path, size and modification time: while that stays the same,
/// so does the compiler's identity.
[[nodiscard]] std::string probe_name(const Toolkit& toolkit, core::Backend backend);

/// Asks the compiler who it is: a probe compilation in a worker, whose cubin carries the build
/// string. Errors: `environment` (cannot be used, or older than CUDA 12.8, saying so).
[[nodiscard]] core::Result<store::Toolchain> identify(const Toolkit& toolkit, core::Backend backend,
                                                      const WorkerOptions& options);

/// The text kept for a probe name, and back; nothing for a text some other version wrote.
[[nodiscard]] std::string toolchain_to_text(const store::Toolchain& toolchain);
[[nodiscard]] std::optional<store::Toolchain> toolchain_from_text(std::string_view text);

}  // namespace cubinary::builder
