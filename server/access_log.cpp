// SPDX-License-Identifier: Apache-2.0
#include "server/access_log.hpp"

#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <ctime>

#include <fcntl.h>
#include <unistd.h>

namespace cubinary::server {
namespace {

constexpr std::size_t k_gathered_bytes = 64U << 10U;

void append_escaped(std::string& out, std::string_view text) {
  std::size_t plain = 0;  // start of the run that needs no escape
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte >= 0x20 && byte < 0x7f && byte != '"' && byte != '\\') {
      continue;
    }
    out.append(text.substr(plain, i - plain));
    plain = i + 1;
    if (byte == '"' || byte == '\\') {
      out += '\\';
      out += text[i];
    } else {
      std::array<char, 8> escape{};
      std::snprintf(escape.data(), escape.size(), "\\u%04x", byte);
      out += escape.data();
    }
  }
  out.append(text.substr(plain));
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
  log.m_gathered = std::make_unique<std::array<Gathered, k_parts>>();
  return log;
}

namespace {

/// `2026-01-31T23:59:59`; formatted once a second and thread.
std::string_view time_text(std::time_t seconds) {
  thread_local std::time_t at = -1;
  thread_local std::array<char, 32> text{};
  if (seconds != at) {
    std::tm utc{};
    gmtime_r(&seconds, &utc);
    std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%S", &utc);
    at = seconds;
  }
  return text.data();
}

void append_number(std::string& out, std::uint64_t value, std::size_t digits = 0) {
  std::array<char, 24> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
  const auto size = static_cast<std::size_t>(end - text.data());
  out.append(digits > size ? digits - size : 0, '0').append(text.data(), size);
}

void append_line(std::string& line, const LogEntry& entry, std::int64_t unix_ms) {
  line.append("{\"time\":\"").append(time_text(unix_ms / 1000)).append(".");
  append_number(line, static_cast<std::uint64_t>(unix_ms % 1000), 3);
  line.append("Z\"");
  text_field(line, "peer", entry.peer);
  if (!entry.forwarded_for.empty()) {
    text_field(line, "forwarded_for", entry.forwarded_for);
  }
  text_field(line, "method", entry.method);
  text_field(line, "target", entry.target);
  text_field(line, "route", route_name(entry.route));
  line.append(",\"status\":");
  append_number(line, static_cast<std::uint64_t>(entry.status));
  line.append(",\"bytes\":");
  append_number(line, entry.bytes);
  const auto microseconds = static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(entry.duration).count());
  line.append(",\"ms\":");
  append_number(line, microseconds / 1000);
  line += '.';
  append_number(line, microseconds % 1000, 3);
  if (!entry.token.empty()) {
    text_field(line, "token", entry.token);
  }
  if (!entry.note.empty()) {
    text_field(line, "note", entry.note);
  }
  line += '}';
}

}  // namespace

std::string log_line(const LogEntry& entry, std::int64_t unix_ms) {
  std::string line;
  append_line(line, entry, unix_ms);
  return line;
}

AccessLog::~AccessLog() {
  flush();
}

void AccessLog::write_out(Gathered& part) const {
  thread_local std::string lines;
  {
    const std::scoped_lock lock(part.mutex);
    lines.swap(part.lines);
  }
  if (!lines.empty()) {
    // A full disk must not stop the answers.
    [[maybe_unused]] const auto written = ::write(m_fd, lines.data(), lines.size());
  }
  lines.clear();
}

void AccessLog::flush() const {
  if (m_gathered) {
    for (Gathered& part : *m_gathered) {
      write_out(part);
    }
  }
}

void AccessLog::write(const LogEntry& entry) const {
  if (m_fd < 0) {
    return;
  }
  const auto now = std::chrono::duration_cast<std::chrono::milliseconds>(
                       std::chrono::system_clock::now().time_since_epoch())
                       .count();
  thread_local std::string line;
  line.clear();
  append_line(line, entry, now);
  line += '\n';
  if (!m_gathered) {
    // One write a line keeps lines whole among threads; a full disk must not stop the answers.
    [[maybe_unused]] const auto written = ::write(m_fd, line.data(), line.size());
    return;
  }
  static std::atomic<std::size_t> next{0};
  thread_local const std::size_t mine = next.fetch_add(1) % k_parts;
  Gathered& part = (*m_gathered)[mine];
  std::unique_lock lock(part.mutex);
  part.lines += line;
  if (part.lines.size() >= k_gathered_bytes) {
    lock.unlock();
    write_out(part);
  }
}

}  // namespace cubinary::server
