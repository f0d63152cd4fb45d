// SPDX-License-Identifier: Apache-2.0
#include "builder/release/export.hpp"

#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "builder/fatbin/fatbin.hpp"
#include "builder/release/release.hpp"
#include "builder/release/release_json.hpp"
#include "builder/release/view.hpp"
#include "cli/command.hpp"
#include "cli/table.hpp"
#include "cli/verb.hpp"
#include "core/base/json.hpp"
#include "store/store.hpp"

namespace cubinary::cli {
namespace {

namespace json = core::json;
using core::Result;

struct Options : VerbOptions {
  std::string directory;
  std::string release;
  std::string toolkit;
  bool fatbin = false;
};

Result<builder::ExportSource> remote_source(Remote& remote, const std::string& name) {
  builder::ExportSource source;
  TRY_ASSIGN(const json::Value told, remote.get("/api/v1/releases/" + encode(name)));
  TRY_ASSIGN(source.release, builder::release_from_json(told));
  const json::Node top(told, "the release");
  TRY_ASSIGN(const json::Node channels, top.at("channels"));
  TRY_ASSIGN(const auto names, channels.elements());
  for (const json::Node& node : names) {
    TRY_ASSIGN(std::string channel, node.text());
    source.channels.push_back(std::move(channel));
  }
  TRY_ASSIGN(source.blobs, builder::blobs_from_json(told));
  TRY_ASSIGN(const json::Value list, remote.get("/api/v1/revocations"));
  TRY_ASSIGN(const auto revocations, builder::blobs_from_json(list));
  if (!revocations.empty()) {
    source.revocations = revocations.front().digest;
    source.blobs.insert(source.blobs.end(), revocations.begin(), revocations.end());
  }
  source.stream = [&remote](const store::BlobInfo& blob,
                            const std::function<bool(core::ByteView)>& sink) {
    return remote.download("/api/v1/blobs/" + blob.digest.text(),
                           [&](core::ByteView bytes) -> Result<void> {
                             if (!sink(bytes)) {
                               return core::fail(core::ErrorCode::cancelled, "stopped");
                             }
                             return {};
                           });
  };
  return source;
}

Result<builder::ExportedRelease> export_it(const Options& options) {
  if (options.choice.remote()) {
    TRY_ASSIGN(Remote remote, Remote::open(options.choice));
    TRY_ASSIGN(const auto source, remote_source(remote, options.release));
    return builder::export_release(source, options.directory);
  }
  TRY_ASSIGN(
      const store::Store store,
      store::Store::open(options.choice.file, {store::Access::read, false, "cubinary export"}));
  TRY_ASSIGN(const store::Reader reader, store.reader());
  return builder::export_release(reader, options.release, options.directory);
}

Result<std::vector<builder::FatBinary>> make_fatbins(const Options& options) {
  if (options.choice.remote()) {
    TRY_ASSIGN(Remote remote, Remote::open(options.choice));
    TRY_ASSIGN(const auto source, remote_source(remote, options.release));
    const builder::ReadBlob read = [&](const core::Digest& digest,
                                       std::uint64_t max_bytes) -> Result<core::Bytes> {
      core::Bytes bytes;
      const auto sink = [&](core::ByteView more) -> Result<void> {
        if (more.size() > max_bytes - bytes.size()) {
          return core::fail(core::ErrorCode::too_large, "blob " + digest.text() + " is too large");
        }
        bytes.insert(bytes.end(), more.begin(), more.end());
        return {};
      };
      TRY(remote.download("/api/v1/blobs/" + digest.text(), sink));
      if (core::sha256(bytes) != digest) {
        return core::fail(core::ErrorCode::corrupt, "blob " + digest.text() + " came damaged");
      }
      return bytes;
    };
    return builder::export_fatbins(read, source.release, options.directory, options.toolkit);
  }
  TRY_ASSIGN(
      const store::Store store,
      store::Store::open(options.choice.file, {store::Access::read, false, "cubinary export"}));
  TRY_ASSIGN(const store::Reader reader, store.reader());
  TRY_ASSIGN(const store::Release release, builder::require_release(reader, options.release));
  return builder::export_fatbins(builder::blobs_of(reader), release, options.directory,
                                 options.toolkit);
}

Result<int> run_fatbin(const Options& options) {
  TRY_ASSIGN(const auto made, make_fatbins(options));
  std::size_t images = 0;
  json::Array files;
  for (const builder::FatBinary& fat : made) {
    images += fat.images.size();
    files.emplace_back(fat.file);
  }
  if (options.json) {
    std::printf("%s\n", json::to_text(json::Object{{"directory", options.directory},
                                                   {"release", options.release},
                                                   {"cubins", images},
                                                   {"files", std::move(files)}})
                            .c_str());
    return 0;
  }
  std::printf("exported %s to %s: %zu fat binaries of %zu cubins; fatbins.json lists them\n",
              options.release.c_str(), options.directory.c_str(), made.size(), images);
  return 0;
}

Result<int> run(const Options& options) {
  if (options.fatbin) {
    return run_fatbin(options);
  }
  if (!options.toolkit.empty()) {
    return core::fail(core::ErrorCode::usage, "--toolkit goes with --fatbin: only that needs one");
  }
  TRY_ASSIGN(const auto exported, export_it(options));
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
  add_store_options(*app, options->choice, "store file");
  app->add_option("--release", options->release, "release name")->required();
  app->add_flag("--fatbin", options->fatbin,
                "Write the cubins as fat binaries instead, a file a code over all targets");
  app->add_option("--toolkit", options->toolkit,
                  "With --fatbin: the CUDA toolkit whose fatbinary "
                  "packs them")
      ->type_name("DIR");
  app->add_flag("--json", options->json, "one JSON object");
  app->footer(
      "Example:\n"
      "  cubinary export layout --store kernels.db --release 2026.11\n"
      "  cubinary export fatbins --store kernels.db --release 2026.11 --fatbin\n"
      "Into a registry: one copy for the release, one for its signature (tags as printed):\n"
      "  skopeo copy --all --preserve-digests oci:layout:2026.11 docker://HOST/REPO:2026.11");
  app->callback([&cli, options] { cli.run = [options] { return run(*options); }; });
}

}  // namespace cubinary::cli
