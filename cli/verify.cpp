// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <memory>
#include <set>
#include <string>

#include "cli/command.hpp"
#include "cli/fetch.hpp"
#include "cli/table.hpp"
#include "client/fetch.hpp"
#include "core/base/json.hpp"

namespace cubinary::cli {
namespace {

namespace json = core::json;
using core::ErrorCode;
using core::fail;
using core::Result;

struct Arguments {
  SourceArguments source;
  bool json = false;
};

/// What was checked of Triton, over all targets.
struct TritonChecked {
  std::size_t entries = 0;
  std::size_t files = 0;
  std::uint64_t bytes = 0;  ///< of the files
  std::set<core::Digest> packs;
};

Result<TritonChecked> check_triton(client::Release& release, client::Deadline deadline) {
  TritonChecked checked;
  for (const core::Target& target : release.targets()) {
    TRY_ASSIGN(const auto catalogue, release.triton(target, deadline));
    if (!catalogue) {
      continue;
    }
    checked.entries +=
        catalogue->kernels.size() + catalogue->host.size() + catalogue->autotune.size();
    for (const core::TritonPack& pack : catalogue->packs) {
      if (checked.packs.insert(pack.digest).second) {
        TRY_ASSIGN(const core::Bytes raw, release.triton_pack(pack, deadline));
        checked.files += pack.files.size();
        checked.bytes += raw.size();
      }
    }
  }
  return checked;
}

Result<int> run_verify(const Arguments& arguments) {
  if (arguments.source.keys.empty() && !arguments.source.allow_unsigned) {
    return fail(ErrorCode::usage,
                "verify needs the public key to verify against: --key RELEASE.pub");
  }
  const auto deadline = client::deadline_after(arguments.source.timeout_seconds);
  // Nothing may come from, or stay in, a cache: what is verified is the source.
  auto cache = std::make_shared<client::Cache>(
      client::Cache::Options{.directory = {}, .memory_limit = 0, .log = print_warning});
  TRY_ASSIGN(const auto release, open_release(arguments.source, cache, deadline, false));
  TRY_ASSIGN(const client::FetchReport report, client::fetch(*release, {}, deadline));
  TRY_ASSIGN(const TritonChecked triton, check_triton(*release, deadline));
  std::set<core::Digest> distinct;
  for (const auto& artifact : report.artifacts) {
    distinct.insert(artifact.digest);
  }

  if (arguments.json) {
    json::Object object{{"release", release->name()},
                        {"tag", release->tag()},
                        {"index", release->index_digest().text()},
                        {"signed", release->statement().has_value()},
                        {"targets", release->targets().size()},
                        {"packs", report.packs},
                        {"pack_bytes", report.bytes_received},
                        {"artifacts", distinct.size()},
                        {"artifact_bytes", report.artifact_bytes},
                        {"triton_entries", triton.entries},
                        {"triton_packs", triton.packs.size()},
                        {"triton_files", triton.files},
                        {"triton_bytes", triton.bytes}};
    if (release->statement()) {
      object["key"] = release->key_id();
      object["serial"] = release->statement()->serial;
      object["created"] = release->statement()->created;
      object["expires"] = release->statement()->expires;
    }
    std::printf("%s\n", json::to_text(object).c_str());
    return 0;
  }
  std::string targets;
  for (const auto& target : release->targets()) {
    targets += (targets.empty() ? "" : ", ") + target.text();
  }
  std::printf("index      %s\n", release->index_digest().text().c_str());
  if (const auto& statement = release->statement()) {
    std::printf("signature  good, by key %s\n", release->key_id().c_str());
    std::printf("release    %s, serial %llu, created %s, expires %s\n", statement->name.c_str(),
                static_cast<unsigned long long>(statement->serial),
                format_time(statement->created).c_str(), format_time(statement->expires).c_str());
  } else {
    std::printf("signature  NOT CHECKED (--allow-unsigned)\n");
  }
  std::printf("manifests  %zu good (%s), with their catalogues\n", release->targets().size(),
              targets.c_str());
  std::printf("packs      %zu good, %s\n", report.packs,
              format_bytes(report.bytes_received).c_str());
  std::printf("artifacts  %zu good, %s\n", distinct.size(),
              format_bytes(report.artifact_bytes).c_str());
  if (triton.entries > 0) {
    std::printf("triton     %zu entries good, %zu files in %zu packs, %s\n", triton.entries,
                triton.files, triton.packs.size(), format_bytes(triton.bytes).c_str());
  }
  std::printf("%s: verified\n", arguments.source.source.c_str());
  return 0;
}

}  // namespace

void add_verify(Cli& cli) {
  CLI::App* app = cli.app.add_subcommand(
      "verify", "Check a release's signature and the digest of everything in it");
  const auto arguments = std::make_shared<Arguments>();
  app->add_option("SOURCE", arguments->source.source,
                  "DIR[:TAG], http[s]://HOST[:PORT][/REPOSITORY][:TAG] or "
                  "oci://HOST/REPOSITORY[:TAG]")
      ->required();
  describe_trust(*app, arguments->source);
  app->add_flag("--json", arguments->json, "print one JSON object");
  app->footer("Example:\n  cubinary verify ./layout:v1 --key release.pub");
  app->callback([&cli, arguments] { cli.run = [arguments] { return run_verify(*arguments); }; });
}

}  // namespace cubinary::cli
