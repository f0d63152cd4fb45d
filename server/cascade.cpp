// SPDX-License-Identifier: Apache-2.0
#include "server/cascade.hpp"

#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace cubinary::server {
namespace {

using core::Match;
using core::Result;

class Cascade {
 public:
  Cascade(const store::Reader& reader, const core::ResolveQuery& query)
      : m_reader(reader), m_query(query) {}

  Result<void> load(TableCache& cache, const std::vector<store::ReleasedKernel>& released) {
    for (const store::ReleasedKernel& one : released) {
      TRY_ASSIGN(TableCache::Table table, cache.get(m_reader, one.id));
      m_chosen.tables.push_back(std::move(table));
    }
    m_released = &released;
    m_chosen.entries.resize(released.size());
    return {};
  }

  Result<Chosen> run() {
    const std::string own = m_query.device.text();
    TRY_ASSIGN(bool found, try_classes({own}, Match::nearest_shape));
    if (found) {
      return std::move(m_chosen);
    }
    // Classes equally far are looked at together: the nearer shape among them decides.
    std::map<std::int64_t, std::set<std::string>> others;
    bool any = false;
    for (const store::ReleasedKernel& one : *m_released) {
      if (!one.target.runs_on(m_query.device.capability)) {
        continue;
      }
      TRY_ASSIGN(const auto names, store::released_classes(m_reader, one.id, m_query.types));
      any = any || !names.empty();
      for (const std::string& name : names) {
        if (const auto other = core::DeviceClass::parse(name); other && name != own) {
          // To nine decimals, as the cascade compares them.
          others[std::llround(core::distance(*other, m_query.device) * 1e9)].insert(name);
        }
      }
    }
    if (any && m_query.require >= Match::other_class) {
      for (const auto& [distance, names] : others) {
        TRY_ASSIGN(found, try_classes(names, Match::other_class));
        if (found) {
          return std::move(m_chosen);
        }
      }
    }
    if (any && m_query.require >= Match::fallback) {
      TRY_ASSIGN(found, try_classes({"", own}, Match::fallback));
      if (found) {
        return std::move(m_chosen);
      }
    }
    for (std::size_t i = 0; i < m_released->size(); ++i) {
      TRY_ASSIGN(m_chosen.entries[i], store::read_released_entries(m_reader, (*m_released)[i].id));
    }
    TRY_ASSIGN(m_chosen.choice, resolve());
    return std::move(m_chosen);
  }

 private:
  /// Whether the entries of these classes give an answer at least as good as `loosest`.
  Result<bool> try_classes(const std::set<std::string>& classes, Match loosest) {
    bool any = false;
    for (std::size_t i = 0; i < m_released->size(); ++i) {
      const store::ReleasedKernel& one = (*m_released)[i];
      m_chosen.entries[i].clear();
      if (!one.target.runs_on(m_query.device.capability)) {
        continue;
      }
      for (const std::string& name : classes) {
        TRY_ASSIGN(auto entries,
                   store::read_released_entries(m_reader, one.id, m_query.types, name));
        any = any || !entries.empty();
        std::move(entries.begin(), entries.end(), std::back_inserter(m_chosen.entries[i]));
      }
    }
    if (!any) {
      return false;
    }
    auto choice = resolve();
    if (!choice) {
      if (choice.error().code == core::ErrorCode::no_match) {
        return false;
      }
      return core::fail(std::move(choice).error());
    }
    if (choice->match > loosest) {
      return false;
    }
    m_chosen.choice = *std::move(choice);
    return true;
  }

  [[nodiscard]] Result<core::Choice> resolve() const {
    std::vector<core::ResolveTable> tables;
    for (std::size_t i = 0; i < m_released->size(); ++i) {
      tables.push_back({(*m_released)[i].target, m_chosen.tables[i].get(), &m_chosen.entries[i]});
    }
    return core::resolve(tables, m_query);
  }

  const store::Reader& m_reader;
  const core::ResolveQuery& m_query;
  const std::vector<store::ReleasedKernel>* m_released = nullptr;
  Chosen m_chosen;
};

}  // namespace

Result<Chosen> resolve_released(const store::Reader& reader, TableCache& cache,
                                const std::vector<store::ReleasedKernel>& released,
                                const core::ResolveQuery& query) {
  Cascade cascade(reader, query);
  TRY(cascade.load(cache, released));
  return cascade.run();
}

}  // namespace cubinary::server
