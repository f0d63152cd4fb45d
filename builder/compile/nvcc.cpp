// SPDX-License-Identifier: Apache-2.0
#include "builder/compile/nvcc.hpp"

#include <filesystem>

#include <sys/wait.h>

#include "builder/compile/compiler_log.hpp"
#include "builder/process/run_program.hpp"
#include "core/base/file.hpp"
#include "core/base/temporary_folder.hpp"

namespace cubinary::builder {

namespace fs = std::filesystem;

CompileReply compile_with_nvcc(const CompileJob& job) {
  CompileReply reply;
  const auto cannot = [&](const core::Error& error) {
    reply.status = CompileReply::Status::environment;
    reply.message = error.message;
    return reply;
  };
  const auto folder = core::TemporaryFolder::make({}, "cubinary-");
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
