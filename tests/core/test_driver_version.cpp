// SPDX-License-Identifier: Apache-2.0
#include <string>

#include <catch2/catch_test_macros.hpp>

#include "core/driver/driver_version.hpp"

using namespace cubinary::core;

TEST_CASE("the branch in what the kernel driver says") {
  CHECK(
      parse_driver_branch("NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.183.01  Sun May 12 "
                          "19:39:15 UTC 2024\nGCC version:  gcc version 12.2.0\n") == 535);
  CHECK(parse_driver_branch("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  "
                            "Release Build\n") == 580);
  CHECK_FALSE(parse_driver_branch("").has_value());
  CHECK_FALSE(parse_driver_branch("gcc version 12.2.0").has_value());
}

TEST_CASE("which CUDA version a branch brought") {
  CHECK(cuda_version_of_branch(525) == 12000);
  CHECK(cuda_version_of_branch(570) == 12080);
  CHECK(cuda_version_of_branch(571) == 12090);  // between two: the next one is safe
  CHECK(cuda_version_of_branch(580) == 13000);
  CHECK(cuda_version_of_branch(999) > cuda_version_of_branch(590));
}

TEST_CASE("a driver that is too old is named, and so is the one that is needed") {
  CHECK(check_driver(13000, 580, "release v1"));
  CHECK(check_driver(13010, 525, "release v1"));
  const auto old = check_driver(12080, 580, "release v1");
  REQUIRE(!old);
  CHECK(old.error().code == cubinary::core::ErrorCode::driver);
  CHECK(old.error().message.find("release v1 needs driver 580 (CUDA 13.0) or newer") !=
        std::string::npos);
  CHECK(old.error().message.find("CUDA 12.8") != std::string::npos);
}
