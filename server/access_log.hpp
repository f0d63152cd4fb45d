// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "core/base/file.hpp"
#include "core/base/result.hpp"
#include "server/router.hpp"

namespace cubinary::server {

/// One request as the log tells it. Never holds a secret.
struct LogEntry {
  std::string_view peer;
  std::string_view forwarded_for;  ///< as a proxy said; empty: left out
  std::string_view method;
  std::string_view target;  ///< as sent, with query
  Route route = Route::unknown;
  int status = 0;
  std::uint64_t bytes = 0;  ///< sent, headers included
  std::chrono::nanoseconds duration{0};
  std::string_view token;  ///< its id; empty: left out
  std::string_view note;   ///< what went wrong, if anything; empty: left out
};

/// Writes one JSON object a line, whole lines only. To a file, lines are gathered and written when
/// there are many or `flush` is called, a few times a second: a write a request costs as much as a
/// small answer. Thread-safe.
class AccessLog {
 public:
  /// To standard error, to nothing, or appended to a file (mode 0640).
  [[nodiscard]] static AccessLog to_stderr() { return AccessLog(2); }
  [[nodiscard]] static AccessLog none() { return AccessLog(-1); }
  [[nodiscard]] static core::Result<AccessLog> to_file(const std::filesystem::path& path);

  AccessLog(AccessLog&&) = default;
  AccessLog& operator=(AccessLog&&) = delete;
  ~AccessLog();

  void write(const LogEntry& entry) const;
  void flush() const;

 private:
  /// Threads gather apart; a line's place among those of other threads is its time's, roughly.
  struct alignas(128) Gathered {
    std::mutex mutex;
    std::string lines;
  };
  static constexpr std::size_t k_parts = 16;
  void write_out(Gathered& part) const;
  explicit AccessLog(int fd) : m_fd(fd) {}
  core::UniqueFd m_owned;
  int m_fd;
  std::unique_ptr<std::array<Gathered, k_parts>> m_gathered;  ///< null: lines are written at once
};

/// The line without its end, for tests and `write`. `unix_ms` is the time of the answer.
[[nodiscard]] std::string log_line(const LogEntry& entry, std::int64_t unix_ms);

}  // namespace cubinary::server
