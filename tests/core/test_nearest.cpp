// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <vector>

#include <catch2/catch_test_macros.hpp>

#include "core/base/nearest.hpp"

using namespace cubinary::core;

TEST_CASE("the nearest name") {
  const std::vector<std::string> names = {"values", "default", "as", "macro", "flag"};
  CHECK(nearest_name("value", names) == "values");
  CHECK(nearest_name("vlaues", names) == "values");  // a swap is one step
  CHECK(nearest_name("defualt", names) == "default");
  CHECK(nearest_name("MACRO", names) == "macro");  // case costs nothing
  CHECK(nearest_name("banana", names) == std::nullopt);
  CHECK(nearest_name("", names) == std::nullopt);
  CHECK(nearest_name(std::string(1000, 'v'), names) == std::nullopt);
  CHECK(nearest_name("x", {}) == std::nullopt);
}

TEST_CASE("ties go to the earlier name and the distance is bounded") {
  const std::vector<std::string> names = {"cat", "car", "cart"};
  CHECK(nearest_name("cap", names) == "cat");
  CHECK(nearest_name("carts", names) == "cart");
  // 6 letters allow 3 changes, not 4.
  const std::vector<std::string> six = {"abcdef"};
  CHECK(nearest_name("abcxyz", six) == "abcdef");
  CHECK(nearest_name("abwxyz", six) == std::nullopt);
}

TEST_CASE("did_you_mean is ready to append") {
  const std::vector<std::string> names = {"rows"};
  CHECK(did_you_mean("row", names) == " (did you mean \"rows\"?)");
  CHECK(did_you_mean("quantity", names).empty());
}
