// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "builder/release/release_json.hpp"
#include "cli/answer.hpp"
#include "cli/command.hpp"
#include "cli/release_reads.hpp"
#include "cli/release_revoke.hpp"
#include "cli/remote_blobs.hpp"
#include "cli/table.hpp"
#include "cli/verb.hpp"
#include "core/wire/oci.hpp"
#include "core/wire/signature.hpp"
#include "store/store.hpp"

namespace cubinary::cli {
namespace {

namespace json = core::json;
using core::ErrorCode;
using core::fail;
using core::Result;

struct Options : VerbOptions {
  std::string name;
  // create
  std::vector<std::string> targets;
  std::string kernels;
  std::string expires = "never";
  bool keep_going = false;
  std::vector<std::string> parts = {"cuda", "triton"};
  // sign
  std::vector<std::string> keys;
  // promote
  std::string channel;
};

void print_notes(const json::Array& notes) {
  std::fflush(stdout);
  for (const json::Value& note : notes) {
    const auto* text = note.get_if<std::string>();
    std::fprintf(stderr, "note: %s\n", text == nullptr ? "" : text->c_str());
  }
}

Result<store::Store> open_for_writing(const Options& options, std::string_view purpose) {
  return store::Store::open(options.choice.file, {store::Access::write, false,
                                                  "cubinary release " + std::string(purpose)});
}

std::string place(const Options& options) {
  return options.choice.remote() ? "--server " + options.choice.server
                                 : "--store " + options.choice.file;
}

// --- create ---

Result<std::int64_t> expiry(const std::string& text, std::int64_t now) {
  if (text == "never") {
    return 0;
  }
  TRY_ASSIGN(const std::int64_t duration, parse_duration(text));
  std::int64_t expires = 0;
  if (__builtin_add_overflow(now, duration, &expires)) {
    return fail(ErrorCode::usage, "--expires " + text + " is too far away: write `never`");
  }
  return expires;
}

Result<json::Value> make_release(const Options& options, const builder::ReleaseRequest& request) {
  if (options.choice.remote()) {
    TRY_ASSIGN(Remote remote, Remote::open(options.choice));
    // The time of creation travels with the request, so that one sent twice makes one release.
    json::Object body{{"name", request.name},
                      {"kernels", request.kernels},
                      {"created", request.created},
                      {"expires", request.expires},
                      {"keep_going", request.keep_going},
                      {"cuda", request.cuda},
                      {"triton", request.triton}};
    if (!request.targets.empty()) {
      body.emplace("targets", json::Array(request.targets.begin(), request.targets.end()));
    }
    return remote.post("/api/v1/releases", std::move(body));
  }
  TRY_ASSIGN(store::Store store, open_for_writing(options, "create"));
  const auto show = [&](const builder::ReleasedKernel& kernel) {
    if (!options.json) {
      std::printf("%s\n", builder::describe(kernel).c_str());
      std::fflush(stdout);
    }
  };
  TRY_ASSIGN(const auto created, builder::create_release(store, request, show));
  return json::Value(builder::to_json(created));
}

/// What the builder says of a kernel as it is packed; a server tells it afterwards.
void print_remote_kernels(const json::Value& created) {
  for (const json::Value& kernel : array_at(created, "kernels")) {
    builder::ReleasedKernel line;
    line.kernel = text_at(kernel, "kernel");
    line.target = text_at(kernel, "target");
    line.entries = static_cast<std::size_t>(integer_at(kernel, "entries"));
    line.tuned = static_cast<std::size_t>(integer_at(kernel, "tuned"));
    std::printf("%s\n", builder::describe(line).c_str());
  }
}

void print_triton(const json::Value& created) {
  for (const json::Value& part : array_at(created, "triton")) {
    builder::ReleasedTriton line;
    line.target = text_at(part, "target");
    line.kernels = static_cast<std::size_t>(integer_at(part, "kernels"));
    line.host = static_cast<std::size_t>(integer_at(part, "host"));
    line.autotune = static_cast<std::size_t>(integer_at(part, "autotune"));
    std::printf("%s\n", builder::describe(line).c_str());
  }
}

Result<int> create(const Options& options) {
  builder::ReleaseRequest request;
  request.name = options.name;
  request.targets = options.targets;
  request.kernels = options.kernels;
  request.created = std::time(nullptr);
  request.keep_going = options.keep_going;
  request.cuda = std::ranges::find(options.parts, "cuda") != options.parts.end();
  request.triton = std::ranges::find(options.parts, "triton") != options.parts.end();
  TRY_ASSIGN(request.expires, expiry(options.expires, request.created));
  TRY_ASSIGN(const json::Value created, make_release(options, request));
  if (options.json) {
    print_json(created);
    return 0;
  }
  if (options.choice.remote()) {
    print_remote_kernels(created);
  }
  print_triton(created);
  std::int64_t packed = 0;
  for (const char* part : {"kernels", "triton"}) {
    for (const json::Value& kernel : array_at(created, part)) {
      packed += integer_at(kernel, "pack_bytes");
    }
  }
  const std::size_t targets = array_at(created, "targets").size();
  std::printf(
      "release %s: serial %lld, %zu %s, %s packed, expires %s\n  %s\n",
      text_at(created, "name").c_str(), static_cast<long long>(integer_at(created, "serial")),
      targets, targets == 1 ? "target" : "targets",
      format_bytes(static_cast<std::uint64_t>(packed)).c_str(),
      format_time(integer_at(created, "expires")).c_str(), text_at(created, "index").c_str());
  print_notes(array_at(created, "notes"));
  print_notes({"clients refuse it until it is signed: `cubinary release sign " + options.name +
               " --key KEY " + place(options) + "`"});
  return 0;
}

// --- sign ---

Result<json::Value> sign_with(const Options& options, std::span<const core::PrivateKey> keys) {
  if (!options.choice.remote()) {
    TRY_ASSIGN(store::Store store, open_for_writing(options, "sign"));
    TRY_ASSIGN(const auto result, builder::sign_release(store, options.name, keys));
    return json::Value(builder::to_json(result));
  }
  // The key stays here: every byte of the release is fetched and checked, then signed for.
  TRY_ASSIGN(Remote remote, Remote::open(options.choice));
  const std::string path = "/api/v1/releases/" + encode(options.name);
  TRY_ASSIGN(const json::Value told, remote.get(path));
  TRY_ASSIGN(const store::Release release, builder::release_from_json(told));
  TRY_ASSIGN(const std::string envelope, builder::make_signature(blobs_of(remote), release, keys));
  return remote.put_bytes(path + "/signature", core::oci::k_dsse_type, core::as_bytes(envelope));
}

Result<int> sign(const Options& options) {
  std::vector<core::PrivateKey> keys;
  for (const std::string& path : options.keys) {
    TRY_ASSIGN(core::PrivateKey key, core::PrivateKey::load(path));
    keys.push_back(std::move(key));
  }
  TRY_ASSIGN(const json::Value result, sign_with(options, keys));
  if (options.json) {
    print_json(result);
    return 0;
  }
  std::printf("signed %s (serial %lld, expires %s)\n  %s\n", text_at(result, "name").c_str(),
              static_cast<long long>(integer_at(result, "serial")),
              format_time(integer_at(result, "expires")).c_str(), text_at(result, "index").c_str());
  for (const json::Value& key : array_at(result, "key_ids")) {
    const auto* id = key.get_if<std::string>();
    std::printf("  by key %s\n", id == nullptr ? "" : id->c_str());
  }
  return 0;
}

// --- promote ---

Result<json::Value> move_channel(const Options& options) {
  if (options.choice.remote()) {
    TRY_ASSIGN(Remote remote, Remote::open(options.choice));
    return remote.put("/api/v1/channels/" + encode(options.channel),
                      json::Object{{"release", options.name}});
  }
  TRY_ASSIGN(store::Store store, open_for_writing(options, "promote"));
  TRY_ASSIGN(const auto promotion, builder::promote_release(store, options.name, options.channel));
  return json::Value(builder::to_json(promotion, options.channel));
}

Result<int> promote(const Options& options) {
  TRY_ASSIGN(const json::Value promotion, move_channel(options));
  if (options.json) {
    print_json(promotion);
    return 0;
  }
  std::printf("%s is now %s (serial %lld)\n", options.channel.c_str(),
              text_at(promotion, "name").c_str(),
              static_cast<long long>(integer_at(promotion, "serial")));
  print_notes(array_at(promotion, "notes"));
  return 0;
}

/// A verb of `release` on one release.
CLI::App* add_named(Cli& cli, CLI::App& release, const std::shared_ptr<Options>& options,
                    const char* name, const char* help, Result<int> (*verb)(const Options&)) {
  CLI::App* app = add_verb(cli, release, options, name, help, verb);
  app->add_option("NAME", options->name, "release name")->required();
  return app;
}

void add_create(Cli& cli, CLI::App& release) {
  auto options = std::make_shared<Options>();
  CLI::App* app =
      add_named(cli, release, options, "create",
                "Freeze winners and defaults of the current build under a name", create);
  app->add_option("--target", options->targets, "targets (default: all that were built)")
      ->delimiter(',')
      ->allow_extra_args(false);
  app->add_option("--kernel", options->kernels, "kernels, as a glob (default: all)");
  app->add_option("--expires", options->expires,
                  "clients refuse it after this long, such as 90d (default: never)");
  app->add_flag("--keep-going", options->keep_going,
                "leave out configs that did not compile, and say so");
  app->add_option(
         "--parts", options->parts,
         "cuda (kernels built from manifests), triton (what was captured); both by default")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::IsMember({"cuda", "triton"}));
  app->footer(
      "Example:\n"
      "  cubinary release create 2026.11 --store kernels.db --target sm_90,sm_120 --expires 90d\n"
      "Kernels nobody tuned ship their manifest's default config.");
}

void add_sign(Cli& cli, CLI::App& release) {
  auto options = std::make_shared<Options>();
  CLI::App* app = add_named(cli, release, options, "sign",
                            "Sign a release, replacing an earlier signature", sign);
  app->add_option("--key", options->keys, "private key made by `keygen`; several for a rotation")
      ->required()
      ->allow_extra_args(false);
  app->footer("Example:\n  cubinary release sign 2026.11 --key release.key --store kernels.db");
}

void add_promote(Cli& cli, CLI::App& release) {
  auto options = std::make_shared<Options>();
  CLI::App* app = add_named(cli, release, options, "promote",
                            "Point a channel, such as prod, at a release", promote);
  app->add_option("--as", options->channel, "channel")->required();
  app->footer("Example:\n  cubinary release promote 2026.11 --as prod --store kernels.db");
}

}  // namespace

void add_release(Cli& cli) {
  CLI::App* release =
      cli.app.add_subcommand("release", "Create, sign, promote, list and compare releases");
  release->require_subcommand(1);
  add_create(cli, *release);
  add_sign(cli, *release);
  add_release_reads(cli, *release);
  add_promote(cli, *release);
  add_release_revoke(cli, *release);
  release->footer(
      "Example:\n"
      "  cubinary release create 2026.11 --store kernels.db\n"
      "  cubinary release sign 2026.11 --key release.key --store kernels.db");
}

}  // namespace cubinary::cli
