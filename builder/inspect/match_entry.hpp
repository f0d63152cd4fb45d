// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "builder/inspect/inspect.hpp"
#include "core/base/result.hpp"

namespace cubinary::builder {

/// A mangled name as C++ writes it; any other symbol as it is.
[[nodiscard]] std::string demangled(const std::string& symbol);

/// Which of a cubin's mangled entries a name expression means, for a compiler that does not say
/// (nvcc).
///
/// By the function's own name when one entry has it; otherwise by demangling the candidates and
/// comparing template arguments without spaces, literal suffixes and casts (`k<float, 4u>` is
/// `k<float,4>`). Nothing when none, or more than one, fits.
[[nodiscard]] std::optional<std::string> match_entry(std::string_view expression,
                                                     const std::vector<std::string>& symbols);

/// The entries that name expressions stand for; views into the CubinInfo.
struct FoundEntries {
  std::vector<const CubinEntry*> entries;  ///< a name each
  std::vector<std::string> extra;          ///< symbols nobody asked for
};

/// Finds every named entry. `told` are the symbols a compiler gave for the names, in their order;
/// empty, or shorter, where it gave none. Errors are `bad_cubin`, a sentence that lists every name
/// without an entry, or every entry that does nothing.
[[nodiscard]] core::Result<FoundEntries> find_entries(const CubinInfo& info,
                                                      std::span<const std::string> names,
                                                      std::span<const std::string> told);

}  // namespace cubinary::builder
