// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "builder/release/resources.hpp"
#include "cli/answer.hpp"
#include "cli/audit_tables.hpp"
#include "cli/command.hpp"
#include "cli/verb.hpp"
#include "store/audit/answer.hpp"
#include "store/store.hpp"

namespace cubinary::cli {
namespace {

namespace json = core::json;
using core::Result;

struct Options : VerbOptions {
  std::map<std::string, std::string> parameters;  ///< of the query
  bool csv = false;
  bool jobs = false;
  bool check = false;
};

Result<json::Value> ask(const Options& options, const std::string& query) {
  std::map<std::string, std::string> given = options.parameters;
  std::erase_if(given, [](const auto& parameter) { return parameter.second.empty(); });
  if (options.choice.remote()) {
    TRY_ASSIGN(Remote remote, Remote::open(options.choice));
    return remote.get("/api/v1/audit/" + query, Remote::Query(given.begin(), given.end()));
  }
  TRY_ASSIGN(const store::Store store, store::Store::open(options.choice.file, {}));
  TRY_ASSIGN(const store::Reader reader, store.reader());
  return builder::audit(reader, query, given);
}

/// Prints one query's answer; `print` is its tables, `fine` what --check asks.
Result<int> answer(const Options& options, const char* query,
                   std::string (*print)(const json::Value&, bool all_jobs),
                   bool (*fine)(const json::Value&)) {
  TRY_ASSIGN(const json::Value value, ask(options, query));
  if (options.json) {
    print_json(value);
  } else if (options.csv) {
    std::fputs(store::audit_csv(value).c_str(), stdout);
  } else {
    std::fputs(print(value, options.jobs).c_str(), stdout);
  }
  return options.check && !fine(value) ? 1 : 0;
}

Result<int> winners(const Options& options) {
  return answer(options, "winners", winners_text,
                [](const json::Value& value) { return !array_at(value, "winners").empty(); });
}

Result<int> compare(const Options& options) {
  return answer(options, "compare", compare_text, [](const json::Value& value) {
    for (const json::Value& kernel : array_at(value, "kernels")) {
      if (flag_at(kernel, "needs_tuning")) {
        return false;
      }
    }
    return true;
  });
}

Result<int> coverage(const Options& options) {
  return answer(options, "coverage", coverage_text, [](const json::Value& value) {
    for (const json::Value& kernel : array_at(value, "kernels")) {
      if (integer_at(kernel, "tuned") + integer_at(kernel, "budget") !=
          integer_at(kernel, "jobs")) {
        return false;
      }
    }
    return true;
  });
}

Result<int> stale(const Options& options) {
  return answer(options, "stale", stale_text,
                [](const json::Value& value) { return array_at(value, "stale").empty(); });
}

Result<int> resources(const Options& options) {
  return answer(options, "resources", resources_text, [](const json::Value& value) {
    for (const json::Value& row : array_at(value, "resources")) {
      if (integer_at(row, "spill_bytes") != 0) {
        return false;
      }
    }
    return array_at(value, "unserved").empty();
  });
}

CLI::App* add_query(Cli& cli, CLI::App& audit, const std::shared_ptr<Options>& options,
                    const char* name, const char* help, const char* check,
                    Result<int> (*verb)(const Options&)) {
  CLI::App* app = add_verb(cli, audit, options, name, help, verb);
  app->add_flag("--csv", options->csv, "print CSV")->excludes("--json");
  app->add_flag("--check", options->check, check);
  app->add_option("--kernel", options->parameters["kernel"],
                  "only kernels whose name matches this glob")
      ->type_name("GLOB");
  app->add_option("--target", options->parameters["target"], "only this target")
      ->type_name("TARGET");
  return app;
}

void add_device(CLI::App& app, Options& options) {
  app.add_option("--device-class", options.parameters["device_class"],
                 "only this device class: its text, or a part of it or of the product's name")
      ->type_name("CLASS");
}

}  // namespace

void add_audit(Cli& cli) {
  CLI::App* app = cli.app.add_subcommand(
      "audit", "Ask which config won where and how surely, and what is untuned or out of date");
  app->require_subcommand(1);
  app->footer(
      "Examples:\n"
      "  cubinary audit winners --store kernels.db --kernel 'gemm*'\n"
      "  cubinary audit compare H100 H200 --store kernels.db\n"
      "  cubinary audit coverage --server http://127.0.0.1:8421 --csv > coverage.csv\n"
      "  cubinary audit stale --store kernels.db --driver 580.95.05 --check\n"
      "  cubinary audit resources --store kernels.db --device-class sm120-s188-l128M-b512-m96G");

  const auto one = std::make_shared<Options>();
  add_device(*add_query(cli, *app, one, "winners",
                        "The chosen config of every kernel, types and shape on every device class",
                        "exit 1 when there is none", winners),
             *one);

  const auto two = std::make_shared<Options>();
  CLI::App* both =
      add_query(cli, *app, two, "compare", "What device class B loses by using the winners of A",
                "exit 1 when a kernel needs its own tuning on B", compare);
  both->add_option("A", two->parameters["a"], "the class whose winners are taken")->required();
  both->add_option("B", two->parameters["b"], "the class they are used on")->required();
  both->add_flag("--jobs", two->jobs, "also what is alike: every types and shape");

  const auto three = std::make_shared<Options>();
  CLI::App* covered =
      add_query(cli, *app, three, "coverage",
                "What a client would be served for every shape the manifests say to tune",
                "exit 1 unless everything is tuned", coverage);
  add_device(*covered, *three);
  covered->add_flag("--jobs", three->jobs, "list every types and shape that is not tuned");

  const auto four = std::make_shared<Options>();
  CLI::App* old =
      add_query(cli, *app, four, "stale",
                "Winners measured with another driver, toolkit or source than is current now",
                "exit 1 when there are any", stale);
  add_device(*old, *four);
  old->add_option("--driver", four->parameters["driver"],
                  "the driver in use now (default: the newest each class was measured with)")
      ->type_name("VERSION");

  const auto five = std::make_shared<Options>();
  CLI::App* taken =
      add_query(cli, *app, five, "resources",
                "Registers, spills, shared memory and occupancy of what a release would serve",
                "exit 1 when something spills or a shape to tune is not served", resources);
  taken
      ->add_option("--device-class", five->parameters["device_class"],
                   "a device class, also one nobody has measured on (default: all the store knows)")
      ->type_name("CLASS");
}

}  // namespace cubinary::cli
