// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/bytes.hpp"
#include "core/base/digest.hpp"
#include "core/base/json_document.hpp"
#include "core/base/result.hpp"
#include "core/model/target.hpp"
#include "core/table/kernel_table.hpp"

namespace cubinary::core {

/// A catalogue whose kernels are known at once, and whose tables are read when they are asked for:
/// a release holds many kernels, and a program uses a few of them. Immutable; any thread may read.
class CatalogueReader {
 public:
  struct Kernel {
    std::string name;
    Digest pack;                  ///< the zstd frame's digest
    std::uint64_t pack_size = 0;  ///< of the frame
    bool empty = false;           ///< it has no entries
  };

  /// Checks what stands around the tables' lists, and that kernels are sorted by name, each once; a
  /// table is checked, as JSON too, when it is read. Errors as catalogue_from_json's.
  [[nodiscard]] static Result<CatalogueReader> open(Bytes text);

  [[nodiscard]] const std::string& release() const { return m_release; }
  [[nodiscard]] const Target& target() const { return m_target; }
  [[nodiscard]] const ToolkitVersion& toolkit() const { return m_toolkit; }
  [[nodiscard]] int minimum_driver() const { return m_minimum_driver; }
  [[nodiscard]] const std::vector<Kernel>& kernels() const { return m_kernels; }

  /// The table of `kernels()[index]`, read and checked now.
  [[nodiscard]] Result<KernelTable> table(std::size_t index) const;

 private:
  explicit CatalogueReader(const Target& target) : m_target(target) {}
  static Result<CatalogueReader> read(std::string_view text);

  std::unique_ptr<const Bytes> m_text;             ///< where it lies must not change
  std::unique_ptr<const json::Document> m_around;  ///< all but what is in the tables' lists
  std::string m_release;
  Target m_target;
  ToolkitVersion m_toolkit;
  int m_minimum_driver = 0;
  std::vector<Kernel> m_kernels;
};

}  // namespace cubinary::core
