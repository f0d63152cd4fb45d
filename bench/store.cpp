// SPDX-License-Identifier: Apache-2.0
// Size of a store against the raw cubins in it, and the time to read them from either.
//
//   store FILE              a store that was built
//   store --cubins DIR...   cubin files, a folder a kernel and target, put into a fresh store as a
//   build
//                           puts them
#include "store/store.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "core/base/file.hpp"
#include "core/base/json.hpp"
#include "core/base/temporary_folder.hpp"
#include "store/artifacts.hpp"
#include "store/candidates.hpp"
#include "store/maintenance.hpp"

namespace {

using namespace cubinary;
using core::Result;
namespace fs = std::filesystem;

constexpr std::uint64_t k_max_cubin = 512U << 20U;

double now_ms() {
  return std::chrono::duration<double, std::milli>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

/// A folder's cubins as candidates of a kernel of its name.
Result<void> put_folder(store::Store& store, const fs::path& folder) {
  const std::string kernel = folder.filename().string();
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() == ".cubin") {
      files.push_back(entry.path());
    }
  }
  std::sort(files.begin(), files.end());
  const auto written = store.write([&](store::Writer& writer) -> Result<void> {
    store::Kernel made;
    made.name = kernel;
    made.interface = made.manifest_digest = core::sha256(kernel);
    TRY(put_kernel(writer, made));
    std::vector<store::CandidateId> ids;
    for (const fs::path& file : files) {
      TRY_ASSIGN(const core::Bytes raw, core::read_file(file, k_max_cubin));
      TRY_ASSIGN(const store::PreparedArtifact artifact, store::prepare_artifact(raw, nullptr));
      TRY(put_artifact(writer, artifact));
      store::Candidate candidate;
      candidate.kernel = kernel;
      candidate.target = "sm_90";
      candidate.build_key = core::sha256(file.string());
      candidate.types = {{"T", "f32"}};
      candidate.config = {{"FILE", file.stem().string()}};
      candidate.toolchain = {"nvcc", {13, 0}, "bench"};
      candidate.artifact = artifact.digest;
      candidate.symbols = {{"_Z" + file.stem().string(), 1024, 64, 0, 0}};
      TRY_ASSIGN(const store::CandidateId id, put_candidate(writer, candidate));
      ids.push_back(id);
    }
    return set_current(writer, kernel, "sm_90", ids);
  });
  TRY(written);
  TRY(repack_artifacts(store, kernel, "sm_90"));
  return {};
}

struct Times {
  double files_ms = 0;  ///< raw cubins read from files, digest computed
  double store_ms = 0;  ///< the same artifacts read from the store, digest checked
};

/// Every artifact written to a file and read back, and read from the store: second reads, so that
/// both come from the page cache.
Result<Times> time_reads(const store::Store& store) {
  TRY_ASSIGN(const core::TemporaryFolder scratch,
             core::TemporaryFolder::make({}, "cubinary-bench-"));
  TRY_ASSIGN(const store::Reader reader, store.reader());
  std::vector<core::Digest> digests;
  const auto listed = for_each_candidate(reader, {"", "", {}, false}, false,
                                         [&](const store::Candidate& candidate) -> Result<void> {
                                           if (candidate.artifact) {
                                             digests.push_back(*candidate.artifact);
                                           }
                                           return {};
                                         });
  TRY(listed);
  Times times;
  for (const core::Digest& digest : digests) {
    TRY_ASSIGN(const core::Bytes raw, read_artifact(reader, digest));
    TRY(core::write_file_atomic(scratch.path() / digest.hex(), raw));
  }
  double start = now_ms();
  for (const core::Digest& digest : digests) {
    TRY_ASSIGN(const core::Bytes raw, core::read_file(scratch.path() / digest.hex(), k_max_cubin));
    if (core::sha256(raw) != digest) {
      return core::fail(core::ErrorCode::corrupt, "a file changed while it was read");
    }
  }
  times.files_ms = now_ms() - start;
  start = now_ms();
  for (const core::Digest& digest : digests) {
    TRY(read_artifact(reader, digest));
  }
  times.store_ms = now_ms() - start;
  return times;
}

Result<void> report(const store::Store& store, bool json) {
  TRY_ASSIGN(const store::Stats stats, store::stats(store));
  TRY_ASSIGN(const Times times, time_reads(store));
  const std::uint64_t rest =
      stats.file_bytes - std::min(stats.file_bytes, stats.artifact_stored_bytes +
                                                        stats.dictionary_bytes + stats.blob_bytes);
  // Released packs are a second copy by design; the bar is about the store of candidates.
  const double ratio = static_cast<double>(stats.artifact_raw_bytes) /
                       static_cast<double>(stats.file_bytes - stats.blob_bytes);
  if (json) {
    std::printf("%s\n", core::json::to_text(
                            core::json::Object{{"artifacts", stats.artifacts},
                                               {"raw_bytes", stats.artifact_raw_bytes},
                                               {"store_bytes", stats.file_bytes},
                                               {"artifact_bytes", stats.artifact_stored_bytes},
                                               {"dictionary_bytes", stats.dictionary_bytes},
                                               {"blob_bytes", stats.blob_bytes},
                                               {"ratio", ratio},
                                               {"read_files_ms", times.files_ms},
                                               {"read_store_ms", times.store_ms}})
                            .c_str());
    return {};
  }
  const auto line = [](const char* what, std::uint64_t bytes) {
    std::printf("%-34s %12llu bytes\n", what, static_cast<unsigned long long>(bytes));
  };
  std::printf("%llu artifacts\n", static_cast<unsigned long long>(stats.artifacts));
  line("raw cubins", stats.artifact_raw_bytes);
  line("store, whole file", stats.file_bytes);
  line("  artifacts", stats.artifact_stored_bytes);
  line("  dictionaries", stats.dictionary_bytes);
  line("  released blobs (not in the ratio)", stats.blob_bytes);
  line("  rows, indexes, free room", rest);
  std::printf("raw / store %.2fx (bar 8x)\n", ratio);
  std::printf("read all: files %.2f ms, store %.2f ms\n", times.files_ms, times.store_ms);
  return {};
}

Result<void> run(const std::vector<std::string>& arguments, bool cubins, bool json) {
  if (!cubins) {
    TRY_ASSIGN(const store::Store store, store::Store::open(arguments.at(0), {}));
    return report(store, json);
  }
  TRY_ASSIGN(const core::TemporaryFolder scratch,
             core::TemporaryFolder::make({}, "cubinary-bench-"));
  const store::OpenOptions options{store::Access::write, true, "bench store"};
  {
    TRY_ASSIGN(store::Store store, store::Store::open(scratch.path() / "s.db", options));
    for (const std::string& folder : arguments) {
      TRY(put_folder(store, fs::canonical(folder)));
    }
  }
  TRY_ASSIGN(const store::Store store, store::Store::open(scratch.path() / "s.db", {}));
  return report(store, json);
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> arguments(argv + 1, argv + argc);
  const bool json = std::erase(arguments, "--json") > 0;
  const bool cubins = std::erase(arguments, "--cubins") > 0;
  if (arguments.empty() || (!cubins && arguments.size() != 1)) {
    std::fprintf(stderr, "usage: store [--json] FILE | --cubins DIR...\n");
    return 2;
  }
  if (const auto done = run(arguments, cubins, json); !done) {
    std::fprintf(stderr, "store: %s\n", done.error().message.c_str());
    return core::error_info(done.error().code).exit_status;
  }
  return 0;
}
