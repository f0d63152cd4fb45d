// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <random>
#include <string>
#include <string_view>

namespace cubinary::tests {

/// JSON with so many bytes of it replaced, inserted, erased, or all behind one cut off.
inline std::string changed_json(std::string text, std::size_t changes, std::mt19937& random) {
  constexpr std::string_view k_letters = "{}[]\",:\\/ue+-.0159atfn \n\t\x01\x80\xc3\xa9\xed\xf0";
  for (; changes > 0 && !text.empty(); --changes) {
    const std::size_t at = random() % text.size();
    switch (random() % 4) {
      case 0:
        text[at] = k_letters[random() % k_letters.size()];
        break;
      case 1:
        text.insert(at, 1, k_letters[random() % k_letters.size()]);
        break;
      case 2:
        text.erase(at, 1);
        break;
      default:
        text.resize(at + 1);
    }
  }
  return text;
}

}  // namespace cubinary::tests
