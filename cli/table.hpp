// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.hpp"

namespace cubinary::cli {

/// A table for people: columns two spaces apart, as wide as their widest cell.
class Table {
 public:
  /// A header that begins with `>` stands for a right-aligned column (numbers); `>` is not printed.
  explicit Table(std::vector<std::string> headers);
  /// As many cells as there are headers; an empty cell is printed as `-`.
  void add_row(std::vector<std::string> cells);
  [[nodiscard]] std::size_t rows() const { return m_rows.size(); }
  /// All lines, the header's first, each ended by a newline; no trailing spaces.
  [[nodiscard]] std::string text() const;

 private:
  std::vector<std::string> m_headers;
  std::vector<bool> m_right;
  std::vector<std::vector<std::string>> m_rows;
};

/// `512 B`, `22.5 KB`, `1.2 MB`: powers of 1000, as disks and links are sold.
[[nodiscard]] std::string format_bytes(std::uint64_t bytes);
/// `2026-11-30 15:16:25Z`; `never` for 0.
[[nodiscard]] std::string format_time(std::int64_t unix_seconds);
/// Seconds of `90d`, `12h`, `30m`, `45s` or `2w`; `usage` for anything else, zero and what
/// overflows.
[[nodiscard]] core::Result<std::int64_t> parse_duration(std::string_view text);

}  // namespace cubinary::cli
