// SPDX-License-Identifier: Apache-2.0
#include "builder/build.hpp"

#include <cstdio>
#include <memory>
#include <utility>

#include <unistd.h>

#include "cli/build_output.hpp"
#include "cli/build_remote.hpp"
#include "cli/command.hpp"
#include "cli/stop_signals.hpp"
#include "cli/store_choice.hpp"
#include "core/base/file.hpp"
#include "core/base/temporary_folder.hpp"
#include "store/store.hpp"

namespace cubinary::cli {

using core::ErrorCode;
using core::fail;
using core::Result;

namespace {

struct Options {
  builder::BuildOptions build;
  std::vector<std::string> folders{"kernels"};
  std::vector<std::string> targets;
  std::string toolkit;
  StoreChoice choice;
  double time_limit = 300;
  double memory_gib = 8;
  bool keep_going = false;
  bool json = false;
};

/// What a finished or stopped build says last, and its exit status.
Result<int> conclude(const builder::BuildSummary& summary, const Options& options,
                     BuildStyle style) {
  std::printf("%s", summary_line(summary, style).c_str());
  std::fflush(stdout);
  if (summary.stopped) {
    return fail(ErrorCode::cancelled, "stopped; " + std::to_string(summary.compiled) +
                                          " compiled and kept, run again to continue");
  }
  // Going on is for some configs that do not compile, not for a kernel nobody could ship.
  for (const auto& [kernel, target] : summary.hopeless) {
    std::fprintf(stderr,
                 "cubinary: %s for %s: every config failed; nothing of it can be released\n",
                 kernel.c_str(), target.c_str());
  }
  return (summary.failed != 0 && !options.keep_going) || !summary.hopeless.empty() ? 1 : 0;
}

/// Compiles into a store of this run alone and sends what comes of it.
Result<int> build_remotely(Options& options, BuildStyle style,
                           std::unique_ptr<builder::BuildObserver> observer) {
  TRY_ASSIGN(const core::TemporaryFolder folder, core::TemporaryFolder::make({}, "cubinary-build"));
  TRY_ASSIGN(store::Store staging,
             store::Store::open(folder.path() / "staging.cubinary",
                                {store::Access::write, true, "cubinary build --server"}));
  TRY_ASSIGN(Remote remote, Remote::open(options.choice));
  RemoteBuild sender(remote, staging, *observer, options.build.stop);
  options.build.elsewhere = sender.ask();
  TRY_ASSIGN(const auto summary, builder::build(staging, options.build, sender));
  observer.reset();  // takes its progress bar away
  TRY(sender.finish(summary));
  return conclude(summary, options, style);
}

Result<int> build_here(Options& options, BuildStyle style,
                       std::unique_ptr<builder::BuildObserver> observer) {
  TRY_ASSIGN(store::Store store, store::Store::open(options.choice.file, {store::Access::write,
                                                                          true, "cubinary build"}));
  TRY_ASSIGN(const auto summary, builder::build(store, options.build, *observer));
  observer.reset();
  if (style != BuildStyle::json && !summary.stopped) {
    TRY_ASSIGN(const std::string table, build_table(store, summary));
    std::printf("\n%s", table.c_str());
  }
  return conclude(summary, options, style);
}

Result<int> run(Options& options) {
  builder::BuildOptions& build = options.build;
  build.folders.assign(options.folders.begin(), options.folders.end());
  for (const std::string& name : options.targets) {
    TRY_ASSIGN(core::Target target, core::Target::parse(name));
    build.targets.push_back(target);
  }
  build.toolkit = options.toolkit;
  build.time_limit =
      std::chrono::milliseconds(static_cast<std::int64_t>(options.time_limit * 1000));
  build.worker.memory_limit = static_cast<std::uint64_t>(options.memory_gib * (1ULL << 30U));
  // A broken manifest must not leave a new, empty store behind.
  TRY(builder::load_manifests(build.folders, build.kernels));

  const BuildStyle style = options.json                 ? BuildStyle::json
                           : isatty(STDOUT_FILENO) != 0 ? BuildStyle::terminal
                                                        : BuildStyle::plain;
  const StopSignals signals;
  build.stop = signals.descriptor();
  auto observer = make_build_observer(style);
  return options.choice.remote() ? build_remotely(options, style, std::move(observer))
                                 : build_here(options, style, std::move(observer));
}

}  // namespace

void add_build(Cli& cli) {
  auto options = std::make_shared<Options>();
  CLI::App* app = cli.app.add_subcommand(
      "build", "Compile the kernels of manifests into a store, whatever changed");
  app->footer(
      "Example: cubinary build kernels --store kernels.cubinary --target sm_90,sm_120\n"
      "Exit status: 0 all candidates are usable, 1 some are not, 2 used wrongly or a manifest is\n"
      "broken, 3 no compiler. A failed candidate is tried again when its inputs change.");
  app->add_option("DIR", options->folders, "Kernel folders, their kernel.toml, or folders of them")
      ->capture_default_str();
  add_store_options(*app, options->choice, "the store; made when missing");
  app->add_option("--target", options->targets, "Targets, in place of each manifest's own")
      ->delimiter(',')
      ->type_name("sm_XX");
  app->add_option("--kernel", options->build.kernels, "Only kernels whose name matches")
      ->type_name("GLOB");
  app->add_option("--jobs,-j", options->build.jobs, "Worker processes (default: one a core)")
      ->check(CLI::Range(1U, 1024U));
  app->add_option("--toolkit", options->toolkit, "The CUDA toolkit to compile with")
      ->type_name("DIR");
  app->add_option("--time-limit", options->time_limit, "Seconds a candidate may take")
      ->capture_default_str()
      ->check(CLI::Range(0.001, 86400.0));
  app->add_option("--memory-limit", options->memory_gib, "GiB a compiler process may take")
      ->capture_default_str()
      ->check(CLI::Range(0.25, 4096.0));
  app->add_flag("--keep-going", options->keep_going,
                "Exit 0 although candidates failed, as long as every kernel has one that did not");
  app->add_flag("--retry-failed", options->build.retry_failed,
                "Compile again what failed with the same inputs");
  app->add_flag("--explain", options->build.explain,
                "Say why each candidate is, or is not, compiled");
  app->add_flag("--json", options->json, "JSON lines, and a summary object last");
  app->callback([&cli, options] { cli.run = [options] { return run(*options); }; });
}

}  // namespace cubinary::cli
