// SPDX-License-Identifier: Apache-2.0
#include "builder/expand/expand.hpp"

#include <cstdio>
#include <memory>

#include "builder/plan.hpp"
#include "cli/command.hpp"
#include "core/base/json.hpp"

namespace cubinary::cli {

using builder::SpaceCount;
using core::ErrorCode;
using core::fail;
using core::Result;
using core::json::Array;
using core::json::Object;
using core::json::Value;

namespace {

struct Options {
  std::vector<std::string> folders{"kernels"};
  std::vector<std::string> targets;
  std::string kernels;
  bool count = false;
  bool json = false;
};

void print_count(const std::string& kernel, const std::string& target, const SpaceCount& count) {
  std::printf("%s for %s: %s combinations, %s valid configs, %s candidates\n", kernel.c_str(),
              target.c_str(), count.raw.text().c_str(), count.configs.text().c_str(),
              count.candidates.text().c_str());
  for (const SpaceCount::Rule& rule : count.rules) {
    std::printf("  line %d: %s: %s\n", rule.line, rule.text.c_str(),
                rule.at_launch ? "judged at launch, when shape and alignment are known"
                               : ("leaves out " + rule.killed.text()).c_str());
  }
  for (const SpaceCount::Value& value : count.dead) {
    std::printf("  %s = %s is in no valid config: the rules leave out every one\n",
                value.tunable.c_str(), value.value.c_str());
  }
}

/// Counts are text: JSON numbers end at 2^53 in most readers.
void print_json(const std::string& kernel, const std::string& target, const SpaceCount& count) {
  Array rules;
  for (const SpaceCount::Rule& rule : count.rules) {
    rules.emplace_back(Object{{"rule", Value(rule.text)},
                              {"line", Value(rule.line)},
                              {"at_launch", Value(rule.at_launch)},
                              {"killed", Value(rule.killed.text())}});
  }
  Array dead;
  for (const SpaceCount::Value& value : count.dead) {
    dead.emplace_back(Object{{"tunable", Value(value.tunable)}, {"value", Value(value.value)}});
  }
  const Object object{{"kernel", Value(kernel)},
                      {"target", Value(target)},
                      {"raw", Value(count.raw.text())},
                      {"configs", Value(count.configs.text())},
                      {"candidates", Value(count.candidates.text())},
                      {"rules", Value(std::move(rules))},
                      {"dead", Value(std::move(dead))}};
  std::printf("%s\n", core::json::to_text(object).c_str());
}

Result<int> run(const Options& options) {
  if (!options.count) {
    return fail(ErrorCode::usage,
                "give --count: it prints how large each kernel's space is and what its rules do");
  }
  std::vector<core::Target> named;
  for (const std::string& name : options.targets) {
    TRY_ASSIGN(core::Target target, core::Target::parse(name));
    named.push_back(target);
  }
  TRY_ASSIGN(
      const std::vector<core::Manifest> manifests,
      builder::load_manifests({options.folders.begin(), options.folders.end()}, options.kernels));
  for (const core::Manifest& manifest : manifests) {
    for (const core::Target& target : named.empty() ? manifest.targets : named) {
      const SpaceCount count = builder::count_space(manifest, target);
      (options.json ? print_json : print_count)(manifest.name, target.text(), count);
    }
  }
  return 0;
}

}  // namespace

void add_expand(Cli& cli) {
  auto options = std::make_shared<Options>();
  CLI::App* app =
      cli.app.add_subcommand("expand", "Count what manifests expand to, without compiling");
  app->footer("Example: cubinary expand kernels --kernel rmsnorm --count");
  app->add_option("DIR", options->folders, "Kernel folders, their kernel.toml, or folders of them")
      ->capture_default_str();
  app->add_option("--kernel", options->kernels, "Only kernels whose name matches")
      ->type_name("GLOB");
  app->add_option("--target", options->targets, "Targets, in place of each manifest's own")
      ->delimiter(',')
      ->type_name("sm_XX");
  app->add_flag("--count", options->count,
                "Print combinations, valid configs, candidates, and what each rule leaves out");
  app->add_flag("--json", options->json, "One JSON object a kernel and target");
  app->callback([&cli, options] { cli.run = [options] { return run(*options); }; });
}

}  // namespace cubinary::cli
