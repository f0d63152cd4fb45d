// SPDX-License-Identifier: Apache-2.0
#include "client/target_tables.hpp"

#include <algorithm>
#include <utility>

namespace cubinary::client {

using core::fail;
using core::KernelTable;
using core::Result;

TargetTables::TargetTables(core::CatalogueReader catalogue, std::string where, Filter filter)
    : m_catalogue(std::move(catalogue)),
      m_where(std::move(where)),
      m_filter(std::move(filter)),
      m_slots(std::make_unique<Slot[]>(m_catalogue.kernels().size())) {
}

Result<const KernelTable*> TargetTables::table(std::size_t index) const {
  Slot& slot = m_slots[index];
  const std::lock_guard lock(slot.mutex);
  if (!slot.table) {
    auto table = m_catalogue.table(index);
    if (!table) {
      return fail(table.error().with_context(m_where));
    }
    if (m_filter) {
      m_filter(*table);
    }
    slot.table = std::make_unique<const KernelTable>(*std::move(table));
  }
  return slot.table.get();
}

Result<const KernelTable*> TargetTables::find(std::string_view kernel) const {
  const auto& kernels = m_catalogue.kernels();
  const auto at =
      std::ranges::lower_bound(kernels, kernel, {}, &core::CatalogueReader::Kernel::name);
  if (at == kernels.end() || at->name != kernel) {
    return nullptr;
  }
  return table(static_cast<std::size_t>(at - kernels.begin()));
}

}  // namespace cubinary::client
