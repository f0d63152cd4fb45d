// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/base/digest.hpp"

namespace cubinary::builder {

/// The folder Triton's cache keeps a SHA-256 under: base32 (RFC 4648) without padding.
[[nodiscard]] std::string triton_folder_name(const core::Digest& digest);

/// Every folder in which Triton 3.4 to 3.7 look for the module built from this C source: with what
/// the program `file` says of the interpreter in the key, and without, where there is no such
/// program. Ascending. Source: triton/runtime/build.py, `platform_key`.
[[nodiscard]] std::vector<std::string> triton_host_keys(std::string_view source,
                                                        std::string_view machine);

/// Whether `version` (`3.6.0`) is one whose host modules are keyed as `triton_host_keys` does.
[[nodiscard]] bool has_plain_host_keys(std::string_view version);

/// Whether captures of this Triton can be used at all: 3.4 or later.
[[nodiscard]] bool is_supported_triton(std::string_view version);

/// `cp312` from a module's file name with `.cpython-312-x86_64-linux-gnu.so`; empty without one.
[[nodiscard]] std::string abi_of_module(std::string_view file);

}  // namespace cubinary::builder
