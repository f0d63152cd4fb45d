// SPDX-License-Identifier: Apache-2.0
#include "server/access_log.hpp"

#include <array>
#include <cerrno>
#include <cstdio>
#include <ctime>

#include <fcntl.h>
#include <unistd.h>

namespace cubinary::server {
namespace {

constexpr std::size_t k_gathered_bytes = 64U << 10U;

void append_escaped(std::string& out, std::string_view text) {
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20 || byte >= 0x7f) {
      std::array<char, 8> escape{};
      std::snprintf(escape.data(), escape.size(), "\\u%04x", byte);
      out += escape.data();
    } else {
      out += c;
    }
  }
}

void text_field(std::string& out, std::string_view name, std::string_view value) {
  out.append(",\"").append(name).append("\":\"");
  append_escaped(out, value);
  out += '"';
}

}  // namespace

core::Result<AccessLog> AccessLog::to_file(const std::filesystem::path& path) {
  core::UniqueFd fd(::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0640));
  if (!fd) {
    return core::fail(core::errno_error("cannot open the access log " + path.string(), errno));
  }
  AccessLog log(fd.get());
  log.m_owned = std::move(fd);
  log.m_gathered = std::make_unique<Gathered>();
  return log;
}

std::string log_line(const LogEntry& entry, std::int64_t unix_ms) {
  const std::time_t seconds = unix_ms / 1000;
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  std::array<char, 32> time{};
  std::strftime(time.data(), time.size(), "%Y-%m-%dT%H:%M:%S", &utc);
  std::array<char, 64> numbers{};

  std::string line;
  line.reserve(256);
  line.append("{\"time\":\"").append(time.data());
  std::snprintf(numbers.data(), numbers.size(), ".%03dZ\"", static_cast<int>(unix_ms % 1000));
  line += numbers.data();
  text_field(line, "peer", entry.peer);
  if (!entry.forwarded_for.empty()) {
    text_field(line, "forwarded_for", entry.forwarded_for);
  }
  text_field(line, "method", entry.method);
  text_field(line, "target", entry.target);
  text_field(line, "route", route_name(entry.route));
  std::snprintf(numbers.data(), numbers.size(), ",\"status\":%d,\"bytes\":%llu,\"ms\":%.3f",
                entry.status, static_cast<unsigned long long>(entry.bytes),
                std::chrono::duration<double, std::milli>(entry.duration).count());
  line += numbers.data();
  if (!entry.token.empty()) {
    text_field(line, "token", entry.token);
  }
  if (!entry.note.empty()) {
    text_field(line, "note", entry.note);
  }
  line += '}';
  return line;
}

AccessLog::~AccessLog() {
  flush();
}

void AccessLog::flush() const {
  if (!m_gathered) {
    return;
  }
  std::string lines;
  {
    const std::scoped_lock lock(m_gathered->mutex);
    lines.swap(m_gathered->lines);
  }
  if (!lines.empty()) {
    // A full disk must not stop the answers.
    [[maybe_unused]] const auto written = ::write(m_fd, lines.data(), lines.size());
  }
}

void AccessLog::write(const LogEntry& entry) const {
  if (m_fd < 0) {
    return;
  }
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  std::string line =
      log_line(entry, std::chrono::duration_cast<std::chrono::milliseconds>(now).count());
  line += '\n';
  if (m_gathered) {
    std::unique_lock lock(m_gathered->mutex);
    m_gathered->lines += line;
    if (m_gathered->lines.size() < k_gathered_bytes) {
      return;
    }
    lock.unlock();
    flush();
    return;
  }
  // One write a line keeps lines whole among threads; a full disk must not stop the answers.
  [[maybe_unused]] const auto written = ::write(m_fd, line.data(), line.size());
}

}  // namespace cubinary::server
