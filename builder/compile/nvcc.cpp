// SPDX-License-Identifier: Apache-2.0
#include "builder/compile/nvcc.hpp"

#include <algorithm>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <sys/wait.h>

#include "builder/compile/compiler_log.hpp"
#include "builder/inspect/inspect.hpp"
#include "builder/inspect/match_entry.hpp"
#include "builder/process/run_program.hpp"
#include "core/base/file.hpp"
#include "core/base/temporary_folder.hpp"

namespace cubinary::builder {

namespace fs = std::filesystem;

namespace {

constexpr std::uint64_t k_max_output_bytes = 512U << 20U;
constexpr std::string_view k_mark = "cubinary_mark_";

/// A kernel for each entry, with the entry as template argument.
std::string marks_of(const std::vector<std::string>& entries) {
  std::string text;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const std::string mark = std::string(k_mark) + std::to_string(i);
    text += "template <auto entry> __global__ void " + mark + "() {}\ntemplate __global__ void " +
            mark + "<(" + entries[i] + ")>();\n";
  }
  return text;
}

/// What the mark of an entry, found in PTX, says the entry is: its demangled name.
std::string marked(std::string_view ptx, std::size_t entry) {
  const std::string mark = std::string(k_mark) + std::to_string(entry);
  const std::size_t at = ptx.find("_Z" + std::to_string(mark.size()) + mark + "I");
  if (at == std::string_view::npos) {
    return {};
  }
  // `void cubinary_mark_0<&(void k<int>(int*))>()`, or `…<&k>()`.
  std::string text = demangled(std::string(ptx.substr(at, ptx.find_first_of("( \n", at) - at)));
  const std::string begin = mark + "<&";
  constexpr std::string_view k_end = ">()";
  const std::size_t from = text.find(begin);
  if (from == std::string::npos || !text.ends_with(k_end)) {
    return {};
  }
  text = text.substr(from + begin.size(), text.size() - k_end.size() - from - begin.size());
  return text.starts_with('(') && text.ends_with(')') ? text.substr(1, text.size() - 2) : text;
}

/// The symbols of a cubin that entries are by their marks; empty where none is.
std::vector<std::string> symbols_by_marks(core::ByteView cubin, std::string_view ptx,
                                          std::size_t count) {
  std::vector<std::string> symbols(count);
  const auto info = inspect_cubin(cubin);
  for (std::size_t i = 0; info && i < count; ++i) {
    const std::string name = marked(ptx, i);
    for (const CubinEntry& entry : info->entries) {
      const std::string other = demangled(entry.symbol);
      if (!name.empty() && (other == name || other.starts_with(name + "("))) {
        symbols[i] = entry.symbol;
      }
    }
  }
  return symbols;
}

/// Whether the cubin alone leaves open which of its entries some name means: an argument may be a
/// constant or a macro, of which mangled names know only the value.
bool is_ambiguous(core::ByteView cubin, const std::vector<std::string>& names) {
  const auto info = inspect_cubin(cubin);
  if (!info || info->entries.size() < 2) {
    return false;
  }
  std::vector<std::string> symbols;
  for (const CubinEntry& entry : info->entries) {
    symbols.push_back(entry.symbol);
  }
  return std::any_of(names.begin(), names.end(), [&](const std::string& name) {
    return !match_entry(name, symbols).has_value();
  });
}

}  // namespace

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
  auto cubin = core::read_file(output, k_max_output_bytes);
  if (!cubin) {
    reply.message = "nvcc made no cubin: " + cubin.error().message;
    return reply;
  }
  reply.cubin = std::move(*cubin);
  reply.status = CompileReply::Status::ok;
  if (is_ambiguous(reply.cubin, job.entries)) {
    // The front end once more, for names alone.
    if (const auto written =
            core::write_file_atomic(source, core::as_bytes(unit + marks_of(job.entries)));
        !written) {
      return cannot(written.error());
    }
    command[1] = "-ptx";
    const auto again = run_program(command);
    if (again && WIFEXITED(again->status) && WEXITSTATUS(again->status) == 0) {
      if (const auto ptx = core::read_file(output, k_max_output_bytes)) {
        reply.symbols = symbols_by_marks(reply.cubin, core::as_text(*ptx), job.entries.size());
      }
    }
  }
  return reply;
}

}  // namespace cubinary::builder
