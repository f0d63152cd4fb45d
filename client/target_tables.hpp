// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "core/base/result.hpp"
#include "core/table/catalogue_reader.hpp"

namespace cubinary::client {

/// One target's kernels of a release: who they are at once, a table when it is first asked for.
/// Thread-safe; tables live as long as this.
class TargetTables {
 public:
  /// Takes out of a table what must not be used.
  using Filter = std::function<void(core::KernelTable&)>;

  /// `where` begins the message of every error.
  TargetTables(core::CatalogueReader catalogue, std::string where, Filter filter);

  [[nodiscard]] const core::Target& target() const { return m_catalogue.target(); }
  [[nodiscard]] int minimum_driver() const { return m_catalogue.minimum_driver(); }
  /// Kernels, sorted by name.
  [[nodiscard]] std::size_t size() const { return m_catalogue.kernels().size(); }
  [[nodiscard]] const std::string& name(std::size_t index) const {
    return m_catalogue.kernels()[index].name;
  }

  /// Errors as catalogue_from_json's.
  [[nodiscard]] core::Result<const core::KernelTable*> table(std::size_t index) const;
  /// Null when there is no such kernel.
  [[nodiscard]] core::Result<const core::KernelTable*> find(std::string_view kernel) const;

 private:
  struct Slot {
    std::mutex mutex;
    std::unique_ptr<const core::KernelTable> table;  ///< none: not read yet
  };
  const core::CatalogueReader m_catalogue;
  const std::string m_where;
  const Filter m_filter;
  const std::unique_ptr<Slot[]> m_slots;  ///< one a kernel
};

}  // namespace cubinary::client
