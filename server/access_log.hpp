// SPDX-License-Identifier: Apache-2.0
#pragma once

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
  struct Gathered {
    std::mutex mutex;
    std::string lines;
  };
  explicit AccessLog(int fd) : m_fd(fd) {}
  core::UniqueFd m_owned;
  int m_fd;
  std::unique_ptr<Gathered> m_gathered;  ///< null: every line is written at once
};

/// The line without its end, for tests and `write`. `unix_ms` is the time of the answer.
[[nodiscard]] std::string log_line(const LogEntry& entry, std::int64_t unix_ms);

}  // namespace cubinary::server
