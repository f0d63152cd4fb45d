// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace cubinary::builder {

/// A count of combinations: exact below 2^128, and beyond that known to be beyond, never wrapped.
class Count {
 public:
  Count() = default;
  Count(std::uint64_t value) : m_value(value) {}

  Count& operator+=(const Count& other);
  Count& operator*=(const Count& other);
  friend Count operator+(Count a, const Count& b) { return a += b; }
  friend Count operator*(Count a, const Count& b) { return a *= b; }
  friend bool operator==(const Count&, const Count&) = default;

  [[nodiscard]] bool is_zero() const { return m_value == 0 && !m_beyond; }
  /// Whether the count is larger than `limit`.
  [[nodiscard]] bool exceeds(std::uint64_t limit) const { return m_beyond || m_value > limit; }
  /// Decimal digits; "more than 3.4e38" beyond 2^128.
  [[nodiscard]] std::string text() const;

 private:
  __extension__ using Wide = unsigned __int128;
  Wide m_value = 0;
  bool m_beyond = false;
};

}  // namespace cubinary::builder
