// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <cstdio>
#include <fstream>
#include <functional>
#include <iterator>

#include "tests/gpu/suite.hpp"

namespace cubinary::gpu {

namespace {

double milliseconds(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
      .count();
}

void require(const std::string& what, cubinary_status status) {
  if (status != CUBINARY_OK) {
    throw CudaError(failure(what, status));
  }
}

/// Milliseconds of each step from nothing to a result.
struct Steps {
  double open = 0;     ///< index and signature fetched and verified
  double resolve = 0;  ///< catalogue fetched, verified, searched
  double prepare = 0;  ///< code fetched, verified, loaded
  double first = 0;    ///< first launch, until its result is there
  double second = 0;
};

Steps run(const Suite& suite, const Problem& problem, const std::string& cache,
          std::string& artifact) {
  Steps steps;
  Operands operands(problem, {});
  const auto arguments = operands.arguments();
  const Stream stream;
  Release release;
  Kernel kernel;
  steps.open = milliseconds([&] { require("open", release.open(cache)); });
  steps.resolve = milliseconds([&] {
    require("resolve", kernel.resolve(release, problem.kernel, suite.interface_of(problem.kernel),
                                      problem.dtype, problem.axes, operands.alignments()));
  });
  steps.prepare = milliseconds([&] { require("prepare", cubinary_prepare(kernel.get())); });
  for (double* launch : {&steps.first, &steps.second}) {
    *launch = milliseconds([&] {
      require("launch",
              cubinary_launch(kernel.get(), arguments.data(), arguments.size(), stream.get()));
      stream.synchronize();
    });
  }
  artifact = kernel.info().artifact;
  return steps;
}

/// The same code without Cubinary: read the file, cuModuleLoadData, cuFuncLoad.
double plain_load(const std::filesystem::path& file) {
  return milliseconds([&] {
    std::ifstream stream(file, std::ios::binary);
    const std::vector<char> bytes((std::istreambuf_iterator<char>(stream)), {});
    if (bytes.empty()) {
      throw CudaError("the client's cache holds no code at " + file.string());
    }
    CUmod_st* module = nullptr;
    CUfunc_st* function = nullptr;
    driver().check(driver().module_load(&module, bytes.data()), "cuModuleLoadData");
    driver().check(driver().module_functions(&function, 1, module), "cuModuleEnumerateFunctions");
    driver().check(driver().function_load(function), "cuFuncLoad");
    driver().check(driver().module_unload(module), "cuModuleUnload");
  });
}

void print(const std::string& name, const char* how, const Steps& steps) {
  std::printf("%-8s %-13s %8.2f %8.2f %8.2f %8.2f %8.3f\n", name.c_str(), how, steps.open,
              steps.resolve, steps.prepare, steps.first, steps.second);
}

}  // namespace

void print_times(Suite& suite, const std::filesystem::path& scratch) {
  std::printf("%-8s %-13s %8s %8s %8s %8s %8s   milliseconds\n", "kernel", "cache", "open",
              "resolve", "prepare", "1st run", "2nd run");
  for (const Problem& problem : {rmsnorm_problem("f32", 64, 4096, {}, suite.random),
                                 l2norm_problem("bf16", 64, 4096, {}, suite.random),
                                 gemm_nt_problem("f16", 256, 256, 256, suite.random)}) {
    const std::filesystem::path cache = scratch / problem.kernel;
    std::string artifact;
    print(problem.kernel, "empty", run(suite, problem, cache, artifact));
    print(problem.kernel, "filled", run(suite, problem, cache, artifact));
    const auto file = cache / "v1/artifacts/sha256" / artifact.substr(artifact.find(':') + 1);
    std::printf("%-8s %-13s %26.2f   (read, cuModuleLoadData, cuFuncLoad)\n",
                problem.kernel.c_str(), "plain driver", plain_load(file));
  }
}

}  // namespace cubinary::gpu
