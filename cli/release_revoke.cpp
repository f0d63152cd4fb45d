// SPDX-License-Identifier: Apache-2.0
#include "cli/release_revoke.hpp"

#include <cstdio>
#include <ctime>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "builder/release/release_json.hpp"
#include "cli/answer.hpp"
#include "cli/store_choice.hpp"
#include "core/base/json.hpp"
#include "core/wire/oci.hpp"

namespace cubinary::cli {
namespace {

namespace json = core::json;
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

/// A signed list on the store, and what was put on it.
struct Revoked {
  json::Value list;  ///< as builder::to_json(AttachedRevocations)
  std::vector<core::Revocation> more;
  std::vector<std::string>
      meanings;  ///< one each; empty: nothing has it, or a server was not asked
};

Result<Revoked> revoke_here(const Options& options, std::span<const core::PrivateKey> keys,
                            std::int64_t now) {
  TRY_ASSIGN(store::Store store,
             store::Store::open(options.choice.file,
                                {store::Access::write, false, "cubinary release revoke"}));
  Revoked result;
  std::string envelope;
  {
    TRY_ASSIGN(const store::Reader reader, store.reader());
    for (const std::string& text : options.what) {
      TRY_ASSIGN(core::Revocation one, revocation_of(reader, text, options, now));
      TRY_ASSIGN(std::string meaning, builder::describe_digest(reader, one.digest));
      result.more.push_back(std::move(one));
      result.meanings.push_back(meaning.empty() ? "nothing in this store's releases has it"
                                                : std::move(meaning));
    }
    TRY_ASSIGN(core::RevocationList list, builder::read_revocations(reader));
    TRY_ASSIGN(envelope, builder::make_revocations(std::move(list), result.more, now, keys));
  }
  TRY_ASSIGN(const auto attached, builder::attach_revocations(store, envelope));
  result.list = builder::to_json(attached);
  return result;
}

/// The key stays here: the list is fetched, signed and sent back.
Result<Revoked> revoke_there(const Options& options, std::span<const core::PrivateKey> keys,
                             std::int64_t now) {
  TRY_ASSIGN(Remote remote, Remote::open(options.choice));
  Revoked result;
  for (const std::string& text : options.what) {
    core::Revocation one{{}, options.reason, now};
    if (text.starts_with("sha256:")) {
      TRY_ASSIGN(one.digest, core::Digest::parse(text));
    } else {
      TRY_ASSIGN(const json::Value told, remote.get("/api/v1/releases/" + encode(text)));
      TRY_ASSIGN(const store::Release release, builder::release_from_json(told));
      one.digest = release.index;
    }
    result.more.push_back(std::move(one));
    result.meanings.emplace_back("on the server's list");
  }
  TRY_ASSIGN(const json::Value told, remote.get("/api/v1/revocations"));
  TRY_ASSIGN(core::RevocationList list, builder::revocations_from_json(told));
  TRY_ASSIGN(const std::string envelope,
             builder::make_revocations(std::move(list), result.more, now, keys));
  TRY_ASSIGN(result.list, remote.put_bytes("/api/v1/revocations", core::oci::k_dsse_type,
                                           core::as_bytes(envelope)));
  return result;
}

Result<int> run_revoke(const Options& options) {
  std::vector<core::PrivateKey> keys;
  for (const std::string& path : options.keys) {
    TRY_ASSIGN(core::PrivateKey key, core::PrivateKey::load(path));
    keys.push_back(std::move(key));
  }
  const std::int64_t now = std::time(nullptr);
  TRY_ASSIGN(const Revoked revoked, options.choice.remote() ? revoke_there(options, keys, now)
                                                            : revoke_here(options, keys, now));
  if (options.json) {
    print_json(revoked.list);
    return 0;
  }
  for (std::size_t i = 0; i < revoked.more.size(); ++i) {
    std::printf("revoked %s\n  %s\n", revoked.more[i].digest.text().c_str(),
                revoked.meanings[i].c_str());
  }
  const std::size_t count = array_at(revoked.list, "revoked").size();
  std::printf("revocation list %lld: %zu %s, under the tag %s\n",
              static_cast<long long>(integer_at(revoked.list, "serial")), count,
              count == 1 ? "digest" : "digests", std::string(core::k_revocations_tag).c_str());
  for (const json::Value& key : array_at(revoked.list, "key_ids")) {
    const auto* id = key.get_if<std::string>();
    std::printf("  by key %s\n", id == nullptr ? "" : id->c_str());
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
