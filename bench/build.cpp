// SPDX-License-Identifier: Apache-2.0
// CPU time of a build against one `nvcc -cubin` a candidate, kernel by kernel. Both sides run here,
// on the same candidates: build [DIR...] [--target sm_90] [--sample N]
#include "builder/build.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include <sys/resource.h>
#include <unistd.h>

#include "builder/compile/compile_task.hpp"
#include "builder/compile/nvcc.hpp"
#include "core/base/temporary_folder.hpp"

using namespace cubinary;
namespace fs = std::filesystem;

namespace {

struct Silent : builder::BuildObserver {
  void planned(std::size_t, std::size_t, unsigned) override {}
  void explained(const store::Candidate&, const std::string&) override {}
  void finished(const store::Candidate& candidate, bool) override {
    if (candidate.status != store::CandidateStatus::ok) {
      std::fprintf(stderr, "%s: %s\n", candidate.kernel.c_str(), candidate.message.c_str());
    }
  }
  void progress(const builder::BuildProgress&) override {}
  void note(const std::string&) override {}
};

double cpu_seconds(int who) {
  rusage usage{};
  getrusage(who, &usage);
  return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}
double all_cpu_seconds() {
  return cpu_seconds(RUSAGE_SELF) + cpu_seconds(RUSAGE_CHILDREN);
}

/// Reports an error and gives the program's exit status.
int failed(const core::Error& error) {
  std::fprintf(stderr, "build: %s\n", error.message.c_str());
  return core::error_info(error.code).exit_status;
}

struct Options {
  builder::BuildOptions build;
  std::size_t sample = 24;  ///< nvcc runs a kernel: the rest would take the same
};

core::Result<Options> parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--target" && i + 1 < argc) {
      TRY_ASSIGN(core::Target target, core::Target::parse(argv[++i]));
      options.build.targets = {target};
    } else if (argument == "--sample" && i + 1 < argc) {
      options.sample = std::max(1UL, std::strtoul(argv[++i], nullptr, 10));
    } else if (argument.starts_with("-")) {
      return core::fail(core::ErrorCode::usage,
                        "build [DIR...] [--target sm_90] [--sample N]; no option " + argument);
    } else {
      options.build.folders.emplace_back(argument);
    }
  }
  if (options.build.folders.empty()) {
    options.build.folders = {"kernels"};
  }
  return options;
}

core::Result<void> compare(const core::Manifest& manifest, const Options& options,
                           const fs::path& folder) {
  TRY_ASSIGN(store::Store store, store::Store::open(folder / (manifest.name + ".cubinary"),
                                                    {store::Access::write, true, "bench build"}));
  builder::BuildOptions build = options.build;
  build.folders = {manifest.path.parent_path()};
  TRY_ASSIGN(const builder::Plan plan,
             builder::make_plan(store, {manifest}, {build.targets, build.toolkit, build.worker}));

  const double before = all_cpu_seconds();
  Silent silent;
  TRY_ASSIGN(const builder::BuildSummary summary, builder::build(store, build, silent));
  const double ours = (all_cpu_seconds() - before) / static_cast<double>(summary.compiled);

  const std::size_t step = std::max<std::size_t>(1, plan.candidates.size() / options.sample);
  double theirs = 0;
  std::size_t runs = 0;
  for (std::size_t i = 0; i < plan.candidates.size(); i += step) {
    const builder::PlannedCandidate& candidate = plan.candidates[i];
    builder::PlannedKernel kernel = plan.kernels[candidate.kernel];
    kernel.manifest.backend = core::Backend::nvcc;
    TRY_ASSIGN(const builder::CompileJob job, builder::make_job(kernel, candidate));
    if (chdir(job.folder.c_str()) != 0) {
      return core::fail(core::ErrorCode::io, "cannot enter " + job.folder);
    }
    const double began = all_cpu_seconds();
    const builder::CompileReply reply = builder::compile_with_nvcc(job);
    theirs += all_cpu_seconds() - began;
    ++runs;
    if (reply.status != builder::CompileReply::Status::ok) {
      return core::fail(core::ErrorCode::compile_failed, "nvcc: " + reply.message);
    }
  }
  theirs /= static_cast<double>(runs);
  const double overhead =
      ours * static_cast<double>(summary.compiled) / std::max(summary.compiler_cpu_seconds, 1e-9);
  std::printf(
      "%-12s %4llu candidates  build %7.1f ms  nvcc (%zu runs) %7.1f ms  ratio 1/%.1f  "
      "(build / its compilers %.2fx)\n",
      manifest.name.c_str(), static_cast<unsigned long long>(summary.compiled), ours * 1e3, runs,
      theirs * 1e3, theirs / ours, overhead);
  std::fflush(stdout);
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  setenv("CUDA_CACHE_DISABLE", "1", 1);
  auto options = parse(argc, argv);
  if (!options) {
    return failed(options.error());
  }
  std::error_code error;
  const fs::path self = fs::canonical("/proc/self/exe", error);
  options->build.worker.command = {(self.parent_path().parent_path() / "bin/cubinary").string(),
                                   "worker"};
  for (fs::path& folder : options->build.folders) {
    folder = fs::absolute(folder);
  }
  const auto manifests = builder::load_manifests(options->build.folders, "");
  if (!manifests) {
    return failed(manifests.error());
  }
  const auto folder = core::TemporaryFolder::make({}, "cubinary-bench-");
  if (!folder) {
    return failed(folder.error());
  }
  std::printf("CPU time a candidate, user and system, NVRTC's disk cache off\n");
  int status = 0;
  for (const core::Manifest& manifest : *manifests) {
    if (const auto compared = compare(manifest, *options, folder->path()); !compared) {
      status = failed(compared.error());
    }
  }
  return status;
}
