// SPDX-License-Identifier: Apache-2.0
#include "store/json_value.hpp"

namespace cubinary::store {

using core::Result;

Result<std::optional<std::int64_t>> find_json(Connection& connection, std::string_view json) {
  return connection.find_integer("SELECT id FROM json_value WHERE json = ?1", json);
}

Result<std::int64_t> intern_json(Connection& connection, std::string_view json) {
  TRY_ASSIGN(const std::optional<std::int64_t> found, find_json(connection, json));
  if (found) {
    return *found;
  }
  TRY(connection.run("INSERT INTO json_value (json) VALUES (?1)", json));
  return connection.last_insert_id();
}

}  // namespace cubinary::store
