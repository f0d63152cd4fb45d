// SPDX-License-Identifier: Apache-2.0
#include "builder/process/child.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "builder/process/frame.hpp"
#include "core/base/file.hpp"

namespace cubinary::builder {

using core::fail;
using core::Result;
using core::UniqueFd;

struct Child::Impl {
  std::string name;
  pid_t process = -1;
  UniqueFd socket;
  UniqueFd words;  ///< what the process writes to its standard error

  ~Impl() { end(); }

  /// Kills the process group and returns its wait status.
  int end() {
    if (process < 0) {
      return 0;
    }
    ::kill(-process, SIGKILL);
    ::kill(process, SIGKILL);  // before it made its group
    int status = 0;
    while (waitpid(process, &status, 0) < 0 && errno == EINTR) {
    }
    process = -1;
    return status;
  }

  /// The status of a process that closed its end by itself.
  int reap() {
    int status = 0;
    for (int tries = 0; tries < 200; ++tries) {
      if (waitpid(process, &status, WNOHANG) == process) {
        ::kill(-process, SIGKILL);  // what it started
        process = -1;
        return status;
      }
      usleep(10'000);
    }
    return end();
  }

  [[nodiscard]] std::string last_words() const {
    std::array<char, 2048> buffer{};
    const off_t size = lseek(words.get(), 0, SEEK_END);
    const off_t from = std::max<off_t>(0, size - static_cast<off_t>(buffer.size()));
    const ssize_t got = pread(words.get(), buffer.data(), buffer.size(), from);
    std::string text(buffer.data(), got > 0 ? static_cast<std::size_t>(got) : 0);
    while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) {
      text.pop_back();
    }
    return text.substr(text.find_last_of('\n') + 1);
  }
};

namespace {

std::string how_it_ended(const std::string& name, int status) {
  if (WIFSIGNALED(status)) {
    return name + " crashed (signal " + std::to_string(WTERMSIG(status)) + ", " +
           strsignal(WTERMSIG(status)) + ")";
  }
  return name + " ended the process (status " + std::to_string(WEXITSTATUS(status)) + ")";
}

struct ChildSetup {
  int socket;
  int words;
  pid_t parent;
  rlim_t memory;
  char* const* arguments;
};

/// Runs in the child between fork and exec: system calls only.
[[noreturn]] void become_child(const ChildSetup& setup) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != setup.parent) {
    _exit(126);
  }
  setpgid(0, 0);  // a Ctrl-C in the terminal is the coordinator's to handle
  dup2(setup.socket, STDIN_FILENO);
  dup2(setup.words, STDOUT_FILENO);
  dup2(setup.words, STDERR_FILENO);
  if (setup.memory != 0) {
    const rlimit memory{setup.memory, setup.memory};
    setrlimit(RLIMIT_DATA, &memory);
  }
  const rlimit no_core{0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  for (const int signal_number : {SIGINT, SIGTERM, SIGPIPE, SIGHUP}) {
    signal(signal_number, SIG_DFL);
  }
  execv(setup.arguments[0], setup.arguments);
  _exit(127);
}

}  // namespace

Child::Child(std::unique_ptr<Impl> impl) : m_impl(std::move(impl)) {
}
Child::Child(Child&&) noexcept = default;
Child& Child::operator=(Child&&) noexcept = default;
Child::~Child() = default;

int Child::process_id() const {
  return m_impl->process;
}

void Child::kill() {
  m_impl->end();
}

Result<Child> Child::start(const ChildOptions& options) {
  std::vector<std::string> command = options.command;
  std::array<int, 2> ends{};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    return fail(core::errno_error("cannot make a socket for " + options.name, errno));
  }
  auto impl = std::make_unique<Impl>();
  impl->name = options.name;
  impl->socket = UniqueFd(ends[0]);
  const UniqueFd theirs(ends[1]);
  impl->words = UniqueFd(memfd_create("cubinary-worker", MFD_CLOEXEC));
  if (!impl->words) {
    return fail(core::errno_error("cannot make a file for the output of " + options.name, errno));
  }
  std::vector<char*> arguments;
  for (std::string& argument : command) {
    arguments.push_back(argument.data());
  }
  arguments.push_back(nullptr);
  const ChildSetup setup{theirs.get(), impl->words.get(), getpid(), options.memory_limit,
                         arguments.data()};
  impl->process = fork();
  if (impl->process < 0) {
    return fail(core::errno_error("cannot start " + options.name, errno));
  }
  if (impl->process == 0) {
    become_child(setup);
  }
  setpgid(impl->process, impl->process);
  return Child(std::move(impl));
}

Child::Answer Child::ask(core::ByteView request, std::chrono::milliseconds limit, int stop) {
  using Outcome = Answer::Outcome;
  Answer answer;
  if (m_impl->process < 0) {
    answer.message = m_impl->name + " is not running";
    return answer;
  }
  const Deadline deadline = std::chrono::steady_clock::now() + limit;
  FrameEnd end = send_frame(m_impl->socket.get(), request);
  if (end == FrameEnd::done) {
    end = receive_frame(m_impl->socket.get(), answer.reply, &deadline, stop);
  }
  switch (end) {
    case FrameEnd::done:
      answer.outcome = Outcome::replied;
      break;
    case FrameEnd::closed:
      answer.message = how_it_ended(m_impl->name, m_impl->reap());
      if (const std::string words = m_impl->last_words(); !words.empty()) {
        answer.message += ": " + words;
      }
      break;
    case FrameEnd::timed_out:
      m_impl->end();
      answer.outcome = Outcome::timed_out;
      break;
    case FrameEnd::stopped:
      m_impl->end();
      answer.outcome = Outcome::stopped;
      break;
  }
  return answer;
}

}  // namespace cubinary::builder
