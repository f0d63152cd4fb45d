// SPDX-License-Identifier: Apache-2.0
#include "core/base/error_code.hpp"

#include <array>

namespace cubinary::core {
namespace {

using enum ErrorCode;
constexpr std::array k_table = {
    ErrorInfo{internal, "internal", 1, 500},
    ErrorInfo{usage, "usage", 2, 400},
    ErrorInfo{manifest, "manifest", 2, 400},
    ErrorInfo{expression, "expression", 2, 400},
    ErrorInfo{not_found, "not_found", 1, 404},
    ErrorInfo{exists, "exists", 1, 409},
    ErrorInfo{busy, "busy", 1, 409},
    ErrorInfo{compile_failed, "compile_failed", 1, 422},
    ErrorInfo{bad_cubin, "bad_cubin", 1, 422},
    ErrorInfo{corrupt, "corrupt", 1, 400},
    ErrorInfo{signature, "signature", 1, 403},
    ErrorInfo{expired, "expired", 1, 410},
    ErrorInfo{rollback, "rollback", 1, 409},
    ErrorInfo{revoked, "revoked", 1, 410},
    ErrorInfo{interface_mismatch, "interface_mismatch", 1, 409},
    ErrorInfo{no_match, "no_match", 1, 404},
    ErrorInfo{target, "target", 2, 400},
    ErrorInfo{driver, "driver", 3, 503},
    ErrorInfo{cuda, "cuda", 1, 500},
    ErrorInfo{too_large, "too_large", 1, 413},
    ErrorInfo{not_a_store, "not_a_store", 2, 400},
    ErrorInfo{newer_format, "newer_format", 3, 400},
    ErrorInfo{environment, "environment", 3, 503},
    ErrorInfo{disk_full, "disk_full", 3, 507},
    ErrorInfo{permission, "permission", 3, 403},
    ErrorInfo{io, "io", 1, 500},
    ErrorInfo{network, "network", 1, 502},
    ErrorInfo{timeout, "timeout", 1, 504},
    ErrorInfo{cancelled, "cancelled", 1, 499},
    ErrorInfo{unauthorized, "unauthorized", 1, 401},
    ErrorInfo{forbidden, "forbidden", 1, 403},
    ErrorInfo{unsupported, "unsupported", 1, 501},
};

constexpr bool in_code_order() {
  for (std::size_t i = 0; i < k_table.size(); ++i) {
    if (static_cast<std::size_t>(k_table[i].code) != i + 1) {
      return false;
    }
  }
  return k_table.back().code == unsupported;
}
static_assert(in_code_order(), "one row a code, in the enum's order");

}  // namespace

std::span<const ErrorInfo> error_table() {
  return k_table;
}

const ErrorInfo& error_info(ErrorCode code) {
  return k_table.at(static_cast<std::size_t>(code) - 1);
}

}  // namespace cubinary::core
