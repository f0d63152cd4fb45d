// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/fetch.hpp"
#include "client/release.hpp"
#include "core/driver/driver.hpp"

namespace cubinary::cli {

/// What looking at one thing gave.
struct Finding {
  enum class State : std::uint8_t {
    ok,
    note,      ///< works, and somebody may want to know
    unneeded,  ///< not there, and nothing here needs it
    lacking,   ///< stops something
  };
  std::string area;  ///< driver, device, cache, key, source, triton
  std::string what;
  State state = State::ok;
  std::string found;   ///< one line
  std::string remedy;  ///< what to do when it is lacking; "" otherwise
};
using Findings = std::vector<Finding>;

/// What the driver said, for the checks after it.
struct Machine {
  std::vector<core::DeviceFactsRead> devices;
  int cuda_version = 0;  ///< 0: no driver
};

/// The driver library, the kernel's driver and the devices.
[[nodiscard]] Machine check_driver_and_devices(Findings& findings);
/// The cache folder: there or can be made, writable, its file system, room in it.
void check_cache(const std::string& directory, Findings& findings);
/// The keys as they are given; the clock, which expiry depends on.
void check_keys(const std::vector<std::string>& keys, Findings& findings);
/// Opens the source as a client would and compares it with the machine. Null when that fails.
[[nodiscard]] std::unique_ptr<client::Release> check_source(const SourceArguments& arguments,
                                                            const Machine& machine,
                                                            Findings& findings);
/// What an unmodified Triton program needs of this machine. `release` may be null.
void check_triton(client::Release* release, const Machine& machine, Findings& findings);

}  // namespace cubinary::cli
