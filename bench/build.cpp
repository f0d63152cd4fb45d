// SPDX-License-Identifier: Apache-2.0
// What a build costs, both sides on the same candidates, the compilers' own disk cache off:
//   - its CPU time against that of the compiler's optimiser and assembler alone,
//   - against one `nvcc -cubin` a candidate,
//   - its throughput against as many unrelated builds with one worker each.
//
//   build [DIR...] [--kernel GLOB]... [--target sm_120] [--jobs N] [--sample N] [--quick]
#include "builder/build.hpp"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <thread>

#include <fnmatch.h>
#include <sys/resource.h>
#include <unistd.h>

#include "bench/build_throughput.hpp"
#include "builder/compile/compile_task.hpp"
#include "builder/compile/nvcc.hpp"
#include "builder/compile/worker.hpp"
#include "core/base/parallel.hpp"
#include "core/base/temporary_folder.hpp"

using namespace cubinary;
namespace fs = std::filesystem;
using core::Result;

namespace {

double cpu_seconds() {
  double total = 0;
  for (const int who : {RUSAGE_SELF, RUSAGE_CHILDREN}) {
    rusage usage{};
    getrusage(who, &usage);
    for (const timeval& time : {usage.ru_utime, usage.ru_stime}) {
      total += static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
    }
  }
  return total;
}

/// Reports an error and gives the program's exit status.
int failed(const core::Error& error) {
  std::fprintf(stderr, "build: %s\n", error.message.c_str());
  return core::error_info(error.code).exit_status;
}

struct Options {
  std::vector<fs::path> folders;
  std::vector<std::string> kernels;  ///< globs
  std::optional<core::Target> target;
  unsigned jobs = std::max(1U, std::thread::hardware_concurrency());
  std::size_t sample = 6;  ///< candidates a kernel that nvcc compiles: the rest would take the same
};

Result<Options> parse(const std::vector<std::string>& arguments) {
  Options options;
  TRY_ASSIGN(options.target, core::Target::parse("sm_120"));
  bool quick = false;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    const bool more = i + 1 < arguments.size();
    if (argument == "--target" && more) {
      TRY_ASSIGN(options.target, core::Target::parse(arguments[++i]));
    } else if (argument == "--kernel" && more) {
      options.kernels.push_back(arguments[++i]);
    } else if (argument == "--sample" && more) {
      options.sample = std::max(1UL, std::strtoul(arguments[++i].c_str(), nullptr, 10));
    } else if (argument == "--jobs" && more) {
      options.jobs =
          static_cast<unsigned>(std::max(1UL, std::strtoul(arguments[++i].c_str(), nullptr, 10)));
    } else if (argument == "--quick") {
      quick = true;
    } else if (argument.starts_with("-")) {
      return core::fail(core::ErrorCode::usage,
                        "build [DIR...] [--kernel GLOB]... [--target sm_120] [--jobs N] "
                        "[--sample N] [--quick]; no option " +
                            argument);
    } else {
      options.folders.push_back(fs::absolute(argument));
    }
  }
  if (options.folders.empty()) {
    options.folders = {fs::absolute("kernels")};
  }
  if (options.kernels.empty()) {
    // Light ones and one whose optimiser has much to do.
    options.kernels = {"l2norm", "swiglu", "rope", "gemm_nt"};
    if (quick) {
      options.kernels = {"swiglu"};
    }
  }
  if (quick) {
    options.sample = 2;
  }
  return options;
}

/// Compiler CPU time, from the phases that NVRTC reports for each compilation of a build.
struct Phases {
  double all = 0;       ///< seconds
  double back_end = 0;  ///< seconds of it in the optimiser and the assembler
};

