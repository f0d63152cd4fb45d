// SPDX-License-Identifier: Apache-2.0
#include "cli/release_revoke.hpp"

#include <cstdio>
#include <ctime>
#include <memory>
#include <string>
#include <vector>

#include "builder/release/release.hpp"
#include "builder/release/revoke.hpp"
#include "cli/store_choice.hpp"
#include "core/base/json.hpp"
#include "core/wire/oci.hpp"

namespace cubinary::cli {
namespace {

namespace json = core::json;
using core::ErrorCode;
using core::fail;
using core::Result;

struct Options {
  StoreChoice choice;
  std::vector<std::string> what;
  std::vector<std::string> keys;
  std::string reason;
  bool json = false;
};

/// A digest, or a release's name for its index.
Result<core::Revocation> revocation_of(const store::Reader& reader, const std::string& text,
                                       const Options& options, std::int64_t now) {
  core::Revocation one{{}, options.reason, now};
  if (text.starts_with("sha256:")) {
    TRY_ASSIGN(one.digest, core::Digest::parse(text));
    return one;
  }
  TRY_ASSIGN(const store::Release release, builder::require_release(reader, text));
  one.digest = release.index;
  return one;
}

Result<int> run_revoke(const Options& options) {
  if (options.choice.remote()) {
    return fail(ErrorCode::unsupported,
                "release revoke changes a store file: run it with --store where the store is");
  }
  std::vector<core::PrivateKey> keys;
  for (const std::string& path : options.keys) {
    TRY_ASSIGN(core::PrivateKey key, core::PrivateKey::load(path));
    keys.push_back(std::move(key));
  }
  TRY_ASSIGN(store::Store store,
             store::Store::open(options.choice.file,
                                {store::Access::write, false, "cubinary release revoke"}));
  const std::int64_t now = std::time(nullptr);
  std::vector<core::Revocation> more;
  std::vector<std::string> meanings;
  std::string envelope;
  {
    TRY_ASSIGN(const store::Reader reader, store.reader());
    for (const std::string& text : options.what) {
      TRY_ASSIGN(core::Revocation one, revocation_of(reader, text, options, now));
      TRY_ASSIGN(std::string meaning, builder::describe_digest(reader, one.digest));
      more.push_back(std::move(one));
      meanings.push_back(std::move(meaning));
    }
    TRY_ASSIGN(core::RevocationList list, builder::read_revocations(reader));
    TRY_ASSIGN(envelope, builder::make_revocations(std::move(list), more, now, keys));
  }
  TRY_ASSIGN(const auto attached, builder::attach_revocations(store, envelope));

  if (options.json) {
    json::Array revoked;
    for (const core::Revocation& one : attached.list.revoked) {
      revoked.emplace_back(
          json::Object{{"digest", one.digest.text()}, {"reason", one.reason}, {"at", one.at}});
    }
    std::printf("%s\n", json::to_text(json::Object{{"serial", attached.list.serial},
                                                   {"manifest", attached.manifest.text()},
                                                   {"key_ids", json::Array(attached.key_ids.begin(),
                                                                           attached.key_ids.end())},
                                                   {"revoked", std::move(revoked)}})
                            .c_str());
    return 0;
  }
  for (std::size_t i = 0; i < more.size(); ++i) {
    std::printf(
        "revoked %s\n  %s\n", more[i].digest.text().c_str(),
        meanings[i].empty() ? "nothing in this store's releases has it" : meanings[i].c_str());
  }
  std::printf("revocation list %llu: %zu %s, under the tag %s\n",
              static_cast<unsigned long long>(attached.list.serial), attached.list.revoked.size(),
              attached.list.revoked.size() == 1 ? "digest" : "digests",
              std::string(core::k_revocations_tag).c_str());
  for (const std::string& key : attached.key_ids) {
    std::printf("  by key %s\n", key.c_str());
  }
  return 0;
}

}  // namespace

void add_release_revoke(Cli& cli, CLI::App& release) {
  const auto options = std::make_shared<Options>();
  CLI::App* app = release.add_subcommand(
      "revoke", "Put digests on the signed list of what must not load, for good");
  app->add_option("DIGEST", options->what,
                  "sha256:… of a release's index, a catalogue, a pack or code; or a release's name")
      ->required();
  app->add_option("--key", options->keys, "private key made by `keygen`; several for a rotation")
      ->required()
      ->allow_extra_args(false);
  app->add_option("--reason", options->reason, "shown to whoever is refused");
  app->add_flag("--json", options->json, "print one JSON object");
  add_store_options(*app, options->choice, "store file");
  app->footer(
      "Example:\n  cubinary release revoke sha256:6a09… --reason \"wrong for odd sizes\" --key "
      "release.key --store kernels.db\n"
      "Clients fetch the list with every release they open, and never go back to an older one.\n"
      "Mirrors copy its tag, cubinary-revocations, like a release's.");
  app->callback([&cli, options] { cli.run = [options] { return run_revoke(*options); }; });
}

}  // namespace cubinary::cli
