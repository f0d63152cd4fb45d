// SPDX-License-Identifier: Apache-2.0
#include "tests/builder/synthetic_store.hpp"

#include <algorithm>
#include <cstdlib>
#include <stdexcept>

#include "builder/expand/expand.hpp"
#include "core/base/digest.hpp"
#include "core/manifest/manifest.hpp"
#include "core/model/device_class.hpp"
#include "store/artifacts.hpp"
#include "store/measurements.hpp"
#include "store/tunings.hpp"

namespace cubinary::tests {
namespace {

namespace fs = std::filesystem;
using core::Result;

core::Digest made_up_key(const store::Candidate& candidate) {
  core::Hasher hasher;
  hasher.field(candidate.kernel)
      .field(store::role_name(candidate.role))
      .field(core::to_json(candidate.types))
      .field(core::to_json(candidate.compile_axes))
      .field(core::to_json(candidate.config))
      .field(candidate.target);
  return hasher.finish();
}

store::Candidate made_up_candidate(const core::Manifest& manifest, const builder::Variant& variant,
                                   const std::string& target) {
  store::Candidate candidate;
  candidate.kernel = manifest.name;
  candidate.role = variant.role;
  candidate.types = variant.types;
  candidate.compile_axes = variant.compile_axes;
  candidate.config = variant.config;
  candidate.target = target;
  candidate.build_key = made_up_key(candidate);
  candidate.toolchain = {"nvrtc", {13, 0}, "made-up compiler 13.0.88"};
  candidate.compile_ms = 12.5;
  candidate.cpu_ms = 11.5;
  const std::size_t symbols =
      variant.role == store::CandidateRole::kernel ? manifest.steps.size() : 1;
  for (std::size_t i = 0; i < symbols; ++i) {
    candidate.symbols.push_back({"_Z" + manifest.name + std::to_string(i), 1024, 32, 0, 0});
  }
  return candidate;
}

}  // namespace

void give_up(const core::Error& error) {
  throw std::runtime_error(error.message);
}

void must(Result<void> result) {
  if (!result) {
    give_up(result.error());
  }
}

std::string scale_manifest() {
  return R"toml(manifest = 1
name    = "scale"
summary = "y = a * x"
source  = "scale.cu"
entry   = "scale<{T}, {VEC}>"
targets = ["sm_90", "sm_120"]
types.T = ["f32", "f16"]
prefer  = [{ VEC = 8 }, { VEC = 4, WARPS = 8 }]

[axes]
n = { tune = [1024, 4096], bucket = "log2" }

[tunables]
VEC   = { values = [1, 2, 4, 8], default = 1 }
WARPS = { values = [4, 8], default = 4, as = "launch" }

[rules]
require = ["VEC * sizeof(T) <= 16", "n % VEC == 0",
           "align(x) % (VEC * sizeof(T)) == 0", "align(y) % (VEC * sizeof(T)) == 0"]

[launch]
grid  = ["ceil_div(n, 32 * WARPS * VEC)"]
block = ["32 * WARPS"]
args  = [
  { name = "y", out = "T", len = "n" },
  { name = "x", in = "T", len = "n", fill = "normal(0, 1)" },
  { name = "count", scalar = "i32", is = "n" },
  { name = "a", scalar = "f32", default = 1.0 },
]

[check]
reference = { entry = "scale_ref<{T}>", grid = ["ceil_div(n, 256)"], block = [256] }
tolerance = { f32 = [1e-5, 1e-6], f16 = [2e-3, 1e-3] }
)toml";
}

std::string attend_manifest() {
  return R"toml(manifest = 1
name    = "attend"
summary = "a made-up attention step"
source  = "attend.cu"
entry   = "attend<{T}, {d}, {STAGES}>"
targets = ["sm_90"]
types.T = ["f16"]

[axes]
d = { tune = [64, 128], compile = true }
n = { tune = [1024], bucket = "log2" }

[tunables]
STAGES = { values = [1, 2], default = 2 }

[launch]
grid  = ["ceil_div(n, 64)"]
block = [128]
args  = [
  { name = "out", out = "T", len = "n * d" },
  { name = "q", in = "T", len = "n * d", fill = "normal(0, 1)" },
  { name = "n_rows", scalar = "i32", is = "n" },
]

[check]
reference = { entry = "attend_ref<{T}, {d}>", grid = ["n"], block = [128] }
tolerance = { f16 = [2e-3, 1e-3] }
)toml";
}

store::Store create_store(const fs::path& path) {
  return must(store::Store::open(path, {store::Access::write, true, "a test"}));
}

