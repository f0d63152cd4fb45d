// SPDX-License-Identifier: Apache-2.0
#include "core/model/device_class.hpp"

#include <charconv>
#include <cmath>
#include <optional>

namespace cubinary::core {
namespace {

/// Takes a decimal without sign or leading zero, at most nine digits, off the front of `text`.
std::optional<int> take_number(std::string_view& text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const auto digits = static_cast<std::size_t>(end - text.data());
  if (error != std::errc() || text.front() == '-' || digits > 9 ||
      (digits > 1 && text.front() == '0')) {
    return std::nullopt;
  }
  text.remove_prefix(digits);
  return value;
}

bool take(std::string_view& text, std::string_view word) {
  if (!text.starts_with(word)) {
    return false;
  }
  text.remove_prefix(word.size());
  return true;
}

double octaves(std::int64_t a, std::int64_t b) {
  return std::abs(std::log2((static_cast<double>(a) + 1) / (static_cast<double>(b) + 1)));
}

}  // namespace

Result<DeviceClass> DeviceClass::parse(std::string_view text) {
  std::string_view rest = text;
  const auto number = [&](std::string_view before) -> std::optional<int> {
    return take(rest, before) ? take_number(rest) : std::nullopt;
  };
  const auto cc = number("sm");
  const auto sms = number("-s");
  const auto l2 = number("-l");
  const bool l2_unit = take(rest, "M");
  const auto bus = number("-b");
  const auto memory = number("-m");
  if (!cc || *cc < 10 || !sms || !l2 || !l2_unit || !bus || !memory || rest != "G") {
    return fail(ErrorCode::usage, "\"" + std::string(text) +
                                      "\" is no device class; one looks like "
                                      "\"sm120-s188-l128M-b512-m96G\"");
  }
  return DeviceClass{{*cc / 10, *cc % 10}, *sms, *l2, *bus, *memory};
}

DeviceClass DeviceClass::from_attributes(Capability capability, int sm_count, std::int64_t l2_bytes,
                                         int bus_bits, std::int64_t memory_bytes) {
  constexpr std::int64_t mib = std::int64_t{1} << 20;
  constexpr std::int64_t step = std::int64_t{8} << 30;
  // Rounded, not cut: drivers report a little less than what is soldered on.
  return {capability, sm_count, (l2_bytes + mib / 2) / mib, bus_bits,
          (memory_bytes + step / 2) / step * 8};
}

std::string DeviceClass::text() const {
  return "sm" + std::to_string(capability.major * 10 + capability.minor) + "-s" +
         std::to_string(sm_count) + "-l" + std::to_string(l2_mib) + "M-b" +
         std::to_string(bus_bits) + "-m" + std::to_string(memory_gib) + "G";
}

double distance(const DeviceClass& a, const DeviceClass& b) {
  double sum = octaves(a.sm_count, b.sm_count) + octaves(a.l2_mib, b.l2_mib) +
               octaves(a.bus_bits, b.bus_bits) + octaves(a.memory_gib, b.memory_gib);
  if (a.capability.major != b.capability.major) {
    sum += 64;
  } else if (a.capability.minor != b.capability.minor) {
    sum += 4;
  }
  return sum;
}

}  // namespace cubinary::core
