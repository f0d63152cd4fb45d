// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "core/base/result.hpp"
#include "core/table/kernel_table.hpp"
#include "store/candidates.hpp"
#include "store/store.hpp"

namespace cubinary::builder {

/// What a release says of one kernel on one target, before its artifacts are packed.
struct SelectedTable {
  core::KernelTable table;            ///< entries sorted; offsets, sizes and the pack still unset
  core::ToolkitVersion toolkit;       ///< newest that made a chosen artifact
  int minimum_driver = 0;             ///< lowest branch that loads every chosen artifact
  std::vector<std::string> problems;  ///< a default config without a usable cubin or that failed on
                                      ///< a device, or cubins built under another manifest; a
                                      ///< sentence each
  std::vector<std::string> notes;     ///< `prefer` configs left out because they failed likewise,
                                      ///< and winners nobody compared with what runs untuned
};

/// Selects the entries of `kernel` on `target` from its current candidates: winners, and for each
/// types × compile-axes combination the manifest's `prefer` configs and then its default. A
/// combination without any candidate is one the manifest's rules exclude. Errors: `manifest` when
/// the stored text no longer parses; `corrupt`; `target`.
[[nodiscard]] core::Result<SelectedTable> select_table(const store::Reader& reader,
                                                       const store::Kernel& kernel,
                                                       const std::string& target);

}  // namespace cubinary::builder
