// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cubinary::builder {

/// Which of a cubin's mangled entries a name expression means, for a compiler that does not say
/// (nvcc).
///
/// By the function's own name when one entry has it; otherwise by demangling the candidates and
/// comparing template arguments without spaces, literal suffixes and casts (`k<float, 4u>` is
/// `k<float,4>`). Nothing when none, or more than one, fits.
[[nodiscard]] std::optional<std::string> match_entry(std::string_view expression,
                                                     const std::vector<std::string>& symbols);

}  // namespace cubinary::builder
