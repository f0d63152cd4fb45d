// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>

#include "cli/command.hpp"
#include "cli/doctor_checks.hpp"
#include "core/base/json.hpp"

namespace cubinary::cli {
namespace {

namespace json = core::json;
using core::Result;
using State = Finding::State;

struct Arguments {
  SourceArguments source;
  std::string cache;
  bool triton = false;
  bool json = false;
};

const char* state_name(State state) {
  switch (state) {
    case State::ok:
      return "ok";
    case State::note:
      return "note";
    case State::unneeded:
      return "unneeded";
    case State::lacking:
      return "lacking";
  }
  return "";
}

void print(const Findings& findings) {
  std::string area;
  for (const Finding& finding : findings) {
    if (finding.area != area) {
      std::printf("%s%s\n", area.empty() ? "" : "\n", finding.area.c_str());
      area = finding.area;
    }
    std::printf("  %-8s  %s: %s\n", state_name(finding.state), finding.what.c_str(),
                finding.found.c_str());
    if (!finding.remedy.empty()) {
      std::printf("            -> %s\n", finding.remedy.c_str());
    }
  }
}

Result<int> run_doctor(const Arguments& arguments) {
  Findings findings;
  const Machine machine = check_driver_and_devices(findings);
  check_cache(arguments.cache, findings);
  std::unique_ptr<client::Release> release;
  if (!arguments.source.source.empty()) {
    check_keys(arguments.source.keys, findings);
    release = check_source(arguments.source, machine, findings);
  }
  if (arguments.triton) {
    check_triton(release.get(), machine, findings);
  }
  const auto lacking = std::ranges::count(findings, State::lacking, &Finding::state);
  if (arguments.json) {
    json::Array list;
    for (const Finding& finding : findings) {
      list.emplace_back(json::Object{{"area", finding.area},
                                     {"what", finding.what},
                                     {"state", state_name(finding.state)},
                                     {"found", finding.found},
                                     {"remedy", finding.remedy}});
    }
    std::printf(
        "%s\n",
        json::to_text(json::Object{{"lacking", lacking}, {"findings", std::move(list)}}).c_str());
  } else {
    print(findings);
    std::printf("\n%s\n", lacking == 0 ? "nothing is lacking"
                                       : (std::to_string(lacking) +
                                          (lacking == 1 ? " thing is" : " things are") + " lacking")
                                             .c_str());
  }
  return lacking == 0 ? 0 : 3;
}

}  // namespace

void add_doctor(Cli& cli) {
  CLI::App* app = cli.app.add_subcommand(
      "doctor", "List everything that would stop this machine from running a release's kernels");
  const auto arguments = std::make_shared<Arguments>();
  app->add_option("--source", arguments->source.source, "a release this machine should run")
      ->envname("CUBINARY_SOURCE");
  arguments->source.timeout_seconds = 20;
  describe_trust(*app, arguments->source);
  app->add_option("--cache", arguments->cache, "cache folder");
  app->add_flag(
      "--triton", arguments->triton,
      "also what an unmodified Triton program needs, and what a release makes unnecessary");
  app->add_flag("--json", arguments->json, "print one JSON object");
  app->footer(
      "Example:\n  cubinary doctor --triton --source https://kernels.example.com:prod --key "
      "release.pub\n"
      "Exit status: 0 nothing is lacking, 3 something is.");
  app->callback([&cli, arguments] { cli.run = [arguments] { return run_doctor(*arguments); }; });
}

}  // namespace cubinary::cli
