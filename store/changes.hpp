// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/json.hpp"
#include "core/base/result.hpp"
#include "store/store.hpp"

namespace cubinary::store {

/// Who the calling thread changes stores for, while one of these lives: what `record_change` writes
/// down. Without one it is the user of this very program ("local", "cli"). They nest.
class ActingFor {
 public:
  /// `actor`: token id and holder; `origin`: the peer's address.
  ActingFor(std::string actor, std::string origin);
  ~ActingFor();
  ActingFor(const ActingFor&) = delete;
  ActingFor& operator=(const ActingFor&) = delete;

 private:
  std::string m_actor;
  std::string m_origin;
  const ActingFor* m_outer;
  friend core::Result<void> record_change(Writer&, std::string_view, std::string_view,
                                          core::json::Object);
};

/// One change somebody asked for.
struct Change {
  std::int64_t id = 0;  ///< grows with every change
  std::int64_t at = 0;  ///< Unix seconds
  std::string actor;
  std::string origin;
  std::string action;   ///< "release create"
  std::string subject;  ///< what it was done to
  std::string detail;   ///< canonical JSON object
};

/// Records a change in the transaction that makes it: both are kept, or neither.
[[nodiscard]] core::Result<void> record_change(Writer& writer, std::string_view action,
                                               std::string_view subject,
                                               core::json::Object detail = {});
/// The newest first, at most `limit`, only those with an id below `before` (0: all).
[[nodiscard]] core::Result<std::vector<Change>> list_changes(const Reader& reader,
                                                             std::int64_t before,
                                                             std::size_t limit);

}  // namespace cubinary::store
