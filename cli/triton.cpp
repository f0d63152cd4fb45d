// SPDX-License-Identifier: Apache-2.0
#include "cli/triton.hpp"

#include "cli/hydrate.hpp"
#include "cli/table.hpp"
#include "core/base/json.hpp"

namespace cubinary::cli {
namespace {

namespace json = core::json;

json::Object to_json(const builder::TritonCount& count) {
  return {{"added", count.added},
          {"replaced", count.replaced},
          {"unchanged", count.unchanged},
          {"bytes", count.bytes}};
}

}  // namespace

std::string ingest_table(const builder::TritonIngest& ingest) {
  Table table({"stored", ">new", ">replaced", ">known", ">size"});
  const auto add = [&](const std::string& what, const builder::TritonCount& count) {
    table.add_row({what, std::to_string(count.added), std::to_string(count.replaced),
                   std::to_string(count.unchanged), format_bytes(count.bytes)});
  };
  add("kernels", ingest.kernels);
  add("host modules", ingest.host);
  add("autotune results", ingest.autotune);
  add("records", ingest.records);
  std::string text = table.text();
  for (const std::string& note : ingest.notes) {
    text += "note: " + note + "\n";
  }
  return text;
}

std::string ingest_json(const builder::TritonIngest& ingest, int status) {
  json::Array notes;
  for (const std::string& note : ingest.notes) {
    notes.emplace_back(note);
  }
  return json::to_text(json::Object{{"kernels", to_json(ingest.kernels)},
                                    {"host", to_json(ingest.host)},
                                    {"autotune", to_json(ingest.autotune)},
                                    {"records", to_json(ingest.records)},
                                    {"notes", std::move(notes)},
                                    {"status", status}});
}

void add_triton(Cli& cli) {
  CLI::App* triton = cli.app.add_subcommand(
      "triton", "Capture what Triton compiles and tunes; lay it down where there is no compiler");
  triton->require_subcommand(1);
  add_triton_capture(cli, *triton);
  add_triton_build(cli, *triton);
  add_triton_list(cli, *triton);
  CLI::App* hydrate = triton->add_subcommand(
      "hydrate", "Lay a release's Triton entries down as a cache, every byte verified");
  hydrate->callback([&cli, run = describe_hydrate(*hydrate)] { cli.run = run; });
  add_triton_env(cli, *triton);
  add_triton_explain(cli, *triton);
  triton->footer(
      "Example:\n"
      "  cubinary triton capture --store kernels.db -- python train.py\n"
      "  cubinary release create r1 --store kernels.db && cubinary release sign r1 --key "
      "release.key "
      "--store kernels.db\n"
      "  cubinary export layout --store kernels.db --release r1\n"
      "and in the container without a compiler:\n"
      "  cubinary-fetch hydrate layout:r1 --key release.pub --cache /opt/triton-cache");
}

}  // namespace cubinary::cli
