// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cli/table.hpp"
#include "core/wire/triton_catalogue.hpp"

namespace cubinary::cli {

// What `release show` says of Triton: a line for each kernel name, or for each entry.

[[nodiscard]] Table release_triton_table(bool entries);
void add_release_triton_rows(Table& table, const core::TritonCatalogue& catalogue, bool entries);

}  // namespace cubinary::cli
