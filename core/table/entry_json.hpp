// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "core/base/json.hpp"
#include "core/base/result.hpp"
#include "core/table/kernel_table.hpp"

namespace cubinary::core {

/// One entry as a catalogue holds it (schema/catalogue.schema.json).
[[nodiscard]] json::Object entry_to_json(const TableEntry& entry);
/// Reads it back; checks its form, not what only its whole table could tell. Errors are `corrupt`.
[[nodiscard]] Result<TableEntry> entry_from_json(std::string_view text);

}  // namespace cubinary::core
