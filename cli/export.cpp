// SPDX-License-Identifier: Apache-2.0
#include "builder/release/export.hpp"

#include <cstdio>
#include <memory>
#include <string>

#include "cli/command.hpp"
#include "cli/table.hpp"
#include "core/base/json.hpp"
#include "store/store.hpp"

namespace cubinary::cli {
namespace {

namespace json = core::json;
using core::Result;

struct Options {
  std::string directory;
  std::string store;
  std::string release;
  bool json = false;
};

Result<int> run(const Options& options) {
  TRY_ASSIGN(const store::Store store,
             store::Store::open(options.store, {store::Access::read, false, "cubinary export"}));
  TRY_ASSIGN(const store::Reader reader, store.reader());
  TRY_ASSIGN(const auto exported,
             builder::export_release(reader, options.release, options.directory));
  const bool is_signed = exported.release.signature_manifest.has_value();
  if (options.json) {
    json::Array tags(exported.tags.begin(), exported.tags.end());
    std::printf("%s\n", json::to_text(json::Object{{"directory", options.directory},
                                                   {"release", exported.release.name},
                                                   {"serial", exported.release.serial},
                                                   {"index", exported.release.index.text()},
                                                   {"signed", is_signed},
                                                   {"tags", std::move(tags)},
                                                   {"blobs", exported.blobs},
                                                   {"blobs_written", exported.blobs_written},
                                                   {"bytes", exported.bytes}})
                            .c_str());
    return 0;
  }
  std::printf("exported %s (serial %llu) to %s: %llu blobs, %s, %llu of them new\n",
              exported.release.name.c_str(),
              static_cast<unsigned long long>(exported.release.serial), options.directory.c_str(),
              static_cast<unsigned long long>(exported.blobs), format_bytes(exported.bytes).c_str(),
              static_cast<unsigned long long>(exported.blobs_written));
  for (const std::string& tag : exported.tags) {
    std::printf("  tag %s\n", tag.c_str());
  }
  if (!is_signed) {
    std::fprintf(stderr,
                 "note: %s is not signed; clients refuse it until `cubinary release sign` and "
                 "another export\n",
                 exported.release.name.c_str());
  }
  return 0;
}

}  // namespace

void add_export(Cli& cli) {
  CLI::App* app = cli.app.add_subcommand(
      "export", "Write a release as an OCI image layout: for a mirror, a disk, an air gap");
  auto options = std::make_shared<Options>();
  app->add_option("DIR", options->directory, "folder, made when missing; a layout is added to")
      ->required();
  app->add_option("--store", options->store, "store file")->required();
  app->add_option("--release", options->release, "release name")->required();
  app->add_flag("--json", options->json, "one JSON object");
  app->footer(
      "Example:\n"
      "  cubinary export layout --store kernels.db --release 2026.11\n"
      "Into a registry: one copy for the release, one for its signature (tags as printed):\n"
      "  skopeo copy --all --preserve-digests oci:layout:2026.11 docker://HOST/REPO:2026.11");
  app->callback([&cli, options] { cli.run = [options] { return run(*options); }; });
}

}  // namespace cubinary::cli
