// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/launch/launch.hpp"
#include "core/model/dtype.hpp"
#include "core/table/kernel_table.hpp"

/// What a caller may name: pointers, and whether a name is one that the table has.
/// Errors are `usage` with the nearest correct name.
namespace cubinary::core {

[[nodiscard]] constexpr bool is_pointer(ArgumentKind kind) {
  return kind == ArgumentKind::in || kind == ArgumentKind::out || kind == ArgumentKind::inout;
}

/// The dtype `argument` has under `types`; null for bytes and handle.
[[nodiscard]] const DType* argument_dtype(const Argument& argument, const Types& types);

/// Every type parameter has a dtype, and no other is named.
[[nodiscard]] Result<void> check_types(const KernelTable& table, const Types& types);
/// Every axis has a value ≥ 0, and no other is named.
[[nodiscard]] Result<void> check_shape(const KernelTable& table, const Shape& shape);
/// Only pointers the caller passes are named, with powers of two no smaller than their element.
[[nodiscard]] Result<void> check_alignments(const KernelTable& table, const Types& types,
                                            const Alignments& alignments);

}  // namespace cubinary::core
