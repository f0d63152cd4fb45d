// SPDX-License-Identifier: Apache-2.0
#include "builder/compile/toolchain.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <functional>

#include <sys/stat.h>
#include <unistd.h>

#include "builder/inspect/inspect.hpp"
#include "core/base/json.hpp"

namespace cubinary::builder {

namespace fs = std::filesystem;
using core::Backend;
using core::ErrorCode;
using core::fail;
using core::Result;

namespace {

constexpr core::ToolkitVersion k_oldest{12, 8};

#if defined(__aarch64__)
constexpr const char* k_target_folder = "targets/sbsa-linux";
constexpr const char* k_multiarch = "aarch64-linux-gnu";
#else
constexpr const char* k_target_folder = "targets/x86_64-linux";
constexpr const char* k_multiarch = "x86_64-linux-gnu";
#endif

fs::path environment_path(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? fs::path() : fs::path(value);
}

fs::path real_path(const fs::path& path) {
  std::error_code error;
  fs::path real = fs::canonical(path, error);
  return error ? path : real;
}

bool is_there(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error);
}

fs::path find_on_path(const char* program) {
  const char* path = std::getenv("PATH");
  std::string_view rest = path == nullptr ? "" : path;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find(':'), rest.size());
    const fs::path candidate = fs::path(rest.substr(0, end)) / program;
    if (access(candidate.c_str(), X_OK) == 0) {
      return candidate;
    }
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return {};
}

/// Folders below a root that hold headers, libraries and programs, in each layout we know.
constexpr std::array k_parts = {"",
                                "nvidia/cu13",
                                "nvidia/cuda_nvrtc",
                                "nvidia/cuda_nvcc",
                                "nvidia/cuda_runtime",
                                "nvidia/cuda_cccl"};

Toolkit look_in(const fs::path& root) {
  Toolkit toolkit;
  toolkit.root = root;
  const std::array<std::string, 4> libraries = {
      "lib64", "lib", std::string(k_target_folder) + "/lib", std::string("lib/") + k_multiarch};
  for (const char* part : k_parts) {
    const fs::path base = root / part;
    for (const std::string& folder : libraries) {
      for (const char* name : {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so",
                               "libnvrtc.alt.so.13", "libnvrtc.alt.so.12"}) {
        if (toolkit.nvrtc.empty() && is_there(base / folder / name)) {
          toolkit.nvrtc = real_path(base / folder / name);
        }
      }
    }
    if (toolkit.fatbinary.empty() && access((base / "bin/fatbinary").c_str(), X_OK) == 0) {
      toolkit.fatbinary = real_path(base / "bin/fatbinary");
    }
    if (toolkit.nvcc.empty() && access((base / "bin/nvcc").c_str(), X_OK) == 0) {
      toolkit.nvcc = real_path(base / "bin/nvcc");
    }
    for (const std::string& folder :
         {std::string("include"), std::string(k_target_folder) + "/include"}) {
      const fs::path headers = base / folder;
      const bool wanted = is_there(headers / "cuda_fp16.h") ||
                          is_there(headers / "cuda_runtime.h") || is_there(headers / "cuda/std");
      const fs::path real = real_path(headers);
      if (wanted && std::find(toolkit.includes.begin(), toolkit.includes.end(), real) ==
                        toolkit.includes.end()) {
        toolkit.includes.push_back(real);
        if (is_there(real / "cccl")) {
          toolkit.includes.push_back(real / "cccl");
        }
      }
    }
  }
  return toolkit;
}

const fs::path& compiler_of(const Toolkit& toolkit, Backend backend) {
  return backend == Backend::nvrtc ? toolkit.nvrtc : toolkit.nvcc;
}

std::string_view backend_text(Backend backend) {
  return backend == Backend::nvrtc ? "nvrtc" : "nvcc";
}

/// The host compiler nvcc preprocesses with.
fs::path host_compiler() {
  const fs::path named = environment_path("NVCC_CCBIN");
  return named.empty() ? find_on_path("gcc") : named;
}

std::string file_stamp(const fs::path& path) {
  struct stat info{};
  const fs::path real = real_path(path);
  if (stat(real.c_str(), &info) != 0) {
    return real.string() + " missing";
  }
  return real.string() + " " + std::to_string(info.st_size) + " " +
         std::to_string(info.st_mtim.tv_sec) + "." + std::to_string(info.st_mtim.tv_nsec);
}

/// The first toolkit that has what is asked for.
Result<Toolkit> find_with(const fs::path& named, const std::function<bool(const Toolkit&)>& serves,
                          const std::string& what) {
  std::vector<fs::path> roots;
  if (!named.empty()) {
    roots.push_back(named);
  } else {
    for (const char* variable : {"CUBINARY_TOOLKIT", "CUDA_HOME", "CUDA_PATH"}) {
      if (fs::path path = environment_path(variable); !path.empty()) {
        roots.push_back(std::move(path));
      }
    }
    roots.emplace_back("/usr/local/cuda");
    if (const fs::path nvcc = find_on_path("nvcc"); !nvcc.empty()) {
      roots.push_back(real_path(nvcc).parent_path().parent_path());
    }
    roots.emplace_back("/usr");
  }
  std::string tried;
  for (const fs::path& root : roots) {
    Toolkit toolkit = look_in(root);
    if (serves(toolkit)) {
      return toolkit;
    }
    tried += (tried.empty() ? "" : ", ") + root.string();
  }
  return fail(ErrorCode::environment,
              "no " + what + " found in " + tried +
                  ": install the CUDA toolkit 12.8 or later, or unpack the vendor's Python wheels "
                  "(nvidia-cuda-nvrtc, nvidia-cuda-runtime, nvidia-cuda-cccl) into a folder, and "
                  "name it with --toolkit DIR or CUBINARY_TOOLKIT");
}

}  // namespace

