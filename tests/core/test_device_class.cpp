// SPDX-License-Identifier: Apache-2.0
#include <string>

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>

#include "core/model/device_class.hpp"

using namespace cubinary::core;

TEST_CASE("a device class survives its text") {
  const DeviceClass parsed = *DeviceClass::parse("sm120-s188-l128M-b512-m96G");
  CHECK(parsed == DeviceClass{{12, 0}, 188, 128, 512, 96});
  CHECK(parsed.text() == "sm120-s188-l128M-b512-m96G");
  CHECK(DeviceClass::parse("sm90-s132-l50M-b5120-m80G")->capability == Capability{9, 0});
  CHECK(DeviceClass::parse("sm87-s8-l0M-b128-m0G")->memory_gib == 0);
}

TEST_CASE("what is no device class is refused with an example") {
  for (const char* text :
       {"", "sm120", "sm120-s188-l128M-b512-m96", "sm120-s188-l128M-b512-m96G ",
        "sm120-s-1-l128M-b512-m96G", "sm120-s188-l128-b512-m96G", "sm9-s1-l1M-b1-m1G",
        "sm120-s0188-l128M-b512-m96G", "sm120-s9999999999-l128M-b512-m96G", "SM120-s1-l1M-b1-m8G",
        "sm120-s188-l128M-b512-m", "sm120-s+1-l128M-b512-m96G"}) {
    INFO(text);
    const auto parsed = DeviceClass::parse(text);
    REQUIRE_FALSE(parsed.has_value());
    CHECK(parsed.error().code == ErrorCode::usage);
    CHECK(parsed.error().message.find("sm120-s188-l128M-b512-m96G") != std::string::npos);
  }
}

TEST_CASE("driver attributes are rounded, not cut") {
  // What an H200 and an RTX PRO 6000 report.
  CHECK(DeviceClass::from_attributes({9, 0}, 132, 62914560, 6144, 150122070016).text() ==
        "sm90-s132-l60M-b6144-m136G");
  CHECK(DeviceClass::from_attributes({12, 0}, 188, 134217728, 512, 101971320832).text() ==
        "sm120-s188-l128M-b512-m96G");
  CHECK(DeviceClass::from_attributes({8, 6}, 20, 2097152, 128, 4 * (std::int64_t{1} << 30) - 1)
            .memory_gib == 0);
}

TEST_CASE("distance is a symmetric measure of unlikeness") {
  const DeviceClass a = *DeviceClass::parse("sm120-s188-l128M-b512-m96G");
  DeviceClass b = a;
  CHECK(distance(a, b) == 0);
  b.sm_count = 188 * 2 + 1;
  CHECK(distance(a, b) == Catch::Approx(1.0));
  CHECK(distance(b, a) == distance(a, b));
  b = a;
  b.capability.minor = 1;
  CHECK(distance(a, b) == Catch::Approx(4.0));
  b.capability = {9, 0};
  CHECK(distance(a, b) == Catch::Approx(64.0));
}
