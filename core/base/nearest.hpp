// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace cubinary::core {

/// The candidate with the smallest Damerau-Levenshtein distance (optimal string alignment) to
/// `wrong`, if that distance is at most a third of the longer length plus one; ties go to the
/// earlier one. Names equal but for the case of letters count as distance 0; names beyond 128 bytes
/// match nothing.
[[nodiscard]] std::optional<std::string> nearest_name(std::string_view wrong,
                                                      std::span<const std::string> candidates);

/// " (did you mean \"x\"?)" or "", ready to append to a message.
[[nodiscard]] std::string did_you_mean(std::string_view wrong,
                                       std::span<const std::string> candidates);

}  // namespace cubinary::core
