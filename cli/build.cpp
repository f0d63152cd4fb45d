// SPDX-License-Identifier: Apache-2.0
#include "builder/build.hpp"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <memory>

#include <sys/eventfd.h>
#include <unistd.h>

#include "cli/build_output.hpp"
#include "cli/command.hpp"
#include "core/base/file.hpp"
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
  std::string store;
  std::string server;
  double time_limit = 300;
  double memory_gib = 8;
  bool keep_going = false;
  bool json = false;
};

volatile std::sig_atomic_t g_stop_fd = -1;

void on_stop_signal(int) {
  const int saved = errno;
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(g_stop_fd, &one, sizeof one);
  errno = saved;
}

/// Turns SIGINT and SIGTERM into a readable file descriptor while it lives. A second signal ends
/// the program at once, as if nobody handled it.
class StopSignals {
 public:
  StopSignals() : m_event(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    g_stop_fd = m_event.get();
    struct sigaction action{};
    action.sa_handler = on_stop_signal;
    action.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);
    sigaction(SIGINT, &action, &m_interrupt);
    sigaction(SIGTERM, &action, &m_terminate);
  }
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;
  ~StopSignals() {
    sigaction(SIGINT, &m_interrupt, nullptr);
    sigaction(SIGTERM, &m_terminate, nullptr);
    g_stop_fd = -1;
  }
  [[nodiscard]] int descriptor() const { return m_event.get(); }

 private:
  core::UniqueFd m_event;
  struct sigaction m_interrupt{};
  struct sigaction m_terminate{};
};

Result<int> run(Options& options) {
  if (!options.server.empty()) {
    return fail(ErrorCode::unsupported,
                "building into a server is not possible yet: build into a file with --store and "
                "serve that");
  }
  if (options.store.empty()) {
    return fail(ErrorCode::usage, "which store? give --store FILE (it is made when missing)");
  }
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

  TRY_ASSIGN(store::Store store,
             store::Store::open(options.store, {store::Access::write, true, "cubinary build"}));
  const BuildStyle style = options.json                 ? BuildStyle::json
                           : isatty(STDOUT_FILENO) != 0 ? BuildStyle::terminal
                                                        : BuildStyle::plain;
  const StopSignals signals;
  build.stop = signals.descriptor();
  auto observer = make_build_observer(style);
  auto summary = builder::build(store, build, *observer);
  observer.reset();
  if (!summary) {
    return fail(std::move(summary).error());
  }
  if (style != BuildStyle::json && !summary->stopped) {
    TRY_ASSIGN(const std::string table, build_table(store, *summary));
    std::printf("\n%s", table.c_str());
  }
  std::printf("%s", summary_line(*summary, style).c_str());
  std::fflush(stdout);
  if (summary->stopped) {
    return fail(ErrorCode::cancelled, "stopped; " + std::to_string(summary->compiled) +
                                          " compiled and kept, run again to continue");
  }
  return summary->failed != 0 && !options.keep_going ? 1 : 0;
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
  app->add_option("DIR", options->folders, "Kernel folders, or folders of them")
      ->capture_default_str();
  app->add_option("--store", options->store, "The store; made when missing")->type_name("FILE");
  app->add_option("--server", options->server, "A server that owns the store")->type_name("URL");
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
  app->add_flag("--keep-going", options->keep_going, "Exit 0 although candidates failed");
  app->add_flag("--retry-failed", options->build.retry_failed,
                "Compile again what failed with the same inputs");
  app->add_flag("--explain", options->build.explain,
                "Say why each candidate is, or is not, compiled");
  app->add_flag("--json", options->json, "JSON lines, and a summary object last");
  app->callback([&cli, options] { cli.run = [options] { return run(*options); }; });
}

}  // namespace cubinary::cli
