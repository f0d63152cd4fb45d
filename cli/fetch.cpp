// SPDX-License-Identifier: Apache-2.0
#include "cli/fetch.hpp"

#include <cstdio>
#include <cstdlib>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include <unistd.h>

#include "cli/table.hpp"
#include "client/fetch.hpp"
#include "client/keys.hpp"
#include "core/base/file.hpp"
#include "core/base/json.hpp"
#include "core/driver/driver_version.hpp"

namespace cubinary::cli {
namespace {

namespace json = core::json;
using core::ErrorCode;
using core::fail;
using core::Result;

constexpr std::uint64_t k_max_token_bytes = 64U << 10U;
constexpr std::uint64_t k_max_lock_bytes = 64U << 20U;

struct FetchArguments {
  SourceArguments source;
  std::string cache;
  std::string kernel;
  std::vector<std::string> targets;
  std::string device_class;
  std::string lock;
  std::size_t parallel = 8;
  bool json = false;
};

Result<client::FetchFilter> filter_of(const FetchArguments& arguments) {
  client::FetchFilter filter;
  filter.kernel_glob = arguments.kernel;
  filter.width = arguments.parallel;
  for (const auto& text : arguments.targets) {
    TRY_ASSIGN(const core::Target target, core::Target::parse(text));
    filter.targets.push_back(target);
  }
  if (!arguments.device_class.empty()) {
    TRY_ASSIGN(filter.device_class, core::DeviceClass::parse(arguments.device_class));
  }
  return filter;
}

void print_progress(std::size_t done, std::size_t all, const core::KernelTable& table) {
  std::fprintf(stderr, "\r\033[Kpack %zu of %zu: %s (%s)", done + 1, all, table.name.c_str(),
               format_bytes(table.pack_size).c_str());
  std::fflush(stderr);
}

std::string trust_text(const client::Release& release) {
  if (!release.statement()) {
    return "NOT SIGNED, or not checked";
  }
  return "signed by " + release.key_id().substr(0, 16) + ", serial " +
         std::to_string(release.statement()->serial) + ", expires " +
         format_time(release.statement()->expires);
}

void print_report(const client::Release& release, const client::Cache& cache,
                  const client::FetchReport& report) {
  std::printf("release %s  %s\n%s\n\n", release.name().c_str(),
              release.index_digest().text().c_str(), trust_text(release).c_str());
  struct Sum {
    std::size_t artifacts = 0;
    std::uint64_t bytes = 0;
  };
  std::map<std::pair<std::string, std::string>, Sum> sums;  // what --json lists one by one
  for (const auto& artifact : report.artifacts) {
    Sum& sum = sums[{artifact.kernel, artifact.target.text()}];
    ++sum.artifacts;
    sum.bytes += artifact.bytes;
  }
  Table table({"kernel", "target", ">artifacts", ">bytes", "verified"});
  for (const auto& [key, sum] : sums) {
    table.add_row(
        {key.first, key.second, std::to_string(sum.artifacts), format_bytes(sum.bytes), "yes"});
  }
  std::printf("%s\n", table.text().c_str());
  std::printf("%zu artifact%s, %s, all verified; %zu of %zu pack%s received (%s)",  // one line
              report.artifacts.size(), report.artifacts.size() == 1 ? "" : "s",
              format_bytes(report.artifact_bytes).c_str(), report.packs_received, report.packs,
              report.packs == 1 ? "" : "s", format_bytes(report.bytes_received).c_str());
  std::printf("; cache %s\n", cache.directory().c_str());
}

json::Value to_json(const client::Release& release, const client::Cache& cache,
                    const client::FetchReport& report) {
  json::Array artifacts;
  for (const auto& artifact : report.artifacts) {
    artifacts.emplace_back(json::Object{{"kernel", artifact.kernel},
                                        {"target", artifact.target.text()},
                                        {"artifact", artifact.digest.text()},
                                        {"bytes", artifact.bytes},
                                        {"entries", artifact.entries},
                                        {"verified", true}});
  }
  json::Object object{{"release", release.name()},
                      {"tag", release.tag()},
                      {"index", release.index_digest().text()},
                      {"signed", release.statement().has_value()},
                      {"cache", cache.directory().string()},
                      {"artifacts", std::move(artifacts)},
                      {"artifact_bytes", report.artifact_bytes},
                      {"packs", report.packs},
                      {"packs_received", report.packs_received},
                      {"bytes_received", report.bytes_received},
                      {"minimum_driver", report.minimum_driver}};
  if (release.statement()) {
    object["key"] = release.key_id();
    object["serial"] = release.statement()->serial;
    object["expires"] = release.statement()->expires;
  }
  return object;
}

/// The index a lock file pins; none when there is no such file yet.
Result<std::optional<core::Digest>> read_lock(const std::string& path) {
  const auto text = core::read_text_file(path, k_max_lock_bytes);
  if (!text) {
    if (text.error().code == ErrorCode::not_found) {
      return std::optional<core::Digest>();
    }
    return fail(text.error());
  }
  const auto read = [&]() -> Result<core::Digest> {
    TRY_ASSIGN(const json::Value value, json::parse(*text));
    const json::Node top(value, "lock file");
    TRY_ASSIGN(const std::int64_t version, top.integer("lock", 1, 1'000'000));
    if (version != 1) {
      return fail(ErrorCode::newer_format,
                  "format " + std::to_string(version) + " is not one this version reads");
    }
    TRY_ASSIGN(const std::string index, top.text("index"));
    return core::Digest::parse(index);
  };
  const auto index = read();
  if (!index) {
    return fail(index.error().with_context("the lock file " + path));
  }
  return std::optional(*index);
}

/// A line an artifact, so that what a new release changes shows in a diff.
Result<void> write_lock(const std::string& path, const client::Release& release,
                        const client::FetchReport& report) {
  std::string artifacts;
  for (const auto& artifact : report.artifacts) {
    artifacts += (artifacts.empty() ? "  " : ",\n  ") +
                 json::to_text(json::Object{{"artifact", artifact.digest.text()},
                                            {"kernel", artifact.kernel},
                                            {"target", artifact.target.text()}});
  }
  const json::Object top{{"index", release.index_digest().text()},
                         {"key", release.key_id()},
                         {"lock", 1},
                         {"release", release.name()},
                         {"serial", release.statement() ? release.statement()->serial : 0}};
  std::string text = json::to_text(top);
  text.pop_back();
  text += ",\n\"artifacts\":[\n" + artifacts + "\n]}\n";
  return core::write_file_atomic(path, core::as_bytes(text));
}

Result<int> run_fetch(const FetchArguments& arguments) {
  TRY_ASSIGN(const client::FetchFilter filter, filter_of(arguments));
  const std::filesystem::path directory = arguments.cache.empty()
                                              ? client::Cache::default_directory()
                                              : std::filesystem::path(arguments.cache);
  if (directory.empty()) {
    return fail(ErrorCode::usage, "no cache folder: give --cache DIR, or set CUBINARY_CACHE");
  }
  // Fetching into nothing would look like success.
  std::error_code made;
  std::filesystem::create_directories(directory, made);
  if (!arguments.source.offline && ::access(directory.c_str(), W_OK | X_OK) != 0) {
    return fail(core::errno_error("cannot write the cache folder " + directory.string(), errno));
  }
  const auto deadline = client::deadline_after(arguments.source.timeout_seconds);
  auto cache = std::make_shared<client::Cache>(
      client::Cache::Options{.directory = directory, .durable = true, .log = print_warning});
  SourceArguments source = arguments.source;
  if (!arguments.lock.empty()) {
    TRY_ASSIGN(source.pinned, read_lock(arguments.lock));
  }
  TRY_ASSIGN(const auto release, open_release(source, cache, deadline, true));

  const bool interactive = ::isatty(STDERR_FILENO) != 0 && !arguments.json;
  auto report = client::fetch(*release, filter, deadline,
                              interactive ? client::FetchProgress(print_progress) : nullptr);
  if (interactive) {
    std::fputs("\r\033[K", stderr);
  }
  if (!report) {
    return fail(std::move(report).error());
  }
  if (auto written = cache->flush(); !written) {
    return fail(written.error().with_context("what was fetched could not be kept"));
  }
  if (!arguments.lock.empty() && !source.pinned) {
    TRY(write_lock(arguments.lock, *release, *report));
  }
  if (arguments.json) {
    std::printf("%s\n", json::to_text(to_json(*release, *cache, *report)).c_str());
  } else {
    print_report(*release, *cache, *report);
  }
  if (const auto branch = core::driver_branch(); branch && *branch < report->minimum_driver) {
    print_warning("this machine's driver " + std::to_string(*branch) +
                  " is too old for some of it: driver " + std::to_string(report->minimum_driver) +
                  " or newer loads everything");
  }
  return 0;
}

}  // namespace

void print_warning(const std::string& message) {
  std::fprintf(stderr, "warning: %s\n", message.c_str());
}

void describe_trust(CLI::App& app, SourceArguments& arguments) {
  app.add_option("--key", arguments.keys,
                 "public key the release must be signed by (a file; may be repeated)")
      ->envname("CUBINARY_KEY");
  app.add_option_function<std::string>(
         "--token-file",
         [&arguments](const std::string& path) {
           auto text = core::read_text_file(path, k_max_token_bytes);
           if (!text) {
             throw CLI::ValidationError("--token-file", text.error().message);
           }
           arguments.token = client::trimmed_token(*text);
         },
         "file with a token, or USER:PASSWORD (default: CUBINARY_TOKEN)")
      ->type_name("FILE");
  app.add_option("--timeout", arguments.timeout_seconds, "seconds for everything")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  app.add_flag("--allow-unsigned", arguments.allow_unsigned,
               "ask for no signature (digests are still checked)");
  app.add_flag("--allow-expired", arguments.allow_expired, "take an expired release");
}

Result<std::unique_ptr<client::Release>> open_release(const SourceArguments& arguments,
                                                      std::shared_ptr<client::Cache> cache,
                                                      client::Deadline deadline,
                                                      bool remember_serial) {
  TRY_ASSIGN(const client::SourceName name, client::SourceName::parse(arguments.source));
  client::ReleaseOptions options;
  TRY_ASSIGN(options.trust.keys, client::load_keys(arguments.keys));
  options.trust.allow_unsigned = arguments.allow_unsigned;
  options.trust.allow_expired = arguments.allow_expired;
  options.trust.remember_serial = remember_serial;
  options.offline = arguments.offline;
  options.pinned = arguments.pinned;
  options.token = arguments.token;
  if (options.token.empty()) {
    if (const char* token = std::getenv("CUBINARY_TOKEN"); token != nullptr) {
      options.token = client::trimmed_token(token);
    }
  }
  options.deadline = deadline;
  options.log = print_warning;
  return client::Release::open(name, std::move(options), std::move(cache));
}

std::function<Result<int>()> describe_fetch(CLI::App& app) {
  const auto arguments = std::make_shared<FetchArguments>();
  app.add_option(
         "SOURCE", arguments->source.source,
         "DIR[:TAG], http[s]://HOST[:PORT][/REPOSITORY][:TAG] or oci://HOST/REPOSITORY[:TAG]")
      ->required();
  describe_trust(app, arguments->source);
  app.add_option(
      "--cache", arguments->cache,
      "cache folder (default: CUBINARY_CACHE, XDG_CACHE_HOME/cubinary, ~/.cache/cubinary)");
  app.add_option("--kernel", arguments->kernel, "only kernels that match this glob");
  app.add_option("--target", arguments->targets, "only these targets (sm_90,sm_120)")
      ->delimiter(',');
  app.add_option("--device-class", arguments->device_class,
                 "only targets that run on this device class");
  app.add_flag("--offline", arguments->source.offline,
               "touch no network: check that the cache holds it all");
  app.add_option("--lock", arguments->lock,
                 "file that pins the release by digest: written when it is missing, obeyed when it "
                 "is there, wherever the tag points now")
      ->type_name("FILE");
  app.add_option("--parallel", arguments->parallel, "packs on their way at once")
      ->capture_default_str()
      ->check(CLI::Range(1, 64));
  app.add_flag("--json", arguments->json, "print one JSON object");
  app.footer(
      "Example:\n  cubinary-fetch https://kernels.example.com:prod --key release.pub "
      "--cache /var/cache/cubinary");
  return [arguments] { return run_fetch(*arguments); };
}

}  // namespace cubinary::cli
