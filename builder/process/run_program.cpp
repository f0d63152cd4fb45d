// SPDX-License-Identifier: Apache-2.0
#include "builder/process/run_program.hpp"

#include <cerrno>
#include <csignal>

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/file.hpp"

namespace cubinary::builder {

using core::fail;
using core::Result;
using core::UniqueFd;

Result<Ended> run_program(const std::vector<std::string>& command) {
  int ends[2] = {-1, -1};
  if (pipe2(ends, O_CLOEXEC) != 0) {
    return fail(core::errno_error("cannot make a pipe", errno));
  }
  const UniqueFd read_end(ends[0]);
  UniqueFd write_end(ends[1]);
  std::vector<char*> arguments;
  for (const std::string& argument : command) {
    arguments.push_back(const_cast<char*>(argument.c_str()));
  }
  arguments.push_back(nullptr);
  const pid_t child = fork();
  if (child < 0) {
    return fail(core::errno_error("cannot start " + command[0], errno));
  }
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(write_end.get(), STDOUT_FILENO);
    dup2(write_end.get(), STDERR_FILENO);
    execv(arguments[0], arguments.data());
    _exit(127);
  }
  write_end.reset();
  Ended ended;
  char buffer[16384];
  constexpr std::size_t k_most = 16U << 20U;
  for (;;) {
    const ssize_t got = read(read_end.get(), buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got <= 0) {
      break;
    }
    if (ended.output.size() < k_most) {
      ended.output.append(buffer, static_cast<std::size_t>(got));
    }
  }
  while (waitpid(child, &ended.status, 0) < 0 && errno == EINTR) {
  }
  return ended;
}

}  // namespace cubinary::builder