/// Shares of a compilation by NVRTC's report. Nothing in it: none.
double back_end_share(const fs::path& report) {
  std::ifstream lines(report);
  double all = 0;
  double back = 0;
  for (std::string line; std::getline(lines, line);) {
    // "scale.cu, NVVM Optimizer, 83, ms"; the first line names the columns.
    const std::size_t unit = line.rfind(',');
    const std::size_t number = unit == std::string::npos ? unit : line.rfind(',', unit - 1);
    if (number == std::string::npos) {
      continue;
    }
    const double value = std::strtod(line.c_str() + number + 1, nullptr);
    all += value;
    back += line.find("Frontend") == std::string::npos ? value : 0;
  }
  return all > 0 ? back / all : 0;
}

/// A build's worker that has NVRTC report its phases, and notes them in a file of its own in
/// `folder`, a line a compilation: CPU seconds, and those of the back end.
int serve_and_note(const fs::path& folder) {
  const std::string name = std::to_string(getpid());
  std::ofstream notes(folder / name);
  const fs::path report = folder / (name + ".report");
  return builder::serve_compile_jobs([&](const builder::CompileJob& job,
                                         const builder::CompileStep& compile) {
    builder::CompileJob noted = job;
    noted.options.push_back("-time=" + report.string());
    const double before = cpu_seconds();
    builder::CompileReply reply = compile(noted);
    const double cpu = cpu_seconds() - before;
    notes << cpu << ' ' << cpu * back_end_share(report) << std::endl;  // it is killed, not asked
    std::error_code ignored;
    fs::remove(report, ignored);
    return reply;
  });
}

Result<Phases> read_phases(const fs::path& folder) {
  Phases phases;
  for (const auto& file : fs::directory_iterator(folder)) {
    std::ifstream notes(file.path());
    for (double all = 0, back = 0; file.path().extension() != ".report" && notes >> all >> back;) {
      phases.all += all;
      phases.back_end += back;
    }
  }
  if (phases.back_end <= 0) {
    return core::fail(core::ErrorCode::unsupported, "this NVRTC reports no phases");
  }
  return phases;
}

/// Seconds of CPU time, summed over the kernels compared.
struct Costs {
  double ours = 0;
  double back_end = 0;
};

Result<void> compare(const core::Manifest& manifest, const Options& options, const fs::path& folder,
                     const fs::path& self, Costs& costs) {
  TRY_ASSIGN(store::Store store, store::Store::open(folder / (manifest.name + ".cubinary"),
                                                    {store::Access::write, true, "bench build"}));
  builder::BuildOptions build;
  build.folders = {manifest.path.parent_path()};
  build.targets = {*options.target};
  build.jobs = options.jobs;
  const fs::path notes = folder / (manifest.name + ".phases");
  fs::create_directory(notes);
  build.worker.command = {self.string(), "worker", notes.string()};
  TRY_ASSIGN(const builder::Plan plan,
             builder::make_plan(store, {manifest}, {build.targets, build.toolkit, build.worker}));
  double before = cpu_seconds();
  bench::Silent silent;
  TRY_ASSIGN(const builder::BuildSummary summary, builder::build(store, build, silent));
  const double whole = cpu_seconds() - before;
  TRY_ASSIGN(const Phases phases, read_phases(notes));
  const auto count = static_cast<double>(std::max<std::uint64_t>(summary.compiled, 1));
  const double back_end = phases.back_end / count;
  const double ours = whole / count;

  std::vector<builder::CompileJob> jobs;
  for (std::size_t i = 0; i < options.sample; ++i) {
    const auto& candidate = plan.candidates[i * plan.candidates.size() / options.sample];
    TRY_ASSIGN(jobs.emplace_back(), builder::make_job(plan.kernels[candidate.kernel], candidate));
  }
  if (chdir(jobs.front().folder.c_str()) != 0) {
    return core::fail(core::ErrorCode::io, "cannot enter " + jobs.front().folder);
  }
  std::atomic<int> nothing = 0;
  before = cpu_seconds();
  const auto compiled = core::for_each_index(
      jobs.size(), options.jobs, [&]() -> Result<int> { return nothing.load(); },
      [&](int, std::size_t index) -> Result<void> {
        builder::CompileJob job = jobs[index];
        job.backend = core::Backend::nvcc;
        job.compiler = plan.kernels.front().toolkit.nvcc.string();
        const builder::CompileReply reply = builder::compile_with_nvcc(job);
        if (reply.status != builder::CompileReply::Status::ok) {
          return core::fail(core::ErrorCode::compile_failed, "nvcc: " + reply.message);
        }
        return {};
      });
  TRY(compiled);
  const double theirs = (cpu_seconds() - before) / static_cast<double>(jobs.size());
  costs.ours += whole;
  costs.back_end += phases.back_end;
  std::printf(
      "%-24s %4llu candidates  build %7.1f ms = optimiser and ptxas %7.1f + front end %.1f + rest "
      "%.1f: %.2fx  nvcc %7.1f ms, 1/%.1f (1/%.1f would be optimiser and ptxas alone)\n",
      manifest.name.c_str(), static_cast<unsigned long long>(summary.compiled), ours * 1e3,
      back_end * 1e3, (phases.all - phases.back_end) / count * 1e3,
      (ours - phases.all / count) * 1e3, ours / back_end, theirs * 1e3, theirs / ours,
      theirs / back_end);
  std::fflush(stdout);
  return {};
}

