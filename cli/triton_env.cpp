// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "cli/hydrate.hpp"
#include "cli/python_folder.hpp"
#include "cli/triton.hpp"
#include "client/triton_folder.hpp"
#include "core/base/digest.hpp"
#include "core/base/file.hpp"
#include "core/base/json.hpp"

namespace cubinary::cli {
namespace {

namespace fs = std::filesystem;
namespace json = core::json;
using core::ErrorCode;
using core::fail;
using core::Result;

constexpr std::uint64_t k_max_index = 512U << 20U;

struct Options {
  std::string cache;
  std::string python;
  std::string libcuda;
  bool lenient = false;
  bool docker = false;
  bool json = false;
};

/// The first usual place with a libcuda.so.1; empty when there is none.
std::string find_libcuda() {
  std::vector<std::string> places;
  if (const char* path = std::getenv("LD_LIBRARY_PATH"); path != nullptr) {
    std::string_view rest(path);
    while (!rest.empty()) {
      const std::size_t colon = rest.find(':');
      places.emplace_back(rest.substr(0, colon));
      rest.remove_prefix(colon == std::string_view::npos ? rest.size() : colon + 1);
    }
  }
  for (const char* place :
       {"/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib",
        "/usr/local/nvidia/lib64", "/run/opengl-driver/lib", "/usr/lib/wsl/lib"}) {
    places.emplace_back(place);
  }
  for (const std::string& place : places) {
    std::error_code error;
    if (!place.empty() && fs::exists(fs::path(place) / "libcuda.so.1", error)) {
      return place;
    }
  }
  return {};
}

/// Text for a POSIX shell, whatever it holds.
std::string quoted(const std::string& text) {
  std::string result = "'";
  for (const char c : text) {
    result += c == '\'' ? "'\\''" : std::string(1, c);
  }
  return result + "'";
}

Result<int> env(const Options& options) {
  const fs::path cache =
      client::cache_path(options.cache.empty() ? triton_cache_folder() : fs::path(options.cache));
  if (cache.empty()) {
    return fail(ErrorCode::usage, "no cache folder: give --cache DIR, or set TRITON_CACHE_DIR");
  }
  fs::path python = options.python;
  if (python.empty()) {
    TRY_ASSIGN(python, python_folder());
  }
  std::vector<std::pair<std::string, std::string>> variables{
      {"TRITON_CACHE_DIR", cache.string()},
      {"TRITON_CACHE_MANAGER", "cubinary.triton:CacheManager"},
      {"CUBINARY_TRITON_CACHE", cache.string()},
  };
  if (!options.lenient) {
    variables.emplace_back("CUBINARY_TRITON_STRICT", "1");
  }
  std::string note;
  if (const auto index = core::read_file(cache / client::k_triton_index_file, k_max_index)) {
    variables.emplace_back("CUBINARY_TRITON_INDEX", core::sha256(*index).hex());
  } else {
    note = cache.string() +
           " is not hydrated here: CUBINARY_TRITON_INDEX, which pins its content, is left out";
  }
  const std::string libcuda = options.libcuda.empty() ? find_libcuda() : options.libcuda;
  if (!libcuda.empty()) {
    variables.emplace_back("TRITON_LIBCUDA_PATH", libcuda);
  }
  const std::string path =
      (python / "cubinary" / "triton" / "site").string() + ":" + python.string();

  if (options.json) {
    json::Object object{{"PYTHONPATH", path}};
    for (const auto& [name, value] : variables) {
      object.emplace(name, value);
    }
    std::printf("%s\n", json::to_text(object).c_str());
  } else {
    const char* form = options.docker ? "ENV %s=%s\n" : "export %s=%s\n";
    for (const auto& [name, value] : variables) {
      std::printf(form, name.c_str(), quoted(value).c_str());
    }
    // What the variable holds when it is used must stay.
    if (options.docker) {
      std::printf("ENV PYTHONPATH=%s\n", quoted(path).c_str());
    } else {
      std::printf("export PYTHONPATH=%s\"${PYTHONPATH:+:$PYTHONPATH}\"\n", quoted(path).c_str());
    }
  }
  if (!note.empty()) {
    std::fflush(stdout);
    std::fprintf(stderr, "note: %s\n", note.c_str());
  }
  return 0;
}

}  // namespace

void add_triton_env(Cli& cli, CLI::App& triton) {
  const auto options = std::make_shared<Options>();
  CLI::App* app =
      triton.add_subcommand("env", "Print what to export so that programs use a hydrated cache");
  app->add_option("--cache", options->cache,
                  "the cache as the program will see it (default: TRITON_CACHE_DIR)");
  app->add_option("--python-folder", options->python,
                  "where the program finds the cubinary package (default: this installation's)");
  app->add_option("--libcuda", options->libcuda,
                  "folder with libcuda.so.1 (default: the usual places)");
  app->add_flag("--lenient", options->lenient,
                "let Triton compile what the release lacks, instead of failing at once");
  CLI::Option* docker = app->add_flag("--docker", options->docker, "as lines of a Dockerfile");
  app->add_flag("--json", options->json, "print one JSON object")->excludes(docker);
  app->footer(
      "Example:\n"
      "  eval \"$(cubinary triton env --cache /opt/triton-cache)\"\n"
      "  cubinary triton env --cache /opt/triton-cache --python-folder /opt/cubinary/python "
      "--docker >> Dockerfile");
  app->callback([&cli, options] { cli.run = [options] { return env(*options); }; });
}

}  // namespace cubinary::cli
