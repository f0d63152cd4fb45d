// SPDX-License-Identifier: Apache-2.0
// The kernels on a real GPU, through libcubinary, against float64 on the CPU.
//
//   CUBINARY_TEST_SOURCE   a signed release: server, registry or directory
//   CUBINARY_TEST_KEY      its public key
//   CUBINARY_TEST_KERNELS  the manifests' folder; default: kernels
//   CUBINARY_TEST_SEED     of the random inputs; default: a fresh one, printed
//
// Exit status: 0 all well, 1 a check failed, 125 skipped, which is said aloud.
#include <array>
#include <cstdio>
#include <cstdlib>
#include <exception>

#include "tests/gpu/suite.hpp"
#include "tests/scratch.hpp"

namespace {

using namespace cubinary;

constexpr int k_skipped = 125;

int skip(const std::string& why) {
  std::printf("SKIP gpu suite: %s\n", why.c_str());
  return k_skipped;
}

int run() {
  if (const std::string missing = gpu::driver().open(); !missing.empty()) {
    return skip(missing);
  }
  const char* source = std::getenv("CUBINARY_TEST_SOURCE");
  if (source == nullptr || std::getenv("CUBINARY_TEST_KEY") == nullptr) {
    return skip("CUBINARY_TEST_SOURCE and CUBINARY_TEST_KEY are not set (scripts/gpu sets them)");
  }
  const char* folder = std::getenv("CUBINARY_TEST_KERNELS");
  gpu::Suite suite;
  for (const char* kernel : {"rmsnorm", "l2norm", "gemm_nt"}) {
    auto manifest = core::load_manifest(
        std::filesystem::path(folder == nullptr ? "kernels" : folder) / kernel / "kernel.toml");
    if (!manifest) {
      std::printf("FAIL %s\n", manifest.error().message.c_str());
      return 1;
    }
    suite.manifests.emplace(kernel, *std::move(manifest));
  }
  const char* seed = std::getenv("CUBINARY_TEST_SEED");
  const unsigned long long seed_value =
      seed == nullptr ? std::random_device{}() : std::strtoull(seed, nullptr, 10);
  suite.random.seed(seed_value);
  const gpu::Driver& driver = gpu::driver();
  std::printf("%s, sm_%d, %d SMs, driver API %d.%d; %s; seed %llu\n", driver.name.c_str(),
              driver.capability, driver.sm_count, driver.version / 1000, driver.version % 1000 / 10,
              source, seed_value);

  const test::Scratch scratch;
  gpu::Release release;
  if (const auto status = release.open(scratch.path() / "suite"); status != CUBINARY_OK) {
    std::printf("FAIL %s\n", gpu::failure("open", status).c_str());
    return 1;
  }
  gpu::check_graphs(suite, release);
  gpu::check_refusals(suite, release);
  gpu::check_results(suite, release);
  std::printf("\n");
  gpu::print_times(suite, scratch.path());
  std::printf("\n");
  suite.report.print_table();
  std::printf("gpu suite: %d checks, %d failed (%s)\n", suite.report.checks(),
              suite.report.failures(), source);
  return suite.report.failures() == 0 ? 0 : 1;
}

}  // namespace

int main() {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  try {
    return run();
  } catch (const std::exception& error) {
    std::printf("FAIL gpu suite: %s\n", error.what());
    return 1;
  }
}
