// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "store/candidates.hpp"
#include "store/measurements.hpp"
#include "store/store.hpp"
#include "tests/scratch.hpp"

/// Stores filled without a compiler: real manifests, really expanded, whose cubins are made-up
/// bytes. Everything throws std::runtime_error, since a fixture that fails is a broken test.
namespace cubinary::tests {

using test::Scratch;

/// `scale`: T in f32 and f16, VEC in 1 2 4 8 (code; at most 16 bytes; prefers 8, then 4; default
/// 1), WARPS (launch).
[[nodiscard]] std::string scale_manifest();
/// `attend`: T in f16, compile axis d in 64 and 128, STAGES in 1 and 2 (code; default 2).
[[nodiscard]] std::string attend_manifest();

[[nodiscard]] store::Store create_store(const std::filesystem::path& path);

/// The bytes standing in for a candidate's cubin: the same for the same candidate, 2 to 6 KB.
[[nodiscard]] core::Bytes made_up_cubin(const store::Candidate& candidate);

struct FillOptions {
  bool reversed = false;  ///< put the candidates in the opposite order
  /// Called for each candidate before it is put; may make it a failure. Returning false leaves it
  /// out.
  std::function<bool(store::Candidate&)> adjust;
};
/// Puts the kernel of `manifest` and all its candidates for each target, and makes them current.
void fill(store::Store& store, std::string_view manifest, const std::vector<std::string>& targets,
          const FillOptions& options = {});

/// Puts one good measurement of the current candidate of `scale` with this T and VEC on `target`.
void measure_scale(store::Store& store, const std::string& target, const std::string& type,
                   std::int64_t vec, std::int64_t n, double median_us);

/// What a device said of one config of `scale`; made up.
struct MadeUpMeasurement {
  std::string target = "sm_120";
  std::string type = "f32";
  std::int64_t vec = 1;
  std::int64_t warps = 8;
  std::int64_t n = 1024;
  double median_us = 10;
  store::MeasurementStatus status = store::MeasurementStatus::ok;
  bool suspect = false;
  std::optional<double> floor_us;
  std::string device_class = "sm120-s188-l128M-b512-m96G";
  std::string product = "Made-up GPU";
  std::string driver = "580.1";
};
/// Puts it in a session of its own; the interval is a hundredth of the median.
store::MeasurementId measure(store::Store& store, const MadeUpMeasurement& what);
/// Puts a tuning of these measurements, which must be of one job, the first the winner and the
/// last the baseline.
void put_tuning(store::Store& store, const MadeUpMeasurement& job,
                const std::vector<store::MeasurementId>& finalists, std::size_t ties, bool complete,
                bool with_baseline = true);

/// The value, or a runtime_error with the message.
template <typename T>
T must(core::Result<T> result);
void must(core::Result<void> result);

[[noreturn]] void give_up(const core::Error& error);

template <typename T>
T must(core::Result<T> result) {
  if (!result) {
    give_up(result.error());
  }
  return std::move(*result);
}

}  // namespace cubinary::tests
