// SPDX-License-Identifier: Apache-2.0
#include "store/changes.hpp"

#include <ctime>
#include <utility>

#include "store/connection.hpp"

namespace cubinary::store {

using core::Result;

namespace {

thread_local const ActingFor* t_acting = nullptr;

}  // namespace

ActingFor::ActingFor(std::string actor, std::string origin)
    : m_actor(std::move(actor)), m_origin(std::move(origin)), m_outer(t_acting) {
  t_acting = this;
}

ActingFor::~ActingFor() {
  t_acting = m_outer;
}

Result<void> record_change(Writer& writer, std::string_view action, std::string_view subject,
                           core::json::Object detail) {
  const std::string actor = t_acting != nullptr ? t_acting->m_actor : "local";
  const std::string origin = t_acting != nullptr ? t_acting->m_origin : "cli";
  return writer.connection().run(
      "INSERT INTO change (at, actor, origin, action, subject, detail) "
      "VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
      std::time(nullptr), actor, origin, action, subject, core::json::to_text(std::move(detail)));
}

Result<std::vector<Change>> list_changes(const Reader& reader, std::int64_t before,
                                         std::size_t limit) {
  TRY_ASSIGN(Statement row, reader.connection().query(
                                "SELECT id, at, actor, origin, action, subject, detail FROM change "
                                "WHERE ?1 = 0 OR id < ?1 ORDER BY id DESC LIMIT ?2",
                                before, limit));
  std::vector<Change> changes;
  while (true) {
    TRY_ASSIGN(const bool more, row.step());
    if (!more) {
      return changes;
    }
    changes.push_back({row.integer(0), row.integer(1), row.text(2), row.text(3), row.text(4),
                       row.text(5), row.text(6)});
  }
}

}  // namespace cubinary::store
