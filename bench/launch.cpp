// SPDX-License-Identifier: Apache-2.0
// Host time of one launch through cubinary_launch beside a raw cuLaunchKernel of the same function
// with the same parameters, interleaved in one run. The bar: at most 1.1 times, axes unchanged.
//
//   CUBINARY_TEST_SOURCE, CUBINARY_TEST_KEY   a signed release that holds rmsnorm
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>

#include "tests/gpu/launcher.hpp"

namespace {

using namespace cubinary::gpu;

constexpr int k_skipped = 125;
constexpr int k_batches = 400;
constexpr int k_launches =
    200;  // a batch; far below the driver's queue, so that none of them waits

void require(const std::string& what, cubinary_status status) {
  if (status != CUBINARY_OK) {
    throw CudaError(failure(what, status));
  }
}

/// The function in the artifact that the client cached.
CUfunc_st* load_function(const std::filesystem::path& cache, const std::string& artifact) {
  std::ifstream stream(cache / "v1/artifacts/sha256" / artifact.substr(artifact.find(':') + 1),
                       std::ios::binary);
  const std::vector<char> bytes((std::istreambuf_iterator<char>(stream)), {});
  CUmod_st* module = nullptr;
  CUfunc_st* function = nullptr;
  driver().check(driver().module_load(&module, bytes.data()), "cuModuleLoadData");
  driver().check(driver().module_functions(&function, 1, module), "cuModuleEnumerateFunctions");
  driver().check(driver().function_load(function), "cuFuncLoad");
  return function;
}

/// `VEC=4 WARPS=8` as numbers.
std::map<std::string, unsigned> parse_config(const std::string& text) {
  std::map<std::string, unsigned> config;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    const auto equals = word.find('=');
    config[word.substr(0, equals)] =
        static_cast<unsigned>(std::strtoul(word.c_str() + equals + 1, nullptr, 10));
  }
  return config;
}

template <typename Launch>
double nanoseconds_a_launch(const Stream& stream, const Launch& launch) {
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < k_launches; ++i) {
    launch();
  }
  const std::chrono::duration<double, std::nano> time = std::chrono::steady_clock::now() - start;
  stream.synchronize();
  return time.count() / k_launches;
}

double median(std::vector<double>& samples) {
  std::ranges::sort(samples);
  return samples[samples.size() / 2];
}

int run() {
  std::mt19937_64 random(1);
  const std::int64_t rows = 4;
  const Problem problem = rmsnorm_problem("f16", rows, 256, 1e-6F, random);
  const Operands operands(problem, {});
  const auto arguments = operands.arguments();
  std::string pattern = std::filesystem::temp_directory_path() / "cubinary-launch-XXXXXX";
  const std::filesystem::path cache = mkdtemp(pattern.data());
  Release release;
  Kernel kernel;
  require("open", release.open(cache));
  require("resolve", kernel.resolve(release, problem.kernel, CUBINARY_ANY_INTERFACE, problem.dtype,
                                    problem.axes, operands.alignments()));
  require("prepare", cubinary_prepare(kernel.get()));

  CUfunc_st* function = load_function(cache, kernel.info().artifact);
  std::filesystem::remove_all(cache);
  auto config = parse_config(kernel.info().config);
  const unsigned grid = (static_cast<unsigned>(rows) + config["ROWS"] - 1) / config["ROWS"];
  long long counts[2] = {problem.axes[0].second, problem.axes[1].second};
  float eps = *problem.eps;
  std::vector<void*> parameters;
  for (const cubinary_arg& argument : std::span(arguments).first(3)) {
    parameters.push_back(const_cast<void*>(argument.data));
  }
  parameters.insert(parameters.end(), {&counts[0], &counts[1], &eps});

  const Stream stream;
  const auto raw = [&] {
    driver().check(
        driver().launch_kernel(function, grid, 1, 1, 32 * config["WARPS"], config["ROWS"], 1, 0,
                               stream.get(), parameters.data(), nullptr),
        "cuLaunchKernel");
  };
  const auto client = [&] {
    require("launch",
            cubinary_launch(kernel.get(), arguments.data(), arguments.size(), stream.get()));
  };
  nanoseconds_a_launch(stream, raw);
  nanoseconds_a_launch(stream, client);
  std::vector<double> raw_samples;
  std::vector<double> client_samples;
  for (int batch = 0; batch < k_batches; ++batch) {
    raw_samples.push_back(nanoseconds_a_launch(stream, raw));
    client_samples.push_back(nanoseconds_a_launch(stream, client));
  }
  const double raw_time = median(raw_samples);
  const double client_time = median(client_samples);
  std::printf(
      "launch, host time, median of %d batches of %d: cuLaunchKernel %.0f ns, "
      "cubinary_launch %.0f ns, ratio %.3f (bar 1.1)\n",
      k_batches, k_launches, raw_time, client_time, client_time / raw_time);
  return 0;
}

}  // namespace

int main() {
  if (const std::string missing = driver().open(); !missing.empty()) {
    std::printf("SKIP bench/launch: %s\n", missing.c_str());
    return k_skipped;
  }
  try {
    return run();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench/launch: %s\n", error.what());
    return 1;
  }
}
