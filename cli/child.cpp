// SPDX-License-Identifier: Apache-2.0
#include "cli/child.hpp"

#include <array>
#include <cerrno>
#include <csignal>
#include <string_view>

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/file.hpp"

extern char** environ;

namespace cubinary::cli {
namespace {

using core::ErrorCode;
using core::fail;
using core::Result;

constexpr int k_signalled = 128;
constexpr std::array k_forwarded = {SIGINT,  SIGTERM, SIGHUP,  SIGQUIT,
                                    SIGUSR1, SIGUSR2, SIGCONT, SIGWINCH};

/// Blocks what is handed on for as long as it lives.
class BlockedSignals {
 public:
  BlockedSignals() {
    ::sigemptyset(&m_set);
    for (const int number : k_forwarded) {
      ::sigaddset(&m_set, number);
    }
    ::sigaddset(&m_set, SIGCHLD);
    ::pthread_sigmask(SIG_BLOCK, &m_set, &m_before);
  }
  ~BlockedSignals() { ::pthread_sigmask(SIG_SETMASK, &m_before, nullptr); }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;

  [[nodiscard]] const sigset_t& blocked() const { return m_set; }
  [[nodiscard]] const sigset_t& before() const { return m_before; }

 private:
  sigset_t m_set{};
  sigset_t m_before{};
};

std::vector<std::string> merged_environment(const std::map<std::string, std::string>& added) {
  std::vector<std::string> result;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    if (!added.contains(std::string(text.substr(0, text.find('='))))) {
      result.emplace_back(text);
    }
  }
  for (const auto& [name, value] : added) {
    result.push_back(name + "=" + value);
  }
  return result;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (std::string& text : texts) {
    result.push_back(text.data());
  }
  result.push_back(nullptr);
  return result;
}

Result<pid_t> spawn(const std::vector<std::string>& command,
                    const std::map<std::string, std::string>& environment, const sigset_t& mask) {
  std::vector<std::string> arguments = command;
  std::vector<std::string> variables = merged_environment(environment);
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  ::posix_spawnattr_setsigmask(&attributes, &mask);
  pid_t child = 0;
  const int number = ::posix_spawnp(&child, arguments.front().c_str(), nullptr, &attributes,
                                    pointers(arguments).data(), pointers(variables).data());
  ::posix_spawnattr_destroy(&attributes);
  if (number != 0) {
    return fail(core::errno_error("cannot run " + command.front(), number));
  }
  return child;
}

}  // namespace

Result<int> run_child(const std::vector<std::string>& command,
                      const std::map<std::string, std::string>& environment) {
  if (command.empty()) {
    return fail(ErrorCode::usage, "no program to run");
  }
  const BlockedSignals signals;
  TRY_ASSIGN(const pid_t child, spawn(command, environment, signals.before()));
  while (true) {
    siginfo_t info{};
    const int number = ::sigwaitinfo(&signals.blocked(), &info);
    if (number < 0) {
      continue;  // EINTR
    }
    if (number != SIGCHLD) {
      // What a terminal sends, it sends to the child too.
      if (info.si_code != SI_KERNEL) {
        ::kill(child, number);
      }
      continue;
    }
    int status = 0;
    if (::waitpid(child, &status, WNOHANG) == child) {
      if (WIFEXITED(status)) {
        return WEXITSTATUS(status);
      }
      if (WIFSIGNALED(status)) {
        return k_signalled + WTERMSIG(status);
      }
    }
  }
}

}  // namespace cubinary::cli
