// SPDX-License-Identifier: Apache-2.0
#include "cli/table.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <charconv>
#include <cstdio>
#include <ctime>
#include <limits>

namespace cubinary::cli {
namespace {

using core::ErrorCode;
using core::fail;
using core::Result;

/// Code points, which is what takes room on a terminal (good enough for names and units).
std::size_t width_of(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U;
  }));
}

}  // namespace

Table::Table(std::vector<std::string> headers) : m_headers(std::move(headers)) {
  for (std::string& header : m_headers) {
    m_right.push_back(header.starts_with('>'));
    if (m_right.back()) {
      header.erase(0, 1);
    }
  }
}

void Table::add_row(std::vector<std::string> cells) {
  assert(cells.size() == m_headers.size());
  for (std::string& cell : cells) {
    if (cell.empty()) {
      cell = "-";
    }
  }
  m_rows.push_back(std::move(cells));
}

std::string Table::text() const {
  std::vector<std::size_t> widths;
  for (std::size_t column = 0; column < m_headers.size(); ++column) {
    std::size_t width = width_of(m_headers[column]);
    for (const auto& row : m_rows) {
      width = std::max(width, width_of(row[column]));
    }
    widths.push_back(width);
  }
  std::string text;
  const auto add_line = [&](const std::vector<std::string>& cells) {
    std::string line;
    for (std::size_t column = 0; column < cells.size(); ++column) {
      const std::string padding(widths[column] - width_of(cells[column]), ' ');
      line += column == 0 ? "" : "  ";
      line += m_right[column] ? padding + cells[column] : cells[column] + padding;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  };
  add_line(m_headers);
  for (const auto& row : m_rows) {
    add_line(row);
  }
  return text;
}

std::string format_bytes(std::uint64_t bytes) {
  constexpr std::array k_units = {"KB", "MB", "GB", "TB", "PB", "EB"};
  constexpr double k_step = 1000;
  if (bytes < 1000) {
    return std::to_string(bytes) + " B";
  }
  double value = static_cast<double>(bytes) / k_step;
  std::size_t unit = 0;
  // 999.95 and more would be printed as 1000.0.
  while (value >= 999.95 && unit + 1 < k_units.size()) {
    value /= k_step;
    ++unit;
  }
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.1f %s", value, k_units.at(unit));
  return text.data();
}

std::string format_time(std::int64_t unix_seconds) {
  if (unix_seconds == 0) {
    return "never";
  }
  const std::time_t time = unix_seconds;
  std::tm parts{};
  std::array<char, 64> text{};
  if (::gmtime_r(&time, &parts) == nullptr ||
      std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%SZ", &parts) == 0) {
    return std::to_string(unix_seconds);
  }
  return text.data();
}

Result<std::int64_t> parse_duration(std::string_view text) {
  struct Unit {
    char letter;
    std::int64_t seconds;
  };
  constexpr std::array k_units = {Unit{'s', 1}, Unit{'m', 60}, Unit{'h', 3600}, Unit{'d', 86400},
                                  Unit{'w', 604800}};
  std::int64_t count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (error == std::errc() && count > 0 && end + 1 == text.data() + text.size()) {
    for (const Unit& unit : k_units) {
      if (unit.letter == *end && count <= std::numeric_limits<std::int64_t>::max() / unit.seconds) {
        return count * unit.seconds;
      }
    }
  }
  return fail(ErrorCode::usage, "\"" + std::string(text) +
                                    "\" is no duration: write a whole number and a unit, such as "
                                    "90d (w weeks, d days, h hours, m minutes, s seconds)");
}

}  // namespace cubinary::cli
