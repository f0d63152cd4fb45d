// SPDX-License-Identifier: Apache-2.0
#include "builder/expand/count.hpp"

#include <algorithm>

namespace cubinary::builder {

Count& Count::operator+=(const Count& other) {
  m_beyond |= other.m_beyond || __builtin_add_overflow(m_value, other.m_value, &m_value);
  return *this;
}

Count& Count::operator*=(const Count& other) {
  if (is_zero() || other.is_zero()) {
    *this = Count();
    return *this;
  }
  m_beyond |= other.m_beyond || __builtin_mul_overflow(m_value, other.m_value, &m_value);
  return *this;
}

std::string Count::text() const {
  if (m_beyond) {
    return "more than 3.4e38";
  }
  std::string digits;
  Wide rest = m_value;
  do {
    digits.push_back(static_cast<char>('0' + static_cast<int>(rest % 10)));
    rest /= 10;
  } while (rest != 0);
  std::reverse(digits.begin(), digits.end());
  return digits;
}

}  // namespace cubinary::builder