Result<Toolkit> find_toolkit(Backend backend, const fs::path& named) {
  return find_with(
      named, [backend](const Toolkit& toolkit) { return !compiler_of(toolkit, backend).empty(); },
      backend == Backend::nvrtc ? "NVRTC (libnvrtc.so.12 or .13)" : "nvcc (bin/nvcc)");
}

Result<fs::path> find_fatbinary(const fs::path& named) {
  TRY_ASSIGN(Toolkit toolkit,
             find_with(
                 named, [](const Toolkit& found) { return !found.fatbinary.empty(); },
                 "fatbinary (bin/fatbinary, which comes with nvcc)"));
  return std::move(toolkit.fatbinary);
}

std::string probe_name(const Toolkit& toolkit, Backend backend) {
  const fs::path& compiler = compiler_of(toolkit, backend);
  std::string name = std::string(backend_text(backend)) + " " + file_stamp(compiler);
  if (backend == Backend::nvcc) {
    // nvcc is a driver: what it runs may be replaced without it.
    name += " ptxas " + file_stamp(compiler.parent_path() / "ptxas");
    name += " host " + file_stamp(host_compiler());
  }
  return name;
}

Result<store::Toolchain> identify(const Toolkit& toolkit, Backend backend,
                                  const WorkerOptions& options) {
  CompileJob job;
  job.backend = backend;
  job.compiler = compiler_of(toolkit, backend).string();
  job.folder = "/";
  job.main_name = "probe.cu";
  job.main_source = "extern \"C\" __global__ void probe() {}\n";
  job.seed = "1";
  // The first target whose cubins carry the build string, whatever the version.
  job.options = {"--gpu-architecture=sm_120", "-std=c++17"};
  if (backend == Backend::nvcc) {
    // The host compiler's headers are in the code too: the warning's text is its version.
    job.main_source += "#pragma message(\"host compiler \" __VERSION__)\n";
  }
  TRY_ASSIGN(Worker worker, Worker::start(options));
  const Worker::Answer answer = worker.run(job, std::chrono::minutes(2), -1);
  const std::string who = job.compiler;
  if (answer.outcome != Worker::Answer::Outcome::replied) {
    return fail(ErrorCode::environment, who + " cannot be used: " + answer.message);
  }
  const CompileReply& reply = answer.reply;
  const core::ToolkitVersion version{static_cast<int>(reply.version_major),
                                     static_cast<int>(reply.version_minor)};
  const auto too_old = [&](const std::string& found) {
    return fail(ErrorCode::environment,
                who + " is CUDA " + found + "; " + k_oldest.text() +
                    " or later is needed: name another toolkit with --toolkit DIR");
  };
  if (version.major != 0 && version < k_oldest) {
    return too_old(version.text());
  }
  if (reply.status != CompileReply::Status::ok) {
    return fail(ErrorCode::environment,
                who + " fails on an empty kernel (is it older than CUDA 12.8?): " + reply.message);
  }
  const auto info = inspect_cubin(reply.cubin);
  if (!info) {
    return fail(info.error().with_context(who));
  }
  store::Toolchain toolchain{std::string(backend_text(backend)), version, info->compiler};
  // "Cuda compilation tools, release 13.0, V13.0.88; Build cuda_13.0.r13.0/compiler.36424714_0"
  constexpr std::string_view k_release = "release ";
  const std::size_t at = info->compiler.find(k_release);
  if (at == std::string::npos) {
    return fail(ErrorCode::environment, who + " leaves no build string in its cubins");
  }
  const char* const end = info->compiler.data() + info->compiler.size();
  auto parsed =
      std::from_chars(info->compiler.data() + at + k_release.size(), end, toolchain.version.major);
  if (parsed.ptr != end && *parsed.ptr == '.') {
    std::from_chars(parsed.ptr + 1, end, toolchain.version.minor);
  }
  if (toolchain.version < k_oldest) {
    return too_old(toolchain.version.text());
  }
  if (backend == Backend::nvcc) {
    constexpr std::string_view k_host = "host compiler ";
    if (const std::size_t host = reply.log.find(k_host); host != std::string::npos) {
      const std::size_t stop = reply.log.find_first_of("\n\"\xE2'", host + k_host.size());
      toolchain.identity += "; " + reply.log.substr(host, stop - host);
    }
  }
  return toolchain;
}

std::string toolchain_to_text(const store::Toolchain& toolchain) {
  using core::json::Value;
  return core::json::to_text(core::json::Object{{"backend", Value(toolchain.backend)},
                                                {"identity", Value(toolchain.identity)},
                                                {"major", Value(toolchain.version.major)},
                                                {"minor", Value(toolchain.version.minor)}});
}

std::optional<store::Toolchain> toolchain_from_text(std::string_view text) {
  const auto document = core::json::parse(text);
  if (!document) {
    return std::nullopt;
  }
  const core::json::Node node(*document, "the toolchain");
  auto backend = node.text("backend");
  auto identity = node.text("identity");
  const auto major = node.integer("major", 0, 1000);
  const auto minor = node.integer("minor", 0, 1000);
  if (!backend || !identity || !major || !minor) {
    return std::nullopt;
  }
  return store::Toolchain{std::move(*backend),
                          {static_cast<int>(*major), static_cast<int>(*minor)},
                          std::move(*identity)};
}

}  // namespace cubinary::builder
