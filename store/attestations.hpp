// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "core/base/result.hpp"
#include "core/model/values.hpp"
#include "store/candidates.hpp"
#include "store/store.hpp"

namespace cubinary::store {

/// What measurements prove of one config of one candidate. Each was loaded, launched and compared
/// with the reference on a device before it was timed; the newest of a shape, device class and
/// driver counts.
struct Attestation {
  /// Where it passed, as `CLASS driver VERSION`.
  std::set<std::string> passed;
  /// Where and how it failed, as `was wrong at n=64 on CLASS, driver VERSION`; the newest failure.
  std::optional<std::string> failed;

  /// Passed somewhere and failed nowhere.
  [[nodiscard]] bool good() const { return !passed.empty() && !failed; }
};
using Attestations = std::map<std::pair<CandidateId, core::Config>, Attestation>;

/// Of a kernel's current candidates of a target. Time-outs, throttling and configs that a device
/// cannot launch say nothing of the code and are not in it.
[[nodiscard]] core::Result<Attestations> attestations(const Reader& reader, std::string_view kernel,
                                                      std::string_view target);

}  // namespace cubinary::store
