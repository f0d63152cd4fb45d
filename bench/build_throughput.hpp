// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "builder/build.hpp"
#include "core/base/result.hpp"
#include "core/manifest/manifest.hpp"

namespace cubinary::bench {

/// A build of which only failures are told.
struct Silent : builder::BuildObserver {
  void planned(std::size_t, std::size_t, unsigned) override {}
  void explained(const store::Candidate&, const std::string&) override {}
  void finished(const store::Candidate& candidate, bool) override {
    if (candidate.status != store::CandidateStatus::ok) {
      std::fprintf(stderr, "%s: %s\n", candidate.kernel.c_str(), candidate.message.c_str());
    }
  }
  void progress(const builder::BuildProgress&) override {}
  void note(const std::string&) override {}
};

struct Throughput {
  unsigned workers = 0;         ///< of the one build, and how many builds of one worker
  double together_seconds = 0;  ///< wall time of one build of everything
  double apart_seconds = 0;     ///< wall time of as many builds, each of its own share, at once
  double together_cpu = 0;      ///< CPU seconds
  double apart_cpu = 0;
  double together_serial = 0;  ///< of the one build, what more cores do not shorten
  double apart_serial = 0;     ///< of one of the builds, on average
  double together_idle = 0;    ///< worker-seconds without work
  std::size_t candidates = 0;

  [[nodiscard]] double ratio() const { return apart_seconds / together_seconds; }
  /// The same on `cores` cores that are ours alone, from CPU time and what is serial.
  [[nodiscard]] double predicted(unsigned cores) const;
};

/// Builds `workers` copies of the manifests' folders: all in one build with as many workers, and
/// each in a build of its own with one, at the same time. Copies differ in a comment, so that no
/// build has less to compile. `self` is this program: it answers `one-build`.
[[nodiscard]] core::Result<Throughput> measure_throughput(
    const std::vector<core::Manifest>& manifests, const std::string& target, unsigned workers,
    const std::filesystem::path& folder, const std::filesystem::path& self);

/// The program's `one-build STORE JOBS TARGET FOLDER...`: builds, and prints a line of figures.
[[nodiscard]] int one_build(const std::vector<std::string>& arguments);

}  // namespace cubinary::bench
