// SPDX-License-Identifier: Apache-2.0
#include "bench/build_throughput.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <set>
#include <system_error>

#include "builder/build.hpp"
#include "core/base/file.hpp"

namespace cubinary::bench {

namespace fs = std::filesystem;
using core::ErrorCode;
using core::fail;
using core::Result;

namespace {

/// A copy of a kernel's folder, and of the include folder beside it, under another name.
Result<void> copy_kernel(const core::Manifest& manifest, const fs::path& to,
                         const std::string& suffix) {
  const fs::path from = fs::absolute(manifest.path).parent_path();
  std::error_code error;
  const auto options = fs::copy_options::recursive | fs::copy_options::skip_existing;
  fs::create_directories(to, error);
  fs::copy(from, to / from.filename(), options, error);
  if (const fs::path shared = from.parent_path() / "include"; fs::is_directory(shared)) {
    fs::copy(shared, to / "include", options, error);
  }
  if (error) {
    return fail(ErrorCode::io, "cannot copy " + from.string() + ": " + error.message());
  }
  const fs::path file = to / from.filename() / "kernel.toml";
  TRY_ASSIGN(std::string text, core::read_text_file(file, 1U << 20U));
  const std::size_t at = text.find('"' + manifest.name + '"', text.find("name"));
  if (at == std::string::npos) {
    return fail(ErrorCode::manifest, "no name to change in " + file.string());
  }
  text.insert(at + 1 + manifest.name.size(), suffix);
  TRY(core::write_file_atomic(file, core::as_bytes(text)));
  for (const auto& entry : fs::recursive_directory_iterator(to / from.filename())) {
    if (entry.path().extension() == ".cu") {
      std::ofstream(entry.path(), std::ios::app) << "\n// " << suffix << "\n";
    }
  }
  return {};
}

struct Figures {
  double seconds = 0;
  double cpu = 0;
  double serial = 0;
  double idle = 0;
  unsigned long long compiled = 0;
};

/// Runs builds at once, each a process of its own, and gives what they print.
Result<std::vector<Figures>> run_all(const std::vector<std::string>& commands) {
  struct Close {
    void operator()(std::FILE* pipe) const { pclose(pipe); }
  };
  std::vector<std::unique_ptr<std::FILE, Close>> running;
  for (const std::string& command : commands) {
    running.emplace_back(popen(command.c_str(), "r"));  // NOLINT(cert-env33-c)
  }
  std::vector<Figures> all;
  for (const auto& pipe : running) {
    Figures figures;
    if (pipe == nullptr || std::fscanf(pipe.get(), "%lf %lf %lf %lf %llu",  // NOLINT(cert-err34-c)
                                       &figures.seconds, &figures.cpu, &figures.serial,
                                       &figures.idle, &figures.compiled) != 5) {
      return fail(ErrorCode::compile_failed, "a build of the throughput comparison failed");
    }
    all.push_back(figures);
  }
  return all;
}

std::string quoted(const fs::path& path) {
  return "'" + path.string() + "'";
}

}  // namespace

double Throughput::predicted(unsigned cores) const {
  // Each of the builds apart has a share of the jobs, its own serial part included.
  const auto count = static_cast<double>(workers);
  const double parallel_apart = apart_cpu / count - apart_serial;
  const double parallel_together = (together_cpu - together_serial) / count;
  // As many copies as cores, whatever was run here: of what is serial, a part grows with them.
  const double grows = workers < 2 ? 0 : (together_serial - apart_serial) / (count - 1);
  const double serial = apart_serial + grows * (cores - 1.0);
  return (apart_serial + parallel_apart) / (serial + parallel_together);
}

Result<Throughput> measure_throughput(const std::vector<core::Manifest>& manifests,
                                      const std::string& target, unsigned workers,
                                      const fs::path& folder, const fs::path& self) {
  const fs::path kernels = folder / "copies";
  for (unsigned i = 0; i < workers; ++i) {
    for (const core::Manifest& manifest : manifests) {
      TRY(copy_kernel(manifest, kernels / std::to_string(i), "_copy" + std::to_string(i)));
    }
  }
  const auto command = [&](const std::string& store, unsigned jobs) {
    return quoted(self) + " one-build " + quoted(folder / store) + " " + std::to_string(jobs) +
           " " + target;
  };
  std::vector<std::string> apart;
  std::string together = command("together.cubinary", workers);
  for (unsigned i = 0; i < workers; ++i) {
    const std::string copy = " " + quoted(kernels / std::to_string(i));
    apart.push_back(command("apart" + std::to_string(i) + ".cubinary", 1) + copy);
    together += copy;
  }
  Throughput result;
  result.workers = workers;
  const auto seconds = [began = std::chrono::steady_clock::now()] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  };
  TRY_ASSIGN(const std::vector<Figures> single, run_all(apart));
  result.apart_seconds = seconds();
  TRY_ASSIGN(const std::vector<Figures> whole, run_all({together}));
  result.together_seconds = seconds() - result.apart_seconds;
  unsigned long long compiled = 0;
  for (const Figures& figures : single) {
    result.apart_cpu += figures.cpu;
    result.apart_serial += figures.serial / workers;
    compiled += figures.compiled;
  }
  result.candidates = whole.front().compiled;
  result.together_cpu = whole.front().cpu;
  result.together_serial = whole.front().serial;
  result.together_idle = whole.front().idle;
  if (compiled != whole.front().compiled) {
    return fail(ErrorCode::internal, "the builds compared did not compile the same");
  }
  return result;
}

int one_build(const std::vector<std::string>& arguments) {
  if (arguments.size() < 4) {
    return 2;
  }
  const auto run = [&]() -> Result<builder::BuildSummary> {
    TRY_ASSIGN(store::Store store,
               store::Store::open(arguments[0], {store::Access::write, true, "bench build"}));
    builder::BuildOptions options;
    options.jobs = static_cast<unsigned>(std::strtoul(arguments[1].c_str(), nullptr, 10));
    TRY_ASSIGN(const core::Target target, core::Target::parse(arguments[2]));
    options.targets = {target};
    options.folders.assign(arguments.begin() + 3, arguments.end());
    Silent silent;
    return builder::build(store, options, silent);
  };
  const auto summary = run();
  if (!summary) {
    std::fprintf(stderr, "build: %s\n", summary.error().message.c_str());
    return 1;
  }
  std::printf("%.6f %.6f %.6f %.6f %llu\n", summary->seconds, summary->cpu_seconds,
              summary->serial_seconds, summary->idle_seconds,
              static_cast<unsigned long long>(summary->compiled));
  return 0;
}

}  // namespace cubinary::bench
