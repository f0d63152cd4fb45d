// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include <unistd.h>

#include "builder/tune/ledger.hpp"
#include "builder/tune/tune.hpp"
#include "store/artifacts.hpp"
#include "store/measurements.hpp"
#include "tests/store/scratch.hpp"

namespace cubinary::tests {

using store::must;

/// A kernel of one axis, one code-changing tunable (V, an index into `scripts`) and one launch
/// tunable (W, of one value unless told otherwise).
inline std::string tuned_manifest(std::size_t scripts, const std::string& more = "") {
  std::string values;
  for (std::size_t i = 0; i < scripts; ++i) {
    values += (i == 0 ? "" : ", ") + std::to_string(i);
  }
  return R"toml(manifest = 1
name = "scale"
summary = "y = 2 x"
source = "scale.cu"
entry = "scale<{T}, {V}>"
targets = ["sm_90"]
types.T = ["f32"]
[axes]
n = { tune = [1048576], bucket = "log2" }
[tunables]
V = { values = [)toml" +
         values + R"toml(], default = 0 }
[launch]
grid = ["ceil_div(n, 256)"]
block = [256]
args = [
  { name = "y", out = "T", len = "n" },
  { name = "x", in = "T", len = "n", fill = "uniform(1, 2)" },
  { name = "n", scalar = "i64", is = "n" },
]
[check]
reference = { entry = "scale_ref<{T}>", grid = ["ceil_div(n, 256)"], block = [256] }
tolerance = { f32 = [1e-5, 1e-6] }
also = [{ n = 77 }]
[measure]
cache = "cold"
bytes = "2 * n * sizeof(T)"
)toml" + more;
}

/// A store of that kernel whose candidates are scripts of the fake worker.
struct TuneFixture {
  store::Scratch scratch;
  store::Store store = store::open_new(scratch / "s.db");
  std::vector<store::CandidateId> candidates;

  explicit TuneFixture(const std::vector<std::string>& scripts) { put(scripts); }

  void put(const std::vector<std::string>& scripts, const std::string& helper = "reference") {
    candidates.clear();
    must(store.write([&](store::Writer& writer) -> core::Result<void> {
      store::Kernel kernel;
      kernel.name = "scale";
      kernel.interface = core::sha256("interface");
      kernel.manifest = tuned_manifest(scripts.size());
      kernel.manifest_digest = core::sha256(kernel.manifest);
      kernel.manifest_path = "/kernels/scale/kernel.toml";
      TRY_ASSIGN([[maybe_unused]] const store::KernelId id, store::put_kernel(writer, kernel));
      for (std::size_t i = 0; i <= scripts.size(); ++i) {
        const bool reference = i == scripts.size();
        const std::string text =
            (reference ? helper : scripts[i] + " number=" + std::to_string(i)) + " ";
        TRY_ASSIGN(const auto artifact, store::prepare_artifact(core::as_bytes(text), nullptr));
        TRY_ASSIGN([[maybe_unused]] const auto put, store::put_artifact(writer, artifact));
        store::Candidate candidate;
        candidate.kernel = "scale";
        candidate.role = reference ? store::CandidateRole::reference : store::CandidateRole::kernel;
        candidate.build_key = core::sha256("key " + text);
        candidate.types = {{"T", "f32"}};
        candidate.target = "sm_90";
        candidate.toolchain = {"nvrtc", {13, 0}, "nvrtc"};
        candidate.artifact = artifact.digest;
        candidate.symbols = {{"scale", 1024, 32, 0, 0}};
        if (!reference) {
          candidate.config = {{"V", static_cast<std::int64_t>(i)}};
        }
        TRY_ASSIGN(const store::CandidateId candidate_id, store::put_candidate(writer, candidate));
        candidates.push_back(candidate_id);
      }
      return store::set_current(writer, "scale", "sm_90", candidates);
    }));
  }

  [[nodiscard]] std::vector<store::MeasurementRow> rows() const {
    std::vector<store::MeasurementRow> found;
    must(store::for_each_measurement(must(store.reader()), {},
                                     [&](const store::MeasurementRow& row) -> core::Result<void> {
                                       found.push_back(row);
                                       return {};
                                     }));
    return found;
  }
  /// The status and message of V = `value` in the search.
  [[nodiscard]] store::Measurement of(std::int64_t value) const {
    for (const store::MeasurementRow& row : rows()) {
      if (row.measurement.config == core::Config{{"V", value}}) {
        return row.measurement;
      }
    }
    throw std::runtime_error("V=" + std::to_string(value) + " was not measured");
  }
  [[nodiscard]] std::vector<store::Winner> winners() const {
    return must(store::winners(must(store.reader()), "scale", "sm_90"));
  }
};

inline builder::TuneOptions quick_options() {
  static const std::string uuid = "GPU-test-" + std::to_string(getpid());
  setenv("FAKE_UUID", uuid.c_str(), 1);
  builder::TuneOptions options;
  options.worker.command = {CUBINARY_FAKE_WORKER};
  options.time_limit = std::chrono::milliseconds(3000);  // a busy machine is no fault
  options.budget = std::chrono::seconds(20);
  return options;
}

/// Keeps what it is told.
class Recorder : public builder::TuneObserver {
 public:
  void waiting(const std::string& holder) override { holders.push_back(holder); }
  void session(const builder::DeviceSpec&, const std::map<std::string, double>&) override {}
  void job_started(const store::TuningJob&, std::uint64_t configs, std::uint64_t known) override {
    started.emplace_back(configs, known);
  }
  void measured(const store::Measurement& measurement) override {
    measurements.push_back(measurement);
  }
  void progress(const Progress& progress) override { last = progress; }
  void job_finished(const JobResult& result) override {
    tunings.push_back(result.tuning);
    finalists = result.finalists;
  }
  void note(const std::string& text) override { notes.push_back(text); }

  std::vector<std::string> holders;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> started;
  std::vector<store::Measurement> measurements;
  Progress last;
  std::vector<store::Tuning> tunings;
  std::vector<store::Measurement> finalists;
  std::vector<std::string> notes;
};

}  // namespace cubinary::tests
