// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "cli/child.hpp"
#include "cli/python_folder.hpp"
#include "cli/store_choice.hpp"
#include "cli/triton.hpp"
#include "cli/triton_place.hpp"
#include "core/base/file.hpp"
#include "core/base/temporary_folder.hpp"
#include "core/model/target.hpp"

namespace cubinary::cli {
namespace {

namespace fs = std::filesystem;
using core::ErrorCode;
using core::fail;
using core::Result;

struct Options {
  StoreChoice choice;
  std::vector<std::string> records;
  std::vector<std::string> targets;
  std::string device_class;
  std::string python;
  std::vector<std::string> program;
  bool json = false;
};

/// The records to build from: the files named, else all the store holds, written to `folder`.
Result<std::vector<std::string>> records_of(const Options& options, const TritonPlace& place,
                                            const fs::path& folder) {
  if (!options.records.empty() || !options.program.empty()) {
    return options.records;
  }
  TRY_ASSIGN(const auto records, place.records());
  if (records.empty()) {
    return fail(ErrorCode::not_found,
                place.name() +
                    " holds no record of a Triton program: name one (--from-record FILE), or run "
                    "`cubinary triton capture` first");
  }
  std::string text;
  for (const std::string& record : records) {
    text += record + "\n";
  }
  const fs::path file = folder / "records.jsonl";
  TRY(core::write_file_atomic(file, core::as_bytes(text)));
  return std::vector<std::string>{file.string()};
}

Result<int> build_target(const Options& options, const std::string& target,
                         const std::vector<std::string>& records, const fs::path& python,
                         const fs::path& out) {
  std::vector<std::string> command{python_program(options.python),
                                   "-m",
                                   "cubinary.triton.build",
                                   "--target",
                                   target,
                                   "--out",
                                   out.string()};
  for (const std::string& record : records) {
    command.insert(command.end(), {"--record", record});
  }
  if (!options.device_class.empty()) {
    command.insert(command.end(), {"--device-class", options.device_class});
  }
  if (!options.program.empty()) {
    command.emplace_back("--");
    command.insert(command.end(), options.program.begin(), options.program.end());
  }
  return run_child(command, {{"PYTHONPATH", python_path(python)}});
}

Result<int> build(const Options& options) {
  std::vector<std::string> targets;
  for (const std::string& text : options.targets) {
    TRY_ASSIGN(const core::Target target, core::Target::parse(text));
    // Triton takes the device's number and chooses the suffix.
    targets.push_back("sm_" + std::to_string(target.cc()));
  }
  TRY_ASSIGN(const fs::path python, python_folder());
  const TritonPlace place(options.choice, "cubinary triton build");
  TRY(place.check());
  TRY_ASSIGN(core::TemporaryFolder folder,
             core::TemporaryFolder::make({}, "cubinary-triton-build-"));
  TRY_ASSIGN(const auto records, records_of(options, place, folder.path()));
  builder::TritonIngest all;
  int worst = 0;
  for (const std::string& target : targets) {
    const fs::path out = folder.path() / target;
    std::error_code made;
    fs::create_directories(out, made);
    TRY_ASSIGN(const int status, build_target(options, target, records, python, out));
    if (status > 1) {
      return fail(status == 3 ? ErrorCode::environment : ErrorCode::compile_failed,
                  "building for " + target + " failed with status " + std::to_string(status) +
                      "; what " + python_program(options.python) + " said stands above");
    }
    worst = std::max(worst, status);
    TRY_ASSIGN(const auto stored, place.take(out, {}));
    builder::add(all, stored);
  }
  if (options.json) {
    std::printf("%s\n", ingest_json(all, worst).c_str());
  } else {
    std::fputs(ingest_table(all).c_str(), stdout);
    if (worst != 0) {
      std::fflush(stdout);
      std::fprintf(stderr, "some of it could not be built: it is listed above\n");
    }
  }
  return worst;
}

}  // namespace

void add_triton_build(Cli& cli, CLI::App& triton) {
  const auto options = std::make_shared<Options>();
  CLI::App* app = triton.add_subcommand(
      "build", "Compile recorded specialisations for other targets; needs Triton but no GPU");
  add_store_options(*app, options->choice, "store file; made when it is missing");
  app->add_option("--from-record", options->records,
                  "records to build, files or their folder (default: those in the store)")
      ->allow_extra_args(false);
  app->add_option("--target", options->targets, "targets (sm_90,sm_120)")
      ->required()
      ->delimiter(',')
      ->allow_extra_args(false);
  app->add_option("--device-class", options->device_class,
                  "the GPU programs are told of, for kernels that depend on its facts");
  app->add_option("--python", options->python,
                  "the container's Python, which has its Triton (default: "
                  "CUBINARY_PYTHON_PROGRAM, python3)");
  app->add_flag("--json", options->json, "print one JSON object at the end");
  app->add_option(
      "PROGRAM", options->program,
      "after --: the program itself, run without a GPU, where it makes kernels by itself");
  app->footer(
      "Example:\n"
      "  cubinary triton build --store kernels.db --target sm_120 --python /venv/bin/python\n"
      "Exit status 1: some specialisations could not be built; they are listed, the others are "
      "stored.");
  app->callback([&cli, options] { cli.run = [options] { return build(*options); }; });
}

}  // namespace cubinary::cli