Result<void> run(const Options& options, const fs::path& self) {
  TRY_ASSIGN(std::vector<core::Manifest> manifests, builder::load_manifests(options.folders, ""));
  std::erase_if(manifests, [&](const core::Manifest& manifest) {
    return std::none_of(options.kernels.begin(), options.kernels.end(),
                        [&](const std::string& glob) {
                          return fnmatch(glob.c_str(), manifest.name.c_str(), 0) == 0;
                        }) ||
           manifest.backend != core::Backend::nvrtc;
  });
  if (manifests.empty()) {
    return core::fail(core::ErrorCode::not_found, "no kernel of that name that NVRTC builds");
  }
  TRY_ASSIGN(const auto folder, core::TemporaryFolder::make({}, "cubinary-bench-"));
  std::printf("CPU time a candidate, %zu sampled for nvcc\n", options.sample);
  Costs costs;
  for (const core::Manifest& manifest : manifests) {
    TRY(compare(manifest, options, folder.path(), self, costs));
  }
  std::printf("all of them: build / optimiser and ptxas %.2fx (bar 1.1x)\n",
              costs.ours / costs.back_end);
  std::fflush(stdout);

  TRY_ASSIGN(const bench::Throughput throughput,
             bench::measure_throughput(manifests, options.target->text(), options.jobs,
                                       folder.path(), self));
  std::printf(
      "throughput, %zu candidates: one build with %u workers %.1f s (%.1f s of CPU, %.2f s "
      "of it serial, %.1f worker-seconds idle), %u builds with one worker %.1f s (%.1f s of "
      "CPU, %.2f s serial each): %.2fx (bar 0.95x)\n",
      throughput.candidates, throughput.workers, throughput.together_seconds,
      throughput.together_cpu, throughput.together_serial, throughput.together_idle,
      throughput.workers, throughput.apart_seconds, throughput.apart_cpu, throughput.apart_serial,
      throughput.ratio());
  std::printf("from CPU time and the serial part, on 16 cores that are ours alone: %.2fx\n",
              throughput.predicted(16));
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  setenv("CUDA_CACHE_DISABLE", "1", 1);
  std::vector<std::string> arguments(argv + 1, argv + argc);
  if (!arguments.empty() && arguments.front() == "worker") {
    return arguments.size() > 1 ? serve_and_note(arguments[1]) : builder::serve_compile_jobs();
  }
  if (!arguments.empty() && arguments.front() == "one-build") {
    arguments.erase(arguments.begin());
    return bench::one_build(arguments);
  }
  const auto options = parse(arguments);
  if (!options) {
    return failed(options.error());
  }
  std::error_code error;
  const fs::path self = fs::canonical("/proc/self/exe", error);
  if (const auto done = run(*options, self); !done) {
    return failed(done.error());
  }
  return 0;
}
