// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include <unistd.h>

#include "cli/child.hpp"
#include "cli/python_folder.hpp"
#include "cli/store_choice.hpp"
#include "cli/triton.hpp"
#include "cli/triton_place.hpp"
#include "core/base/temporary_folder.hpp"
#include "core/model/device_class.hpp"

namespace cubinary::cli {
namespace {

namespace fs = std::filesystem;
using core::ErrorCode;
using core::fail;
using core::Result;

struct Options {
  StoreChoice choice;
  std::string from;
  std::string folder;
  std::string python_abi;
  std::string device_class;
  std::vector<std::string> command;
  bool json = false;
};

Result<int> take_from(const Options& options, const TritonPlace& place) {
  TRY_ASSIGN(const auto stored,
             place.take(options.from, {options.python_abi, options.device_class}));
  if (options.json) {
    std::printf("%s\n", ingest_json(stored, 0).c_str());
  } else {
    std::fputs(ingest_table(stored).c_str(), stdout);
  }
  const bool nothing =
      stored.kernels.all() + stored.host.all() + stored.autotune.all() + stored.records.all() == 0;
  if (nothing && !options.json) {
    std::fprintf(stderr, "nothing to store in %s\n", options.from.c_str());
  }
  return nothing ? 1 : 0;
}

Result<int> run_and_take(const Options& options, const TritonPlace& place) {
  TRY_ASSIGN(const fs::path python, python_folder());
  // Whatever hinders storing is to be known before hours of running.
  TRY(place.check());
  TRY_ASSIGN(core::TemporaryFolder folder,
             core::TemporaryFolder::make(options.folder, "cubinary-capture-"));
  TRY_ASSIGN(const int status,
             run_child(options.command, {{"TRITON_CACHE_MANAGER", "cubinary.triton:CaptureManager"},
                                         {"CUBINARY_TRITON_CAPTURE", folder.path().string()},
                                         {"PYTHONPATH", python_path(python)}}));
  const auto stored = place.take(folder.path(), {options.python_abi, options.device_class});
  if (!stored) {
    folder.keep();
    return fail(stored.error().with_context(
        "the program ended with status " + std::to_string(status) + "; what it captured is in " +
        folder.path().string() + " (`cubinary triton capture --from` stores it)"));
  }
  if (options.json) {
    std::printf("%s\n", ingest_json(*stored, status).c_str());
  } else {
    // Standard output is the program's.
    std::fprintf(stderr, "\n%s", ingest_table(*stored).c_str());
    if (stored->kernels.all() == 0) {
      std::fprintf(stderr,
                   "no kernel was captured: did the program run Triton, with a Python that honours "
                   "PYTHONPATH?\n");
    }
    if (status != 0) {
      std::fprintf(stderr, "the program ended with status %d; what was complete is stored\n",
                   status);
    }
  }
  return status;
}

Result<int> capture(const Options& options) {
  if (options.from.empty() == options.command.empty()) {
    return fail(ErrorCode::usage,
                "say either what to run (`-- python train.py`) or what to take (--from DIR)");
  }
  if (!options.device_class.empty()) {
    TRY(core::DeviceClass::parse(options.device_class));
  }
  const TritonPlace place(options.choice, "cubinary triton capture");
  return options.from.empty() ? run_and_take(options, place) : take_from(options, place);
}

}  // namespace

void add_triton_capture(Cli& cli, CLI::App& triton) {
  const auto options = std::make_shared<Options>();
  CLI::App* app = triton.add_subcommand(
      "capture", "Run a program and store every kernel, host module and tuned config of Triton");
  add_store_options(*app, options->choice, "store file; made when it is missing");
  app->add_option("--from", options->from,
                  "take an existing Triton cache or capture folder instead of running a program");
  app->add_option("--folder", options->folder,
                  "capture into this folder, and keep it (default: a temporary one)");
  app->add_option("--python-abi", options->python_abi,
                  "with --from: the Python the cache is for (cp312), when it does not say so");
  app->add_option("--device-class", options->device_class,
                  "with --from: the GPU the cache's autotune results were measured on");
  app->add_flag("--json", options->json, "print one JSON object at the end");
  app->add_option("COMMAND", options->command, "the program and its arguments, after --");
  app->footer(
      "Example:\n"
      "  cubinary triton capture --store kernels.db -- python train.py --steps 10\n"
      "  cubinary triton capture --store kernels.db --from ~/.triton/cache --python-abi cp312\n"
      "  cubinary triton capture --server https://kernels.example.com -- python train.py\n"
      "The program's exit status is passed on; what was complete is stored even if it failed.");
  app->callback([&cli, options] { cli.run = [options] { return capture(*options); }; });
}

}  // namespace cubinary::cli
