// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch_test_macros.hpp>

#include "store/candidates.hpp"
#include "store/connection.hpp"
#include "tests/store/scratch.hpp"

namespace cubinary::store {
namespace {

using core::ErrorCode;
using Visit = std::vector<Candidate>;

Visit all(const Store& store, const CandidateFilter& filter, bool with_log = false) {
  Visit found;
  must(for_each_candidate(must(store.reader()), filter, with_log, [&](const Candidate& candidate) {
    found.push_back(candidate);
    return core::Result<void>();
  }));
  return found;
}

void set(Store& store, const std::string& kernel, const std::string& target,
         const std::vector<CandidateId>& ids) {
  must(store.write([&](Writer& writer) { return set_current(writer, kernel, target, ids); }));
}

TEST_CASE("a kernel is updated under its name") {
  const Scratch scratch;
  Store store = open_new(scratch / "s.db");
  Kernel kernel = made_up_kernel("rmsnorm");
  KernelId first = 0;
  KernelId second = 0;
  must(store.write([&](Writer& writer) -> core::Result<void> {
    TRY_ASSIGN(first, put_kernel(writer, kernel));
    kernel.manifest = "summary = \"größer\"\n";
    kernel.inputs = "{\"a.cu\":\"1\"}";
    TRY_ASSIGN(second, put_kernel(writer, kernel));
    TRY(put_kernel(writer, made_up_kernel("l2norm")));
    return {};
  }));
  CHECK(first == second);
  const Reader reader = must(store.reader());
  const auto found = must(find_kernel(reader, "rmsnorm"));
  REQUIRE(found);
  CHECK(found->id == first);
  CHECK(found->interface == kernel.interface);
  CHECK(found->manifest_digest == kernel.manifest_digest);
  CHECK(found->manifest == kernel.manifest);
  CHECK(found->manifest_path == kernel.manifest_path);
  CHECK(found->inputs == kernel.inputs);
  CHECK_FALSE(must(find_kernel(reader, "rmsnrm")));
  const auto kernels = must(list_kernels(reader));
  REQUIRE(kernels.size() == 2);
  CHECK(kernels[0].name == "l2norm");
}

TEST_CASE("a candidate comes back as it was put") {
  const Scratch scratch;
  Store store = open_new(scratch / "s.db");
  Candidate candidate = made_up_candidate("attention", 3);
  candidate.role = CandidateRole::kernel;
  candidate.types = {{"T", "bf16"}, {"ACC", "f32"}};
  candidate.compile_axes = {{"head_dim", 128}};
  candidate.config = {{"VEC", std::int64_t{4}}, {"ASYNC", true}, {"LAYOUT", std::string("row")}};
  candidate.log = "ptxas info\nsecond line";
  candidate.symbols = {{"_Z5split", 256, 64, 4096, 16}, {"_Z7combine", 1024, 32, 0, 0}};
  candidate.extra_entries = {"_Z5extra", "_Z6extra2"};
  must(store.write([&](Writer& writer) -> core::Result<void> {
    TRY(put_kernel(writer, made_up_kernel("attention")));
    TRY_ASSIGN(const PreparedArtifact artifact, prepare_artifact(made_up_cubin(3), nullptr));
    TRY(put_artifact(writer, artifact));
    TRY_ASSIGN(candidate.id, put_candidate(writer, candidate));
    return {};
  }));
  const Visit found = all(store, {"attention", "sm_90", CandidateRole::kernel, false}, true);
  REQUIRE(found.size() == 1);
  const Candidate& back = found[0];
  CHECK(back.id == candidate.id);
  CHECK(back.kernel == "attention");
  CHECK(back.build_key == candidate.build_key);
  CHECK(back.types == candidate.types);
  CHECK(back.compile_axes == candidate.compile_axes);
  CHECK(back.config == candidate.config);
  CHECK(back.target == "sm_90");
  CHECK(back.toolchain.backend == "nvrtc");
  CHECK(back.toolchain.version == core::ToolkitVersion{13, 0});
  CHECK(back.toolchain.identity == "nvrtc 13.0.48");
  CHECK(back.status == CandidateStatus::ok);
  CHECK(back.log == candidate.log);
  CHECK(back.compile_ms == 12.5);
  CHECK(back.cpu_ms == 11.25);
  CHECK(back.artifact == candidate.artifact);
  CHECK(back.raw_size == made_up_cubin(3).size());
  CHECK(back.stored_size > 0);
  CHECK(back.stored_size < back.raw_size);
  REQUIRE(back.symbols.size() == 2);
  CHECK(back.symbols[0].symbol == "_Z5split");
  CHECK(back.symbols[0].spill_bytes == 16);
  CHECK(back.symbols[1].max_threads == 1024);
  CHECK(back.extra_entries == candidate.extra_entries);
  CHECK(back.created > 1'700'000'000);
  CHECK(all(store, {"attention", "", {}, false}, false).at(0).log.empty());
}

TEST_CASE("a retried failure keeps its id and becomes ok") {
  const Scratch scratch;
  Store store = open_new(scratch / "s.db");
  Candidate candidate = made_up_candidate("rmsnorm", 1);
  candidate.artifact.reset();
  candidate.status = CandidateStatus::timeout;
  candidate.message = "took longer than 60 s";
  CandidateId failed = 0;
  must(store.write([&](Writer& writer) -> core::Result<void> {
    TRY(put_kernel(writer, made_up_kernel("rmsnorm")));
    TRY_ASSIGN(failed, put_candidate(writer, candidate));
    return {};
  }));
  auto state = must(find_candidate(must(store.reader()), candidate.build_key));
  REQUIRE(state);
  CHECK(state->status == CandidateStatus::timeout);
  CHECK(put_made_up(store, "rmsnorm", 1) == failed);
  state = must(find_candidate(must(store.reader()), candidate.build_key));
  REQUIRE(state);
  CHECK(state->id == failed);
  CHECK(state->status == CandidateStatus::ok);
  CHECK_FALSE(must(find_candidate(must(store.reader()), core::sha256("no"))));
}

TEST_CASE("a candidate needs its kernel, its artifact and a status that fits") {
  const Scratch scratch;
  Store store = open_new(scratch / "s.db");
  put_made_up(store, "rmsnorm", 1);
  const auto put = [&](const Candidate& candidate) {
    return store.write([&](Writer& writer) -> core::Result<void> {
      TRY(put_candidate(writer, candidate));
      return {};
    });
  };
  Candidate candidate = made_up_candidate("rmsnrm", 2);
  candidate.artifact = core::sha256(made_up_cubin(1));
  const auto unknown = put(candidate);
  CHECK(code_of(unknown) == ErrorCode::not_found);
  CHECK(unknown.error().message.find("did you mean \"rmsnorm\"") != std::string::npos);
  CHECK(code_of(put(made_up_candidate("rmsnorm", 2))) == ErrorCode::not_found);
  candidate = made_up_candidate("rmsnorm", 1);
  candidate.status = CandidateStatus::failed;
  CHECK(code_of(put(candidate)) == ErrorCode::internal);
  candidate.status = CandidateStatus::ok;
  candidate.artifact.reset();
  CHECK(code_of(put(candidate)) == ErrorCode::internal);
}

TEST_CASE("candidates come sorted and filtered") {
  const Scratch scratch;
  Store store = open_new(scratch / "s.db");
  std::vector<CandidateId> ids;
  for (unsigned i = 0; i < 8; ++i) {
    ids.push_back(put_made_up(store, "rmsnorm", i));
  }
  put_made_up(store, "rmsnorm", 0, "sm_120");
  put_made_up(store, "l2norm", 0);
  CHECK(all(store, {}).empty());  // nothing is current yet
  const Visit found = all(store, {"", "", {}, false});
  REQUIRE(found.size() == 10);
  CHECK(found[0].kernel == "l2norm");
  CHECK(found[1].target == "sm_120");
  const auto key = [](const Candidate& c) {
    return std::tuple(c.kernel, c.target, c.role, core::to_json(c.types),
                      core::to_json(c.compile_axes), core::to_json(c.config));
  };
  for (std::size_t i = 1; i < found.size(); ++i) {
    CHECK(key(found[i - 1]) < key(found[i]));
  }
  CHECK(all(store, {"rmsnorm", "", {}, false}).size() == 9);
  CHECK(all(store, {"", "sm_120", {}, false}).size() == 1);
  CHECK(all(store, {"", "", CandidateRole::reference, false}).empty());

  int seen = 0;
  const auto stopped = for_each_candidate(must(store.reader()), {"", "", {}, false}, false,
                                          [&](const Candidate&) -> core::Result<void> {
                                            ++seen;
                                            return core::fail(ErrorCode::cancelled, "enough");
                                          });
  CHECK(code_of(stopped) == ErrorCode::cancelled);
  CHECK(seen == 1);
}

TEST_CASE("set_current says exactly which candidates count") {
  const Scratch scratch;
  Store store = open_new(scratch / "s.db");
  std::vector<CandidateId> ids;
  for (unsigned i = 0; i < 4; ++i) {
    ids.push_back(put_made_up(store, "rmsnorm", i));
  }
  const CandidateId other = put_made_up(store, "rmsnorm", 0, "sm_120");
  CHECK_FALSE(must(current_manifest(must(store.reader()), "rmsnorm", "sm_90")));
  set(store, "rmsnorm", "sm_90", ids);
  set(store, "rmsnorm", "sm_120", {other});
  CHECK(all(store, {}).size() == 5);
  CHECK(must(current_manifest(must(store.reader()), "rmsnorm", "sm_90")) ==
        made_up_kernel("rmsnorm").manifest_digest);
  set(store, "rmsnorm", "sm_90", {ids[2], ids[1], ids[2]});
  CHECK(all(store, {"rmsnorm", "sm_90", {}, true}).size() == 2);
  CHECK(all(store, {"rmsnorm", "sm_120", {}, true}).size() == 1);
  set(store, "rmsnorm", "sm_90", {});
  CHECK(all(store, {"rmsnorm", "sm_90", {}, true}).empty());

  const auto foreign = store.write([&](Writer& writer) {
    return set_current(writer, "rmsnorm", "sm_90", std::span(&other, 1));
  });
  CHECK(code_of(foreign) == ErrorCode::not_found);
}

TEST_CASE("saying again what is current writes nothing") {
  const Scratch scratch;
  Store store = open_new(scratch / "s.db");
  const std::vector<CandidateId> ids{put_made_up(store, "rmsnorm", 1)};
  set(store, "rmsnorm", "sm_90", ids);
  const auto size = std::filesystem::file_size(scratch / "s.db-wal");
  const auto time = std::filesystem::last_write_time(scratch / "s.db-wal");
  set(store, "rmsnorm", "sm_90", ids);
  CHECK(std::filesystem::file_size(scratch / "s.db-wal") == size);
  CHECK(std::filesystem::last_write_time(scratch / "s.db-wal") == time);
}

TEST_CASE("equal texts of types, shape and config are kept once") {
  const Scratch scratch;
  Store store = open_new(scratch / "s.db");
  for (unsigned i = 0; i < 4; ++i) {
    put_made_up(store, "a", i);
    put_made_up(store, "b", i);
  }
  // {} for the axes, two types, four configs.
  CHECK(must(must(store.reader()).connection().find_integer("SELECT count(*) FROM json_value")) ==
        7);
}

TEST_CASE("toolchain probes are remembered") {
  const Scratch scratch;
  Store store = open_new(scratch / "s.db");
  must(store.write([](Writer& writer) -> core::Result<void> {
    TRY(put_toolchain_probe(writer, "/lib/libnvrtc.so 1 2", "old"));
    return put_toolchain_probe(writer, "/lib/libnvrtc.so 1 2", "nvrtc 13.0.48");
  }));
  const Reader reader = must(store.reader());
  CHECK(must(find_toolchain_probe(reader, "/lib/libnvrtc.so 1 2")) == "nvrtc 13.0.48");
  CHECK_FALSE(must(find_toolchain_probe(reader, "/lib/libnvrtc.so 1 3")));
}

TEST_CASE("names of statuses and roles") {
  CHECK(status_name(CandidateStatus::crashed) == "crashed");
  CHECK(role_name(CandidateRole::prepare) == "prepare");
}

}  // namespace
}  // namespace cubinary::store
