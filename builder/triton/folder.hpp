// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "core/base/result.hpp"
#include "core/wire/triton_catalogue.hpp"

namespace cubinary::builder {

/// A kernel entry and the target it is for.
struct CapturedKernel {
  std::string target;
  core::TritonKernel kernel;
};

/// One complete thing of a folder, checked, with the contents of its files.
struct TritonItem {
  std::variant<CapturedKernel, core::TritonHost, core::TritonAutotune, std::string> what;
  std::map<core::Digest, core::Bytes> contents;  ///< by digest; empty for a record (the string)
};

struct TritonFolderOptions {
  /// What a cache of Triton's own does not say; ignored where the folder itself tells.
  std::string python_abi;
  std::string device_class;
};

/// Told of a thing that was passed over, and why, in a sentence.
using TritonNote = std::function<void(const std::string&)>;

/// Reads a capture folder, or a cache of Triton's own (TRITON_CACHE_DIR), one thing at a time, in
/// order of names. What is not complete, not consistent or not for CUDA is passed over with a note:
/// programs are killed half-way. Checked are the group's files, the key against the metadata, the
/// cubin against the target, the module against machine and ABI.
///
/// Errors: `not_found` for no such folder, `io` and `permission` for one that cannot be listed, and
/// `visit`'s own.
[[nodiscard]] core::Result<void> read_triton_folder(
    const std::filesystem::path& folder, const TritonFolderOptions& options,
    const std::function<core::Result<void>(TritonItem)>& visit, const TritonNote& note);

/// Whether the folder is one that `CaptureManager` fills, rather than a cache of Triton's own.
[[nodiscard]] bool is_capture_folder(const std::filesystem::path& folder);

}  // namespace cubinary::builder
