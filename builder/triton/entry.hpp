// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

#include "builder/triton/folder.hpp"

/// Reading one entry of a capture folder or a Triton cache; what `read_triton_folder` is made of.
///
/// Errors say in one sentence what is wrong with the entry, which the caller names.
namespace cubinary::builder {

/// `entries/<key>`, whose cubinary.json says what it is.
[[nodiscard]] core::Result<TritonItem> read_captured_kernel(const std::filesystem::path& folder);
/// A kernel entry as Triton's own cache holds it: its metadata says what it is.
[[nodiscard]] core::Result<TritonItem> read_cached_kernel(const std::filesystem::path& folder,
                                                          const std::string& python_abi,
                                                          const std::string& machine);
/// `host/<source>`, whose meta.json says what it is.
[[nodiscard]] core::Result<TritonItem> read_captured_host(const std::filesystem::path& folder);
/// A module in Triton's own cache: only its folder is known, not its source.
[[nodiscard]] core::Result<TritonItem> read_cached_host(const std::filesystem::path& folder,
                                                        const core::TritonOrigin& origin);
/// The autotune results in a folder named by their key.
[[nodiscard]] core::Result<TritonItem> read_autotune(const std::filesystem::path& folder,
                                                     const std::string& device_class,
                                                     const core::TritonOrigin& origin);
/// `triton_version` of a kernel's metadata; empty when it is none.
[[nodiscard]] std::string triton_version_in(const std::filesystem::path& metadata);

}  // namespace cubinary::builder
