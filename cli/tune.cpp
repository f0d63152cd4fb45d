// SPDX-License-Identifier: Apache-2.0
#include "builder/tune/tune.hpp"

#include <charconv>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <sstream>

#include <unistd.h>

#include "builder/tune/ledger.hpp"
#include "cli/command.hpp"
#include "cli/remote_candidates.hpp"
#include "cli/remote_ledger.hpp"
#include "cli/stop_signals.hpp"
#include "cli/store_choice.hpp"
#include "cli/table.hpp"
#include "cli/tune_output.hpp"
#include "core/base/file.hpp"
#include "core/base/temporary_folder.hpp"
#include "core/model/dtype.hpp"
#include "store/store.hpp"

namespace cubinary::cli {

using core::ErrorCode;
using core::fail;
using core::Result;

namespace {

constexpr std::uint64_t k_max_workload = 1U << 24U;
constexpr std::string_view k_target_word = "target=";

struct Options {
  builder::TuneOptions tune;
  builder::CompileAheadOptions compile;
  std::vector<std::string> folders;
  std::string toolkit;
  std::string worker;
  StoreChoice store;
  std::vector<std::string> shape;
  std::string workload;
  std::string budget = "10m";
  std::string seed_from;
  std::string strategy;
  double time_limit = 10;
  bool json = false;
};

/// `rows=64` goes to the shape, `T=bf16` to the types.
Result<void> add_assignment(const std::string& text, core::Shape& shape, core::Types& types) {
  const std::size_t equals = text.find('=');
  const std::string name = text.substr(0, equals);
  const std::string value = equals == std::string::npos ? "" : text.substr(equals + 1);
  std::int64_t number = 0;
  const auto [end, status] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (!name.empty() && !value.empty() && status == std::errc() &&
      end == value.data() + value.size() && number >= 0) {
    shape[name] = number;
    return {};
  }
  if (!name.empty() && core::find_dtype(value) != nullptr) {
    types[name] = value;
    return {};
  }
  return fail(ErrorCode::usage,
              "a shape is axis=number and type=dtype, as in "
              "rows=64,cols=4096,T=bf16; not '" +
                  text + "'");
}

/// Lines `KERNEL rows=64 cols=4096 T=bf16`, with `target=sm_90a` where one is meant; `#` begins a
/// comment.
Result<std::vector<builder::TuneWish>> read_workload(const std::string& file) {
  TRY_ASSIGN(const std::string text, core::read_text_file(file, k_max_workload));
  std::vector<builder::TuneWish> workload;
  std::istringstream lines(text);
  std::string line;
  for (std::size_t number = 1; std::getline(lines, line); ++number) {
    std::istringstream words(line.substr(0, line.find('#')));
    builder::TuneWish wish;
    if (!(words >> wish.kernel)) {
      continue;
    }
    for (std::string word; words >> word;) {
      if (word.starts_with(k_target_word)) {
        wish.target = word.substr(k_target_word.size());
      } else if (auto added = add_assignment(word, wish.shape, wish.types); !added) {
        return fail(added.error().with_context(file + ":" + std::to_string(number)));
      }
    }
    workload.push_back(std::move(wish));
  }
  if (workload.empty()) {
    return fail(ErrorCode::usage, file +
                                      " names nothing to tune; a line is `KERNEL axis=number "
                                      "type=dtype`");
  }
  return workload;
}

Result<std::unique_ptr<builder::CompileAhead>> make_compiler(const Options& options,
                                                             store::Store& store,
                                                             builder::CandidateServer* server) {
  builder::CompileAheadOptions compile = options.compile;
  compile.folders.assign(options.folders.begin(), options.folders.end());
  compile.kernels = options.tune.kernels;
  compile.toolkit = options.toolkit;
  compile.server = server;
  if (!options.tune.target.empty()) {
    TRY_ASSIGN(core::Target target, core::Target::parse(options.tune.target));
    compile.targets.push_back(target);
  }
  return builder::CompileAhead::make(store, std::move(compile));
}

/// Where a tune finds and puts what it knows, and what compiles for it.
struct Workplace {
  std::optional<core::TemporaryFolder> folder;  ///< of a store that only compiling goes through
  std::optional<store::Store> store;
  std::unique_ptr<builder::Ledger> ledger;
  std::unique_ptr<RemoteCandidates> server;
  std::unique_ptr<builder::CompileAhead> compile;
};

Result<std::unique_ptr<Workplace>> make_workplace(const Options& options) {
  auto made = std::make_unique<Workplace>();
  Workplace& place = *made;  // stays where it is: its parts know of one another
  const bool compiles = !options.folders.empty();
  if (compiles) {
    // A broken manifest must not leave a new, empty store behind.
    TRY(builder::load_manifests({options.folders.begin(), options.folders.end()},
                                options.tune.kernels));
  }
  std::filesystem::path file = options.store.file;
  if (options.store.remote()) {
    TRY_ASSIGN(Remote remote, Remote::open(options.store));
    place.ledger = make_remote_ledger(std::move(remote));
    if (!compiles) {
      return made;
    }
    TRY_ASSIGN(core::TemporaryFolder folder, core::TemporaryFolder::make({}, "cubinary-tune"));
    place.folder.emplace(std::move(folder));
    file = place.folder->path() / "staging.cubinary";
  }
  TRY_ASSIGN(place.store,
             store::Store::open(file, {store::Access::write, compiles, "cubinary tune"}));
  if (options.store.remote()) {
    TRY_ASSIGN(Remote remote, Remote::open(options.store));
    place.server = std::make_unique<RemoteCandidates>(std::move(remote), *place.store);
  } else {
    TRY_ASSIGN(place.ledger, builder::make_store_ledger(*place.store));
  }
  if (compiles) {
    TRY_ASSIGN(place.compile, make_compiler(options, *place.store, place.server.get()));
  }
  return made;
}

Result<int> run(Options& options) {
  builder::TuneOptions& tune = options.tune;
  for (const std::string& assignment : options.shape) {
    TRY(add_assignment(assignment, tune.shape, tune.types));
  }
  if (!options.workload.empty()) {
    TRY_ASSIGN(tune.workload, read_workload(options.workload));
  }
  TRY_ASSIGN(const std::int64_t seconds, parse_duration(options.budget));
  tune.budget = std::chrono::seconds(seconds);
  tune.time_limit = std::chrono::milliseconds(static_cast<std::int64_t>(options.time_limit * 1000));
  if (!options.seed_from.empty()) {
    TRY_ASSIGN(tune.seed_from, core::DeviceClass::parse(options.seed_from));
  }
  if (!options.strategy.empty()) {
    TRY_ASSIGN(tune.strategy, builder::parse_strategy(options.strategy));
  }
  if (!options.worker.empty()) {
    tune.worker.command = {options.worker};
  }
  const StopSignals signals;
  tune.worker.stop = signals.descriptor();
  options.store.stop = signals.descriptor();
  TRY_ASSIGN(std::unique_ptr<Workplace> place, make_workplace(options));
  tune.compile = place->compile.get();

  const TuneStyle style = options.json                 ? TuneStyle::json
                          : isatty(STDOUT_FILENO) != 0 ? TuneStyle::terminal
                                                       : TuneStyle::plain;
  auto observer = make_tune_observer(style);
  const auto summary = builder::tune(*place->ledger, tune, *observer);
  observer.reset();
  place->compile.reset();
  if (!summary) {
    return fail(summary.error());
  }
  std::printf("%s", tune_summary_line(*summary, style).c_str());
  std::fflush(stdout);
  if (summary->stopped) {
    return fail(ErrorCode::cancelled, "stopped; " + std::to_string(summary->measured) +
                                          " measured and kept, run again to continue");
  }
  return summary->failed != 0 ? 1 : 0;
}

}  // namespace

void add_tune(Cli& cli) {
  auto options = std::make_shared<Options>();
  CLI::App* app = cli.app.add_subcommand(
      "tune", "Measure candidates on this machine's GPU and choose the winners");
  app->footer(
      "Example: cubinary tune --store kernels.cubinary --kernel 'rms*' --budget 5m\n"
      "         cubinary tune kernels/gemm_nt --store kernels.cubinary --shape m=4096\n"
      "         cubinary tune --server https://build.example:8421 --token-file tune.token\n"
      "Every candidate is checked against the manifest's reference in a process of its own before\n"
      "it is timed. What was measured stays when you stop it; run again to continue. With "
      "folders,\n"
      "what the search asks for is compiled while other candidates are measured.\n"
      "Exit status: 0 every job has a winner or the budget ended, 1 some have none right, 2 used\n"
      "wrongly, 3 no usable GPU.");
  app->add_option("DIR", options->folders,
                  "Kernel folders, or folders of them, to compile from as the search goes on "
                  "(default: tune what `cubinary build` compiled)");
  add_store_options(*app, options->store,
                    "The store, built for this GPU; made when there are DIRs");
  app->add_option("--kernel", options->tune.kernels, "Only kernels whose name matches")
      ->type_name("GLOB");
  app->add_option("--target", options->tune.target, "Only this target (default: all that run here)")
      ->type_name("sm_XX");
  app->add_option("--shape", options->shape,
                  "Only, or in place of the manifest's: axes, and types by dtype")
      ->delimiter(',')
      ->type_name("k=v");
  app->add_option("--workload", options->workload,
                  "Only the jobs of this file, in its order: lines KERNEL k=v k=v")
      ->type_name("FILE");
  app->add_option("--budget", options->budget, "Time for all jobs together")
      ->type_name("10m")
      ->capture_default_str();
  app->add_option("--device", options->tune.worker.device, "Which GPU, as the driver numbers them")
      ->check(CLI::NonNegativeNumber);
  app->add_option("--seed-from", options->seed_from,
                  "Begin with what this device class found (default: all that is known)")
      ->type_name("CLASS");
  app->add_option("--search", options->strategy,
                  "model, exhaustive, random or local-search (default: by the size of the space)")
      ->type_name("NAME");
  app->add_option("--seed", options->tune.seed, "Of the search's and the inputs' random numbers");
  app->add_option("--time-limit", options->time_limit, "Seconds a candidate's check may take")
      ->capture_default_str()
      ->check(CLI::Range(0.1, 3600.0));
  app->add_option("--toolkit", options->toolkit, "The CUDA toolkit to compile with")
      ->type_name("DIR");
  app->add_option("--jobs,-j", options->compile.jobs,
                  "Compiling processes beside the measuring (default: one a core)")
      ->check(CLI::Range(1U, 1024U));
  // For rehearsals and tests: a program that answers like `cubinary tune-worker`.
  app->add_option("--measure-with", options->worker, "")->group("");
  app->add_flag("--again", options->tune.again, "Also jobs that have a winner, from the beginning");
  app->add_flag("--json", options->json, "JSON lines, and a summary object last");
  app->callback([&cli, options] { cli.run = [options] { return run(*options); }; });
}

}  // namespace cubinary::cli
