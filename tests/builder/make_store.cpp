// SPDX-License-Identifier: Apache-2.0
// make_store FILE [--failed-default | --measured | --hold]: a store with the made-up kernels, for
// suites that need no compiler.
#include <cstdio>
#include <exception>
#include <string_view>

#include <unistd.h>

#include "tests/builder/synthetic_store.hpp"

namespace {

/// `scale` tuned on one GPU and loosely measured on a smaller one.
void measure_some(cubinary::store::Store& store) {
  using namespace cubinary::tests;
  MadeUpMeasurement big;
  big.vec = 4;
  big.floor_us = 8;
  const auto winner = measure(store, big);
  big.vec = 1;
  big.median_us = 15;
  const auto baseline = measure(store, big);
  put_tuning(store, big, {winner, baseline}, 0, true);
  MadeUpMeasurement small;
  small.device_class = "sm120-s84-l64M-b256-m16G";
  small.product = "Little GPU";
  small.driver = "575.2";
  small.vec = 2;
  small.median_us = 20;
  measure(store, small);
  small.vec = 4;
  small.median_us = 26;
  measure(store, small);
}

}  // namespace

int main(int argc, char** argv) {
  using namespace cubinary;
  if (argc < 2) {
    std::fputs("usage: make_store FILE [--failed-default | --measured | --hold]\n", stderr);
    return 2;
  }
  const bool failed_default = argc > 2 && std::string_view(argv[2]) == "--failed-default";
  try {
    store::Store store = tests::create_store(argv[1]);
    tests::FillOptions options;
    options.adjust = [&](store::Candidate& candidate) {
      const bool is_default = candidate.role == store::CandidateRole::kernel &&
                              candidate.config.at("VEC") == core::TunableValue(std::int64_t{1});
      if (failed_default && is_default && candidate.types.at("T") == "f16") {
        candidate.status = store::CandidateStatus::failed;
        candidate.message = "scale.cu(3): error: identifier \"y\" is undefined";
      }
      return true;
    };
    tests::fill(store, tests::scale_manifest(), {"sm_90", "sm_120"}, options);
    tests::fill(store, tests::attend_manifest(), {"sm_90"});
    if (argc > 2 && std::string_view(argv[2]) == "--measured") {
      measure_some(store);
    }
    if (argc > 2 && std::string_view(argv[2]) == "--hold") {
      std::puts("holding");
      std::fflush(stdout);
      ::pause();
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "make_store: %s\n", error.what());
    return 1;
  }
  return 0;
}