core::Bytes made_up_cubin(const store::Candidate& candidate) {
  // Half common to a kernel, as machine code is, half the candidate's own.
  core::Bytes bytes;
  const auto append = [&](core::Digest state, std::size_t blocks) {
    for (std::size_t i = 0; i < blocks; ++i) {
      bytes.insert(bytes.end(), state.raw().begin(), state.raw().end());
      state = core::sha256(state.raw());
    }
  };
  const core::Digest own = made_up_key(candidate);
  const auto blocks = 32 + static_cast<std::size_t>(std::to_integer<unsigned>(own.raw()[0]) % 64U);
  append(core::sha256(candidate.kernel), blocks);
  append(own, blocks);
  return bytes;
}

void fill(store::Store& store, std::string_view text, const std::vector<std::string>& targets,
          const FillOptions& options) {
  const core::Manifest manifest = must(core::parse_manifest(text, "/src/made-up/kernel.toml"));
  const auto body = [&](store::Writer& writer) -> Result<void> {
    store::Kernel kernel;
    kernel.name = manifest.name;
    kernel.interface = core::interface_digest(manifest);
    kernel.manifest_digest = core::sha256(manifest.text);
    kernel.manifest = manifest.text;
    kernel.manifest_path = manifest.path;
    must(store::put_kernel(writer, kernel));
    for (const std::string& target : targets) {
      auto variants = must(builder::expand(manifest, must(core::Target::parse(target))));
      if (options.reversed) {
        std::reverse(variants.begin(), variants.end());
      }
      std::vector<store::CandidateId> current;
      for (const builder::Variant& variant : variants) {
        store::Candidate candidate = made_up_candidate(manifest, variant, target);
        if (options.adjust && !options.adjust(candidate)) {
          continue;
        }
        if (candidate.status == store::CandidateStatus::ok) {
          const auto artifact = must(store::prepare_artifact(made_up_cubin(candidate), nullptr));
          must(store::put_artifact(writer, artifact));
          candidate.artifact = artifact.digest;
        } else {
          candidate.symbols.clear();
        }
        current.push_back(must(store::put_candidate(writer, candidate)));
      }
      must(store::set_current(writer, manifest.name, target, current));
    }
    return {};
  };
  must(store.write(body));
}

void measure_scale(store::Store& store, const std::string& target, const std::string& type,
                   std::int64_t vec, std::int64_t n, double median_us) {
  MadeUpMeasurement what;
  what.target = target;
  what.type = type;
  what.vec = vec;
  what.n = n;
  what.median_us = median_us;
  measure(store, what);
}

store::MeasurementId measure(store::Store& store, const MadeUpMeasurement& what) {
  store::MeasurementId id = 0;
  const auto body = [&](store::Writer& writer) -> Result<void> {
    store::Measurement measurement;
    store::CandidateFilter filter;
    filter.kernel = "scale";
    filter.target = what.target;
    filter.role = store::CandidateRole::kernel;
    const auto visit = [&](const store::Candidate& candidate) -> Result<void> {
      if (candidate.types.at("T") == what.type &&
          candidate.config.at("VEC") == core::TunableValue(what.vec)) {
        measurement.candidate = candidate.id;
      }
      return {};
    };
    must(store::for_each_candidate(writer.reader(), filter, false, visit));
    if (measurement.candidate == 0) {
      throw std::runtime_error("no such candidate of scale");
    }
    store::DeviceSession session;
    session.device_class = must(core::DeviceClass::parse(what.device_class));
    session.product = what.product;
    session.driver = what.driver;
    measurement.session = must(store::put_session(writer, session));
    measurement.config = {{"VEC", what.vec}, {"WARPS", what.warps}};
    measurement.shape = {{"n", what.n}};
    measurement.status = what.status;
    measurement.suspect = what.suspect;
    measurement.floor_us = what.floor_us;
    measurement.samples_us = {what.median_us};
    measurement.median_us = what.median_us;
    measurement.interval_us = what.median_us / 100;
    measurement.max_error = 0.5;
    TRY_ASSIGN(id, store::put_measurement(writer, measurement));
    return {};
  };
  must(store.write(body));
  return id;
}

void put_tuning(store::Store& store, const MadeUpMeasurement& job,
                const std::vector<store::MeasurementId>& finalists, std::size_t ties, bool complete,
                bool with_baseline) {
  const auto body = [&](store::Writer& writer) -> Result<void> {
    store::Tuning tuning;
    tuning.job = {"scale",
                  job.target,
                  {{"T", job.type}},
                  {{"n", job.n}},
                  must(core::DeviceClass::parse(job.device_class))};
    tuning.session = must(store::list_sessions(writer.reader())).back().id;
    tuning.strategy = "model";
    tuning.configs = 8;
    tuning.measured = 8;
    tuning.complete = complete;
    if (with_baseline) {
      tuning.baseline = finalists.back();
    }
    for (std::size_t i = 0; i < finalists.size(); ++i) {
      tuning.finalists.push_back({finalists[i], i <= ties});
    }
    TRY_ASSIGN(const auto id, store::put_tuning(writer, tuning));
    return id > 0 ? Result<void>() : core::fail(core::ErrorCode::internal, "no id");
  };
  must(store.write(body));
}

}  // namespace cubinary::tests
