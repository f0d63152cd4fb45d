// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "core/launch/launch.hpp"
#include "core/table/kernel_table.hpp"

/// Tables, targets and files that several core tests use. Everything here aborts the test on
/// failure.
namespace cubinary::core::test {

[[nodiscard]] LocatedExpression expr(std::string_view text);
[[nodiscard]] Target target(std::string_view text);
/// A file of tests/core/golden.
[[nodiscard]] std::string golden(std::string_view name);

/// A row-wise kernel like rmsnorm: types T; axes rows (log2), cols (exact); tunables VEC, ROWS,
/// WARPS; pointers y x w, computed n_rows n_cols, scalar eps with a default. No entries.
[[nodiscard]] KernelTable row_table();
/// An entry of row_table; the artifact lies at `offset`, 100 bytes long.
[[nodiscard]] TableEntry row_entry(std::string_view dtype, std::int64_t vec, std::int64_t rows,
                                   std::int64_t warps, std::uint64_t offset = 0);
/// row_table with a default and two measured entries, for sm_90: what the golden catalogue holds.
[[nodiscard]] Catalogue sample_catalogue();

}  // namespace cubinary::core::test
