// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace cubinary::core {

/// Every kind of expected failure. The numbers are part of the C ABI (`cubinary_status`): append
/// only.
enum class ErrorCode : std::uint8_t {
  internal = 1,        ///< a bug in Cubinary
  usage,               ///< the command line, query or API was used wrongly
  manifest,            ///< a manifest is not valid
  expression,          ///< an expression failed to parse or evaluate
  not_found,           ///< no such kernel, release, file, blob, tag
  exists,              ///< the name is taken by something else
  busy,                ///< another process owns the store, or the lock
  compile_failed,      ///< at least one candidate that should compile did not
  bad_cubin,           ///< bytes that are no usable cubin for the target
  corrupt,             ///< stored or received bytes do not match their digest or format
  signature,           ///< missing signature, or one no pinned key made
  expired,             ///< the release's expiry lies in the past
  rollback,            ///< an older serial than one already seen
  revoked,             ///< the digest is on the revocation list
  interface_mismatch,  ///< the kernel's argument list is not the one asked for
  no_match,            ///< the release has no entry for the target, types or shape
  target,              ///< unknown target, or a device that cannot run it
  driver,              ///< no driver, or one too old
  cuda,                ///< a driver call failed
  too_large,           ///< a bound on size was exceeded
  not_a_store,         ///< the file is no Cubinary store
  newer_format,        ///< made by a newer Cubinary
  environment,         ///< something this machine lacks: toolkit, compiler, library
  disk_full,           ///< no space left
  permission,          ///< not allowed by the file system
  io,                  ///< any other input or output failure
  network,             ///< the peer could not be reached or broke off
  timeout,             ///< a deadline passed
  cancelled,           ///< stopped by the user
  unauthorized,        ///< no credentials, or unknown ones
  forbidden,           ///< credentials without the needed scope
  unsupported,         ///< understood, but not possible here
};

/// One row of the table that maps a code to the world outside.
struct ErrorInfo {
  ErrorCode code;
  std::string_view name;  ///< stable snake_case word for logs and JSON
  int exit_status;        ///< 1 the answer is no, 2 used wrongly, 3 the environment lacks something
  int http_status;
};

/// The whole table, in code order.
[[nodiscard]] std::span<const ErrorInfo> error_table();
/// The row of `code`; every code has one.
[[nodiscard]] const ErrorInfo& error_info(ErrorCode code);

}  // namespace cubinary::core
