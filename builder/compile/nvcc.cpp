// SPDX-License-Identifier: Apache-2.0
#include "builder/compile/nvcc.hpp"

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "builder/compile/compiler_log.hpp"
#include "core/base/file.hpp"

namespace cubinary::builder {

namespace fs = std::filesystem;
using core::fail;
using core::Result;
using core::UniqueFd;

namespace {

/// A folder of its own under the system's temporary one, removed with its scope.
class TemporaryFolder {
 public:
  static Result<TemporaryFolder> make() {
    std::error_code error;
    const fs::path parent = fs::temp_directory_path(error);
    std::string name = ((error ? fs::path("/tmp") : parent) / "cubinary-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) {
      return fail(core::errno_error("cannot make a folder for nvcc like " + name, errno));
    }
    return TemporaryFolder(std::move(name));
  }
  TemporaryFolder(TemporaryFolder&& other) noexcept : m_path(std::move(other.m_path)) {
    other.m_path.clear();
  }
  TemporaryFolder& operator=(TemporaryFolder&&) = delete;
  ~TemporaryFolder() {
    std::error_code ignored;
    if (!m_path.empty()) {
      fs::remove_all(m_path, ignored);
    }
  }
  [[nodiscard]] const fs::path& path() const { return m_path; }

 private:
  explicit TemporaryFolder(fs::path path) : m_path(std::move(path)) {}
  fs::path m_path;
};

struct Ended {
  int status = 0;
  std::string output;  ///< stdout and stderr together
};

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

}  // namespace

CompileReply compile_with_nvcc(const CompileJob& job) {
  CompileReply reply;
  const auto cannot = [&](const core::Error& error) {
    reply.status = CompileReply::Status::environment;
    reply.message = error.message;
    return reply;
  };
  const auto folder = TemporaryFolder::make();
  if (!folder) {
    return cannot(folder.error());
  }
  // Naming an entry as a template argument instantiates it; nothing of the holder reaches the
  // cubin.
  std::string unit = job.main_source + "\ntemplate <auto entry> struct cubinary_keep {};\n";
  for (const std::string& entry : job.entries) {
    unit += "template struct cubinary_keep<(" + entry + ")>;\n";
  }
  const fs::path source = folder->path() / "unit.cu";
  const fs::path output = folder->path() / "unit.cubin";
  if (const auto written = core::write_file_atomic(source, core::as_bytes(unit)); !written) {
    return cannot(written.error());
  }
  std::vector<std::string> command{job.compiler, "-cubin", "-o", output.string()};
  command.insert(command.end(), job.options.begin(), job.options.end());
  // The temporary path would enter the names of what has internal linkage.
  for (const char* option : {"--orig_src_file_name", "--orig_src_path_name"}) {
    command.insert(command.end(), {"-Xcicc", option, "-Xcicc", job.main_name});
  }
  command.insert(command.end(), {"-frandom-seed=0x" + job.seed, source.string()});
  const auto ended = run_program(command);
  if (!ended) {
    return cannot(ended.error());
  }
  reply.log = ended->output;
  for (std::size_t at = reply.log.find(source.string()); at != std::string::npos;
       at = reply.log.find(source.string(), at)) {
    reply.log.replace(at, source.string().size(), job.main_name);
  }
  if (!WIFEXITED(ended->status) || WEXITSTATUS(ended->status) != 0) {
    if (WIFEXITED(ended->status) && WEXITSTATUS(ended->status) == 127) {
      return cannot({core::ErrorCode::environment, "cannot run " + job.compiler});
    }
    reply.message = first_error(reply.log, core::Backend::nvcc);
    if (reply.message.empty()) {
      reply.message = WIFSIGNALED(ended->status)
                          ? "nvcc was ended by signal " + std::to_string(WTERMSIG(ended->status))
                          : "nvcc ended with status " + std::to_string(WEXITSTATUS(ended->status));
    }
    return reply;
  }
  constexpr std::uint64_t k_max_cubin_bytes = 512U << 20U;
  auto cubin = core::read_file(output, k_max_cubin_bytes);
  if (!cubin) {
    reply.message = "nvcc made no cubin: " + cubin.error().message;
    return reply;
  }
  reply.cubin = std::move(*cubin);
  reply.status = CompileReply::Status::ok;
  return reply;
}

}  // namespace cubinary::builder
