// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.hpp"
#include "core/manifest/manifest.hpp"
#include "core/model/device_class.hpp"
#include "core/model/values.hpp"
#include "store/measurements.hpp"
#include "store/store.hpp"

/// What an auditor asks of a store: which config won where and how surely, what another GPU's
/// winner would cost, what nobody has tuned, what is out of date. Answers are sorted and contain
/// nothing that is not in the store.
namespace cubinary::store {

struct AuditFilter {
  std::string kernels;  ///< glob over kernel names; empty: all
  std::string target;   ///< empty: all
  std::optional<core::DeviceClass> device_class;
};

/// The kernels that match, sorted by name; `not_found` with the nearest name when none does.
[[nodiscard]] core::Result<std::vector<Kernel>> audited_kernels(const Reader& reader,
                                                                const AuditFilter& filter);
/// The targets a kernel has current candidates of, sorted.
[[nodiscard]] core::Result<std::vector<std::string>> current_targets(const Reader& reader,
                                                                     std::string_view kernel);
/// Every shape the manifest says to tune.
[[nodiscard]] std::vector<core::Shape> tuned_shapes(const core::Manifest& manifest);
/// A device class by its text, or by a part of it or of a product name that only one class has
/// ("sm90", "H200"). `not_found` lists what there is, `usage` what a part could mean.
[[nodiscard]] core::Result<core::DeviceClass> find_device_class(const Reader& reader,
                                                                std::string_view text);

// --- winners ---

/// Where a winner comes from, the surer first.
enum class WinnerOrigin : std::uint8_t {
  tuned,     ///< a search that ended by itself, and a run-off
  budget,    ///< the same, but its budget ended the search
  measured,  ///< no tuning: the fastest of what was measured
};
[[nodiscard]] std::string_view origin_name(WinnerOrigin origin);

[[nodiscard]] WinnerOrigin origin(const Winner& winner);
/// Half width of the 95% interval of the median / median.
[[nodiscard]] double confidence(const Winner& winner);
/// What no honest run goes below / the time: 1 is the roofline. None when the manifest says neither
/// bytes nor flops.
[[nodiscard]] std::optional<double> roofline(const Winner& winner);
/// How much slower the runner-up is: 0.03 is 3%.
[[nodiscard]] std::optional<double> margin(const Winner& winner);
/// How many times faster than what an untuned release would run.
[[nodiscard]] std::optional<double> speedup(const Winner& winner);

/// Sorted by kernel, target, types, shape and device class.
[[nodiscard]] core::Result<std::vector<Winner>> audit_winners(const Reader& reader,
                                                              const AuditFilter& filter);

// --- compare ---

/// What happens on B to who brings A's winner there.
enum class Transfer : std::uint8_t {
  same,        ///< it is B's winner too
  good,        ///< within k_good_transfer of B's winner
  slower,      ///< not: B needs its own tuning
  broken,      ///< it was tried on B and did not work
  unmeasured,  ///< nobody tried
};
inline constexpr double k_good_transfer = 1.05;
[[nodiscard]] std::string_view transfer_name(Transfer transfer);

struct Comparison {
  std::string kernel;
  core::Types types;
  core::Shape shape;
  core::Config a_config;
  core::Config b_config;
  double a_us = 0;  ///< A's winner on A
  double b_us = 0;  ///< B's winner on B
  Transfer transfer = Transfer::unmeasured;
  std::optional<double> a_on_b_us;  ///< A's winner on B, as last measured
  std::optional<double> loss;       ///< a_on_b_us / b_us: 1.2 is 20% slower
};
/// A kernel's comparisons in one line.
struct KernelComparison {
  std::string kernel;
  std::uint64_t jobs = 0;  ///< types × shapes with a winner on both
  std::uint64_t same = 0;
  std::uint64_t good = 0;
  std::uint64_t slower = 0;
  std::uint64_t broken = 0;
  std::uint64_t unmeasured = 0;
  std::optional<double> mean_loss;  ///< geometric, of those measured
  std::optional<double> worst_loss;
  [[nodiscard]] bool needs_tuning() const { return slower + broken > 0; }
};
struct CompareAnswer {
  core::DeviceClass a;
  core::DeviceClass b;
  std::vector<KernelComparison> kernels;
  std::vector<Comparison> jobs;  ///< worst loss first within a kernel
};
/// Jobs with a winner on both classes; the faster target's counts where a class has several.
[[nodiscard]] core::Result<CompareAnswer> audit_compare(const Reader& reader,
                                                        const core::DeviceClass& a,
                                                        const core::DeviceClass& b,
                                                        const AuditFilter& filter);

// --- coverage ---

/// What a client on the class would be served for a job, the best first.
enum class Coverage : std::uint8_t {
  tuned,          ///< its own winner, search ended by itself
  budget,         ///< its own winner, search ended by the budget
  measured,       ///< its own winner, never tuned
  unverified,     ///< measured, but nothing passed every check: not used
  nearest_shape,  ///< the class's winner for another shape
  other_class,    ///< only another class's winner
  untuned,        ///< the manifest's own choice
};
[[nodiscard]] std::string_view coverage_name(Coverage coverage);

struct CoverageJob {
  std::string kernel;
  std::string target;
  core::Types types;
  core::Shape shape;
  core::DeviceClass device_class;
  Coverage coverage = Coverage::untuned;
};
/// The shapes a manifest says to tune, for the types that have current candidates, on every known
/// device class that runs the target. Sorted.
[[nodiscard]] core::Result<std::vector<CoverageJob>> audit_coverage(const Reader& reader,
                                                                    const AuditFilter& filter);

// --- stale ---

/// What "now" is, where the store cannot know it.
struct AuditNow {
  std::string driver;  ///< empty: each class's newest session's
};

struct StaleWinner {
  std::string kernel;
  std::string target;
  core::Types types;
  core::Shape shape;
  core::DeviceClass device_class;
  core::Config config;
  std::int64_t created = 0;
  std::string source;   ///< what changed in the source; empty: nothing
  std::string driver;   ///< "570.86 -> 580.95"; empty: the same
  std::string toolkit;  ///< "12.8 -> 13.0"; empty: the same
};
/// Winners measured with another driver or made by another compiler than now, and jobs whose
/// measurements are all of candidates that are no longer current: their sources changed.
[[nodiscard]] core::Result<std::vector<StaleWinner>> audit_stale(const Reader& reader,
                                                                 const AuditFilter& filter,
                                                                 const AuditNow& now);

}  // namespace cubinary::store
