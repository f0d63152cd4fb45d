// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "builder/tune/job_plan.hpp"
#include "core/model/dtype.hpp"
#include "tests/store/scratch.hpp"

namespace cubinary::builder {
namespace {

using Catch::Matchers::ContainsSubstring;
using store::must;

const char* const k_manifest = R"toml(manifest = 1
name = "row_sum"
summary = "sums of long rows, split over blocks"
source = "row_sum.cu"
targets = ["sm_90"]
types.T = ["f32", "f16"]
prefer = [{ VEC = 4, SPLITS = 64 }, { VEC = 2 }]
args = [
  { name = "sums", out = "f32", len = "rows" },
  { name = "x", in = "T", len = "rows * cols", vector = "VEC", fill = "uniform(-1, 1)" },
  { name = "rows_of", in = "i32", len = "rows", fill = "index(2 * rows)" },
  { name = "parts", workspace = "f32", len = "rows * SPLITS", init = "zero" },
  { name = "n_cols", scalar = "i64", is = "cols" },
  { name = "scale", scalar = "f32", default = 0.5 },
  { name = "n_splits", scalar = "i32", is = "SPLITS" },
]
[axes]
rows = { tune = [16], bucket = "log2" }
cols = { tune = [65536], bucket = "log2" }
[tunables]
VEC = { values = [1, 2, 4], default = 1 }
SPLITS = { values = [1, 8, 64], default = 8, as = "arg" }
[rules]
require = ["cols % VEC == 0"]
[[step]]
name = "partial"
entry = "partial_sums<{T}, {VEC}>"
grid = ["SPLITS", "min(rows, 65535)"]
block = [256]
smem = "256 * sizeof(f32)"
args = ["parts", "x", "n_cols", "scale", "n_splits"]
[[step]]
name = "finish"
entry = "finish_sums"
grid = ["rows"]
block = [64]
args = ["sums", "parts", "rows_of"]
[check]
reference = { entry = "row_sum_ref<{T}>", grid = ["rows"], block = [1], args = ["sums", "x", "n_cols", "scale"] }
tolerance = { f32 = [1e-5, 1e-4] }
also = [{ rows = 3, cols = 1001 }]
[measure]
bytes = "rows * cols * sizeof(T)"
flops = "rows * cols"
)toml";

struct Fixture {
  core::Manifest manifest;
  store::TuningJob job;
  std::vector<store::Candidate> candidates;

