// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace cubinary::core {

/// A file that became a part of the program when it was built (cmake/Embed.cmake).
struct EmbeddedFile {
  std::string_view name;  ///< without its folder
  std::string_view text;  ///< a zero follows it
};

}  // namespace cubinary::core
