// SPDX-License-Identifier: Apache-2.0
#include "builder/compile/precompiled.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <system_error>

#include <unistd.h>

namespace cubinary::builder {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t k_kept = 4;  ///< about 10 MB each
/// Room the folder must have left: NVRTC maps its files and dies of a disk that fills up.
constexpr std::uintmax_t k_room = 256U << 20U;
constexpr std::string_view k_prefix = "cubinary-headers-";

fs::path make_root() {
  std::error_code error;
  const fs::path parent = fs::temp_directory_path(error);
  if (error) {
    return {};
  }
  PrecompiledHeaders::sweep();
  std::string name =
      (parent / (std::string(k_prefix) + std::to_string(getpid()) + "-XXXXXX")).string();
  return mkdtemp(name.data()) == nullptr ? fs::path() : fs::path(name);
}

}  // namespace

void PrecompiledHeaders::sweep() {
  std::error_code error;
  const fs::path parent = fs::temp_directory_path(error);
  for (fs::directory_iterator entry(parent, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (!name.starts_with(k_prefix)) {
      continue;
    }
    pid_t owner = 0;  // the name holds the process id
    const char* const digits = name.data() + k_prefix.size();
    std::from_chars(digits, name.data() + name.size(), owner);
    if (owner > 0 && kill(owner, 0) != 0 && errno == ESRCH) {
      std::error_code ignored;
      fs::remove_all(entry->path(), ignored);
    }
  }
}

PrecompiledHeaders::~PrecompiledHeaders() {
  std::error_code ignored;
  if (!m_root.empty()) {
    fs::remove_all(m_root, ignored);
  }
}

std::vector<std::string> PrecompiledHeaders::options_for(const CompileJob& job) {
  if (m_unusable) {
    return {};
  }
  std::string key = job.folder + '\0' + job.compiler + '\0' + job.main_name + '\0';
  for (const std::string& option : job.options) {
    key += option + '\0';
  }
  key += job.main_source;
  const auto found =
      std::find_if(m_seen.begin(), m_seen.end(), [&](const Seen& seen) { return seen.key == key; });
  const bool seen = found != m_seen.end();
  if (seen) {
    m_seen.splice(m_seen.begin(), m_seen, found);
  } else {
    m_seen.push_front({std::move(key), {}});
    forget_oldest();
  }
  fs::path& folder = m_seen.front().folder;
  const bool make =
      job.header_use == HeaderUse::many || (job.header_use == HeaderUse::unknown && seen);
  if (folder.empty() && !make) {
    return {};
  }
  if (folder.empty()) {
    if (m_root.empty()) {
      m_root = make_root();
    }
    std::error_code error;
    folder = m_root / std::to_string(m_count++);
    if (m_root.empty() || fs::space(m_root, error).available < k_room || error ||
        !fs::create_directory(folder, error)) {
      m_unusable = true;  // no place for them: compiling goes on without
      return {};
    }
  }
  return {"-pch", "-pch-dir=" + folder.string()};
}

void PrecompiledHeaders::forget_oldest() {
  if (m_seen.size() <= k_kept) {
    return;
  }
  std::error_code ignored;
  if (!m_seen.back().folder.empty()) {
    fs::remove_all(m_seen.back().folder, ignored);
  }
  m_seen.pop_back();
}

std::string PrecompiledHeaders::without_remarks(const std::string& log) {
  std::string kept;
  for (std::size_t at = 0; at < log.size();) {
    const std::size_t end = std::min(log.find('\n', at), log.size() - 1) + 1;
    const std::string_view line(log.data() + at, end - at);
    if (line.find("precompiled header") == std::string_view::npos) {
      kept += line;
    }
    at = end;
  }
  return kept;
}

}  // namespace cubinary::builder