  explicit Fixture(const std::string& text = k_manifest)
      : manifest(must(core::parse_manifest(text, "/k/kernel.toml"))) {
    job.kernel = "row_sum";
    job.target = "sm_90";
    job.types = {{"T", "f16"}};
    job.shape = {{"rows", 16}, {"cols", 65536}};
    job.device_class = must(core::DeviceClass::parse("sm90-s132-l60M-b6016-m136G"));
    for (const std::int64_t vec : {1, 2, 4}) {
      put(store::CandidateRole::kernel, "f16", {{"VEC", vec}});
      put(store::CandidateRole::kernel, "f32", {{"VEC", vec}});
    }
    put(store::CandidateRole::reference, "f16", {});
  }
  void put(store::CandidateRole role, const char* type, core::Config config) {
    store::Candidate candidate;
    candidate.id = static_cast<store::CandidateId>(candidates.size() + 1);
    candidate.role = role;
    candidate.types = {{"T", type}};
    candidate.config = std::move(config);
    candidate.build_key = core::sha256(std::to_string(candidates.size()));
    candidate.artifact = candidate.build_key;
    candidate.symbols = {{"partial", 1024, 32, 0, 0}, {"finish", 1024, 32, 0, 0}};
    if (role == store::CandidateRole::reference) {
      candidate.symbols.resize(1);
    }
    candidates.push_back(candidate);
  }
  [[nodiscard]] core::Result<JobPlan> plan() const {
    return JobPlan::make(manifest, job, {132, 232448}, candidates);
  }
};

core::Config config(std::int64_t vec, std::int64_t splits) {
  return {{"VEC", vec}, {"SPLITS", splits}};
}

TEST_CASE("a job's space is its candidates times the launch tunables, as far as rules hold") {
  Fixture f;
  const JobPlan plan = must(f.plan());
  CHECK(plan.space().size() == 9);
  CHECK(plan.baseline() == config(4, 64));
  REQUIRE(plan.first().size() == 3);
  CHECK(plan.first()[1] == config(2, 8));
  CHECK(plan.first()[2] == config(1, 8));
  CHECK(plan.candidate(config(4, 1))->config == core::Config{{"VEC", std::int64_t{4}}});
  f.job.shape["cols"] = 1002;
  CHECK(must(f.plan()).space().size() == 6);
  CHECK(must(f.plan()).baseline() == config(2, 8));
  f.candidates[2].status = store::CandidateStatus::failed;  // VEC = 2
  CHECK(must(f.plan()).space().size() == 3);
}

TEST_CASE("programs carry launches, workspace and constants") {
  Fixture f;
  const JobPlan plan = must(f.plan());
  const ProblemSpec problem = must(plan.problem(7));
  REQUIRE(problem.instances.size() == 2);
  const InstanceSpec& instance = problem.instances[0];
  REQUIRE(instance.buffers.size() == 3);
  CHECK(instance.buffers[0].name == "sums");
  CHECK(instance.buffers[0].output);
  CHECK_FALSE(instance.buffers[0].input);
  CHECK(instance.buffers[0].relative == 1e-5);
  CHECK(instance.buffers[1].count == 16 * 65536);
  CHECK(core::dtype_table()[instance.buffers[1].dtype].name == "f16");
  CHECK(instance.buffers[1].fill.kind == FillKind::uniform);
  CHECK(instance.buffers[1].fill.a == -1);
  CHECK(instance.buffers[2].fill.kind == FillKind::index);
  CHECK(instance.buffers[2].fill.a == 32);
  CHECK(problem.instances[1].buffers[2].fill.a == 6);
  REQUIRE(instance.reference.launches.size() == 1);
  CHECK(instance.reference.launches[0].grid[0] == 16);
  CHECK(instance.reference.launches[0].parameters.size() == 4);
  CHECK(instance.prepare.skipped);

  const CandidateSpec spec = must(plan.programs(config(4, 64)));
  REQUIRE(spec.programs.size() == 2);
  const ProgramSpec& program = spec.programs[0];
  CHECK(program.workspace == 4096);
  REQUIRE(program.zeroed.size() == 1);
  REQUIRE(program.launches.size() == 2);
  CHECK(program.launches[0].grid == std::array<std::uint32_t, 3>{64, 16, 1});
  CHECK(program.launches[0].smem == 1024);
  const auto& parameters = program.launches[0].parameters;
  REQUIRE(parameters.size() == 5);
  CHECK(parameters[0].buffer == ParameterSpec::k_workspace);
  CHECK(parameters[1].buffer == 1);
  CHECK(parameters[2].buffer == ParameterSpec::k_constant);
  CHECK(parameters[2].value == 65536);
  CHECK(parameters[3].value == 0x3f000000);  // 0.5 as float
  CHECK(parameters[4].value == 64);
  CHECK(spec.programs[1].skipped);  // 1001 columns are not a multiple of 4
  CHECK_FALSE(must(plan.programs(config(1, 8))).programs[1].skipped);
}

TEST_CASE("the floor is what bytes and flops need at the session's peaks") {
  const Fixture f;
  const JobPlan plan = must(f.plan());
  const std::map<std::string, double> peaks{
      {"dram_gbps", 4000}, {"l2_gbps", 8000}, {"f32_tflops", 60}, {"mma_tflops", 600}};
  // 2 MiB, of which 64 bytes of output may stay in the cache.
  CHECK(plan.floor_us(peaks, 1 << 20) == Catch::Approx((2097152 - 64) / 4e6));
  CHECK(plan.floor_us({{"l2_gbps", 8000}}, 1 << 20) == Catch::Approx(2097152 / 8e6));
  CHECK(plan.floor_us({{"f32_tflops", 1e-3}}, 1 << 20) == Catch::Approx(1048576 / 1e3));
  CHECK(plan.floor_us({}, 1 << 20) == 0);
}

TEST_CASE("the recipe is what a measurement depends on, not the lists of values") {
  Fixture f;
  const core::Digest recipe = must(f.plan()).recipe();
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string text = k_manifest;
    text.replace(text.find(from), from.size(), to);
    const Fixture other(text);
    return must(other.plan()).recipe() != recipe;
  };
  CHECK_FALSE(changed("sums of long rows", "sums"));
  CHECK_FALSE(changed("values = [1, 8, 64]", "values = [1, 8, 64, 256]"));
  CHECK_FALSE(changed("tune = [16]", "tune = [16, 32]"));
  CHECK_FALSE(
      changed("prefer = [{ VEC = 4, SPLITS = 64 }, { VEC = 2 }]", "prefer = [{ VEC = 2 }]"));
  CHECK(changed("uniform(-1, 1)", "uniform(-1, 2)"));
  CHECK(changed("[1e-5, 1e-4]", "[1e-5, 1e-3]"));
  CHECK(changed("cols = 1001", "cols = 1003"));
  CHECK(changed("\"SPLITS\", \"min", "\"2 * SPLITS\", \"min"));
  f.candidates.back().build_key = core::sha256("another reference");
  CHECK(must(f.plan()).recipe() != recipe);
}

TEST_CASE("what a tuner cannot make is refused by name") {
  const auto refusal = [](const std::string& from, const std::string& to) {
    std::string text = k_manifest;
    text.replace(text.find(from), from.size(), to);
    return Fixture(text).plan().error().message;
  };
  CHECK_THAT(refusal(", default = 0.5", ""), ContainsSubstring("scalar scale has neither"));
  CHECK_THAT(
      refusal("{ name = \"rows_of\", in = \"i32\", len = \"rows\", fill = \"index(2 * rows)\" }",
              "{ name = \"rows_of\", handle = true }"),
      ContainsSubstring("rows_of (a handle)"));
  Fixture f;
  f.candidates.pop_back();
  CHECK_THAT(f.plan().error().message,
             ContainsSubstring("its reference kernel is not in the store"));
}

}  // namespace
}  // namespace cubinary::builder
