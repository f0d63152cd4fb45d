// SPDX-License-Identifier: Apache-2.0
// Host time of one launch through cubinary_launch beside a raw cuLaunchKernel of the same function
// with the same parameters, interleaved in one run. The bar: at most 1.1 times, axes unchanged.
//
//   CUBINARY_TEST_SOURCE, CUBINARY_TEST_KEY   a signed release that holds rmsnorm
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <span>

#include "client/kernel.hpp"
#include "tests/gpu/launcher.hpp"

namespace {

using namespace cubinary;
using gpu::CudaError;
using gpu::driver;
using gpu::failure;
using gpu::Kernel;
using gpu::Operands;
using gpu::Problem;
using gpu::Release;
using gpu::Stream;

constexpr int k_skipped = 125;
constexpr int k_batches = 400;
constexpr int k_launches =
    200;  // a batch; far below the driver's queue, so that none of them waits

void require(const std::string& what, cubinary_status status) {
  if (status != CUBINARY_OK) {
    throw CudaError(failure(what, status));
  }
}

/// The same kernel as a caller without Cubinary would hold it: the function, loaded by hand, its
/// launch, and where each parameter's value lies.
struct RawKernel {
  core::cuda::Function function = nullptr;
  core::StepPlan step;
  std::vector<void*> parameters;
};

template <typename T>
T value_or_throw(const std::string& what, core::Result<T> result) {
  if (!result) {
    throw CudaError(what + ": " + result.error().message);
  }
  return *std::move(result);
}

/// What the release answers for the problem, without the C interface: its code is taken from the
/// release and loaded here, not found in anybody's cache.
RawKernel raw_kernel(const core::Driver& cuda, const Problem& problem, const Operands& operands,
                     std::span<const cubinary_arg> arguments,
                     std::unique_ptr<client::Kernel>& owner) {
  client::SessionOptions options;
  options.source =
      value_or_throw("source", client::SourceName::parse(std::getenv("CUBINARY_TEST_SOURCE")));
  options.trust.keys.push_back(
      value_or_throw("key", core::PublicKey::load(std::getenv("CUBINARY_TEST_KEY"))));
  const auto session = value_or_throw("open", client::Session::open(std::move(options)));
  client::Session::Query query;
  query.kernel = problem.kernel;
  query.types = {{"T", problem.dtype}};
  query.shape = {problem.axes.begin(), problem.axes.end()};
  for (const auto& [name, alignment] : operands.alignments()) {
    query.alignments.emplace(name, alignment);
  }
  owner = value_or_throw("resolve", session->resolve(query));
  const core::LaunchPlan& plan = owner->plan();
  if (plan.steps.size() != 1 || plan.workspace_bytes != 0) {
    throw CudaError(problem.kernel + " is not one plain launch any more: measure another kernel");
  }
  const auto current = value_or_throw("context", session->current_context(cuda));
  const core::Choice& choice = owner->choice();
  const auto module =
      value_or_throw("load", session->load(cuda, current, *choice.table, choice.entry->artifact));
  RawKernel raw;
  raw.step = plan.steps[0];
  driver().check(cuda.module_function(&raw.function, module->module,
                                      choice.entry->symbols.at(0).symbol.c_str()),
                 "cuModuleGetFunction");
  static std::uint64_t null = 0;
  for (core::ParameterSource& source : raw.step.parameters) {
    if (source.from == core::ParameterSource::From::constant) {
      raw.parameters.push_back(source.value.data());
    } else if (const void* data = arguments[source.index].data; data != nullptr) {
      raw.parameters.push_back(const_cast<void*>(data));
    } else {
      raw.parameters.push_back(&null);
    }
  }
  return raw;
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
  const Problem problem = gpu::rmsnorm_problem("f16", rows, 256, 1e-6F, random);
  const Operands operands(problem, {});
  const auto arguments = operands.arguments();
  Release release;
  Kernel kernel;
  require("open", release.open(""));
  require("resolve", kernel.resolve(release, problem.kernel, CUBINARY_ANY_INTERFACE, problem.dtype,
                                    problem.axes, operands.alignments()));
  require("prepare", cubinary_prepare(kernel.get()));

  const core::Driver& cuda = *value_or_throw("driver", core::Driver::get());
  std::unique_ptr<client::Kernel> owner;
  RawKernel by_hand = raw_kernel(cuda, problem, operands, arguments, owner);
  if (kernel.info().config != core::to_display(owner->choice().entry->config)) {
    throw CudaError("the two sides were given different configs");
  }

  const Stream stream;
  const core::StepPlan& step = by_hand.step;
  core::cuda::LaunchAttribute cluster{};
  cluster.id = core::cuda::k_launch_cluster;
  std::ranges::copy(step.cluster, cluster.value.cluster);
  const core::cuda::LaunchConfig config{{step.grid[0], step.grid[1], step.grid[2]},
                                        {step.block[0], step.block[1], step.block[2]},
                                        step.dynamic_smem,
                                        stream.get(),
                                        &cluster,
                                        1};
  const auto raw = [&] {
    const int status =
        step.cluster[0] != 0
            ? cuda.launch_ex(&config, by_hand.function, by_hand.parameters.data(), nullptr)
            : cuda.launch(by_hand.function, step.grid[0], step.grid[1], step.grid[2], step.block[0],
                          step.block[1], step.block[2], step.dynamic_smem, stream.get(),
                          by_hand.parameters.data(), nullptr);
    if (status != 0) [[unlikely]] {
      driver().check(status, "cuLaunchKernel");
    }
  };
  const auto ours = [&] {
    const auto status =
        cubinary_launch(kernel.get(), arguments.data(), arguments.size(), stream.get());
    if (status != CUBINARY_OK) [[unlikely]] {
      throw CudaError(failure("launch", status));
    }
  };
  nanoseconds_a_launch(stream, raw);
  nanoseconds_a_launch(stream, ours);
  std::vector<double> raw_samples;
  std::vector<double> client_samples;
  for (int batch = 0; batch < k_batches; ++batch) {
    raw_samples.push_back(nanoseconds_a_launch(stream, raw));
    client_samples.push_back(nanoseconds_a_launch(stream, ours));
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
