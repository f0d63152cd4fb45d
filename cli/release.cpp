// SPDX-License-Identifier: Apache-2.0
#include "builder/release/release.hpp"

#include <cstdio>
#include <ctime>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cli/command.hpp"
#include "cli/release_reads.hpp"
#include "cli/table.hpp"
#include "core/base/json.hpp"
#include "core/wire/signature.hpp"
#include "store/store.hpp"

namespace cubinary::cli {
namespace {

namespace json = core::json;
using core::ErrorCode;
using core::fail;
using core::Result;

struct Options {
  std::string name;
  std::string store;
  bool json = false;
  // create
  std::vector<std::string> targets;
  std::string kernels;
  std::string expires = "never";
  bool keep_going = false;
  // sign
  std::vector<std::string> keys;
  // promote
  std::string channel;
};

void print_json(const json::Value& value) {
  std::printf("%s\n", json::to_text(value).c_str());
}

void print_notes(const std::vector<std::string>& notes) {
  std::fflush(stdout);
  for (const std::string& note : notes) {
    std::fprintf(stderr, "note: %s\n", note.c_str());
  }
}

template <typename T>
json::Array to_array(const std::vector<T>& items) {
  return json::Array(items.begin(), items.end());
}

Result<store::Store> open_for_writing(const Options& options, std::string_view purpose) {
  return store::Store::open(
      options.store, {store::Access::write, false, "cubinary release " + std::string(purpose)});
}

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

json::Value to_json(const builder::ReleasedKernel& kernel) {
  return json::Object{{"kernel", kernel.kernel},        {"target", kernel.target},
                      {"entries", kernel.entries},      {"tuned", kernel.tuned},
                      {"artifacts", kernel.artifacts},  {"raw_bytes", kernel.raw_bytes},
                      {"pack_bytes", kernel.pack_bytes}};
}

Result<int> create(const Options& options) {
  builder::ReleaseRequest request;
  request.name = options.name;
  request.targets = options.targets;
  request.kernels = options.kernels;
  request.created = std::time(nullptr);
  request.keep_going = options.keep_going;
  TRY_ASSIGN(request.expires, expiry(options.expires, request.created));
  TRY_ASSIGN(store::Store store, open_for_writing(options, "create"));
  const auto show = [&](const builder::ReleasedKernel& kernel) {
    if (!options.json) {
      std::printf("%s\n", builder::describe(kernel).c_str());
      std::fflush(stdout);
    }
  };
  TRY_ASSIGN(const auto created, builder::create_release(store, request, show));

  const store::Release& release = created.release;
  std::uint64_t packed = 0;
  json::Array kernels;
  for (const builder::ReleasedKernel& kernel : created.kernels) {
    packed += kernel.pack_bytes;
    kernels.push_back(to_json(kernel));
  }
  if (options.json) {
    print_json(json::Object{{"name", release.name},
                            {"serial", release.serial},
                            {"index", release.index.text()},
                            {"created", release.created},
                            {"expires", release.expires},
                            {"targets", to_array(release.targets)},
                            {"kernels", std::move(kernels)},
                            {"notes", to_array(created.notes)}});
    return 0;
  }
  std::printf("release %s: serial %llu, %zu %s, %s packed, expires %s\n  %s\n",
              release.name.c_str(), static_cast<unsigned long long>(release.serial),
              release.targets.size(), release.targets.size() == 1 ? "target" : "targets",
              format_bytes(packed).c_str(), format_time(release.expires).c_str(),
              release.index.text().c_str());
  print_notes(created.notes);
  print_notes({"clients refuse it until it is signed: `cubinary release sign " + release.name +
               " --key KEY --store " + options.store + "`"});
  return 0;
}

Result<int> sign(const Options& options) {
  std::vector<core::PrivateKey> keys;
  for (const std::string& path : options.keys) {
    TRY_ASSIGN(core::PrivateKey key, core::PrivateKey::load(path));
    keys.push_back(std::move(key));
  }
  TRY_ASSIGN(store::Store store, open_for_writing(options, "sign"));
  TRY_ASSIGN(const auto result, builder::sign_release(store, options.name, keys));
  if (options.json) {
    print_json(json::Object{{"name", result.release.name},
                            {"serial", result.release.serial},
                            {"index", result.release.index.text()},
                            {"signature", result.signature_manifest.text()},
                            {"key_ids", to_array(result.key_ids)}});
    return 0;
  }
  std::printf("signed %s (serial %llu, expires %s)\n  %s\n", result.release.name.c_str(),
              static_cast<unsigned long long>(result.release.serial),
              format_time(result.release.expires).c_str(), result.release.index.text().c_str());
  for (const std::string& key_id : result.key_ids) {
    std::printf("  by key %s\n", key_id.c_str());
  }
  return 0;
}

Result<int> promote(const Options& options) {
  TRY_ASSIGN(store::Store store, open_for_writing(options, "promote"));
  TRY_ASSIGN(const auto promotion, builder::promote_release(store, options.name, options.channel));
  if (options.json) {
    print_json(json::Object{{"channel", options.channel},
                            {"name", promotion.release.name},
                            {"serial", promotion.release.serial},
                            {"index", promotion.release.index.text()},
                            {"notes", to_array(promotion.notes)}});
    return 0;
  }
  std::printf("%s is now %s (serial %llu)\n", options.channel.c_str(),
              promotion.release.name.c_str(),
              static_cast<unsigned long long>(promotion.release.serial));
  print_notes(promotion.notes);
  return 0;
}

/// A subcommand of `release` with what all of them take.
CLI::App* add_subcommand(CLI::App& release, const std::string& name, const std::string& what,
                         Options& options) {
  CLI::App* app = release.add_subcommand(name, what);
  app->add_option("NAME", options.name, "release name")->required();
  app->add_option("--store", options.store, "store file")->required();
  app->add_flag("--json", options.json, "one JSON object");
  return app;
}

void add_create(Cli& cli, CLI::App& release) {
  auto options = std::make_shared<Options>();
  CLI::App* app = add_subcommand(
      release, "create", "Freeze winners and defaults of the current build under a name", *options);
  app->add_option("--target", options->targets, "targets (default: all that were built)")
      ->delimiter(',')
      ->allow_extra_args(false);
  app->add_option("--kernel", options->kernels, "kernels, as a glob (default: all)");
  app->add_option("--expires", options->expires,
                  "clients refuse it after this long, such as 90d (default: never)");
  app->add_flag("--keep-going", options->keep_going,
                "leave out configs that did not compile, and say so");
  app->footer(
      "Example:\n"
      "  cubinary release create 2026.11 --store kernels.db --target sm_90,sm_120 --expires 90d\n"
      "Kernels nobody tuned ship their manifest's default config.");
  app->callback([&cli, options] { cli.run = [options] { return create(*options); }; });
}

void add_sign(Cli& cli, CLI::App& release) {
  auto options = std::make_shared<Options>();
  CLI::App* app =
      add_subcommand(release, "sign", "Sign a release, replacing an earlier signature", *options);
  app->add_option("--key", options->keys, "private key made by `keygen`; several for a rotation")
      ->required()
      ->allow_extra_args(false);
  app->footer("Example:\n  cubinary release sign 2026.11 --key release.key --store kernels.db");
  app->callback([&cli, options] { cli.run = [options] { return sign(*options); }; });
}

void add_promote(Cli& cli, CLI::App& release) {
  auto options = std::make_shared<Options>();
  CLI::App* app =
      add_subcommand(release, "promote", "Point a channel, such as prod, at a release", *options);
  app->add_option("--as", options->channel, "channel")->required();
  app->footer("Example:\n  cubinary release promote 2026.11 --as prod --store kernels.db");
  app->callback([&cli, options] { cli.run = [options] { return promote(*options); }; });
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
  release->footer(
      "Example:\n"
      "  cubinary release create 2026.11 --store kernels.db\n"
      "  cubinary release sign 2026.11 --key release.key --store kernels.db");
}

}  // namespace cubinary::cli
