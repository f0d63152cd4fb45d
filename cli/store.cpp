// SPDX-License-Identifier: Apache-2.0
#include "store/store.hpp"

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>

#include <fcntl.h>
#include <unistd.h>

#include "cli/answer.hpp"
#include "cli/command.hpp"
#include "cli/table.hpp"
#include "cli/verb.hpp"
#include "core/base/file.hpp"
#include "store/maintenance_json.hpp"

namespace cubinary::cli {
namespace {

namespace fs = std::filesystem;
namespace json = core::json;
using core::Result;

struct Options : VerbOptions {
  std::string destination;
  bool dry_run = false;
};

Result<store::Store> open_for_reading(const Options& options) {
  return store::Store::open(options.choice.file, {});
}

/// "7.2x", or "-" when nothing is stored.
std::string format_ratio(std::uint64_t raw, std::uint64_t stored) {
  if (stored == 0) {
    return "-";
  }
  char text[32];
  std::snprintf(text, sizeof text, "%.1fx", static_cast<double>(raw) / static_cast<double>(stored));
  return text;
}

std::uint64_t size_at(const json::Value& object, std::string_view key) {
  return static_cast<std::uint64_t>(integer_at(object, key));
}

// --- stats ---

Result<json::Value> get_stats(const Options& options) {
  if (options.choice.remote()) {
    TRY_ASSIGN(Remote remote, Remote::open(options.choice));
    return remote.get("/api/v1/store/stats");
  }
  TRY_ASSIGN(const store::Store store, open_for_reading(options));
  TRY_ASSIGN(const store::Stats stats, store::stats(store));
  return json::Value(store::to_json(stats));
}

Result<int> print_stats(const Options& options) {
  TRY_ASSIGN(const json::Value stats, get_stats(options));
  if (options.json) {
    print_json(stats);
    return 0;
  }
  const auto count = [&](std::string_view key) { return std::to_string(integer_at(stats, key)); };
  const std::uint64_t raw = size_at(stats, "artifact_raw_bytes");
  const std::uint64_t stored =
      size_at(stats, "artifact_stored_bytes") + size_at(stats, "dictionary_bytes");
  Table table({"what", ">count", ">size", "note"});
  table.add_row({"kernels", count("kernels"), "", ""});
  table.add_row(
      {"candidates",
       std::to_string(integer_at(stats, "candidates_ok") + integer_at(stats, "candidates_failed")),
       "", count("candidates_failed") + " failed"});
  table.add_row({"artifacts", count("artifacts"),
                 format_bytes(size_at(stats, "artifact_stored_bytes")),
                 format_bytes(raw) + " raw; with dictionaries " + format_ratio(raw, stored)});
  table.add_row({"dictionaries", "", format_bytes(size_at(stats, "dictionary_bytes")), ""});
  table.add_row({"measurements", count("measurements"), "", ""});
  table.add_row({"releases", count("releases"), format_bytes(size_at(stats, "blob_bytes")), ""});
  table.add_row({"file", "", format_bytes(size_at(stats, "file_bytes")),
                 "raw / file " + format_ratio(raw, size_at(stats, "file_bytes"))});
  std::fputs(table.text().c_str(), stdout);
  return 0;
}

// --- backup ---

/// Receives the server's snapshot beside the destination and gives it that name once it is whole.
Result<void> download_backup(const Options& options) {
  const fs::path destination = options.destination;
  std::error_code ignored;
  const auto taken = [&] {
    return core::fail(
        core::ErrorCode::exists,
        options.destination + " exists; a backup overwrites nothing, so choose another name");
  };
  if (fs::exists(fs::symlink_status(destination, ignored))) {
    return taken();
  }
  const std::string part = options.destination + ".part-" + std::to_string(::getpid());
  const core::UniqueFd fd(::open(part.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!fd) {
    return core::fail(core::errno_error("cannot write " + part, errno));
  }
  struct Remove {
    const std::string* path;
    ~Remove() { ::unlink(path->c_str()); }
  } const remove{&part};
  TRY_ASSIGN(Remote remote, Remote::open(options.choice));
  TRY(remote.download("/api/v1/store/backup", [&](core::ByteView bytes) -> Result<void> {
    while (!bytes.empty()) {
      const ssize_t count = ::write(fd.get(), bytes.data(), bytes.size());
      if (count < 0 && errno != EINTR) {
        return core::fail(core::errno_error("cannot write " + part, errno));
      }
      bytes = bytes.subspan(static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
    }
    return {};
  }));
  if (::fsync(fd.get()) != 0) {
    return core::fail(core::errno_error("cannot write " + part, errno));
  }
  // A link, unlike a rename, never replaces a file somebody made meanwhile.
  if (::link(part.c_str(), destination.c_str()) != 0) {
    if (errno == EEXIST) {
      return taken();
    }
    return core::fail(core::errno_error("cannot name the backup " + options.destination, errno));
  }
  return {};
}

Result<int> make_backup(const Options& options) {
  if (options.choice.remote()) {
    TRY(download_backup(options));
  } else {
    TRY_ASSIGN(const store::Store store, open_for_reading(options));
    TRY(store::backup(store, options.destination));
  }
  TRY_ASSIGN(const store::Store copy, store::Store::open(options.destination, {}));
  TRY_ASSIGN(const store::Stats stats, store::stats(copy));
  if (options.json) {
    print_json(json::Object{{"backup", options.destination},
                            {"bytes", stats.file_bytes},
                            {"artifacts", stats.artifacts},
                            {"releases", stats.releases}});
  } else {
    std::printf("%s: %s, %llu artifacts, %llu releases\n", options.destination.c_str(),
                format_bytes(stats.file_bytes).c_str(),
                static_cast<unsigned long long>(stats.artifacts),
                static_cast<unsigned long long>(stats.releases));
  }
  return 0;
}

// --- fsck and gc ---

Result<json::Value> find_faults(const Options& options) {
  if (options.choice.remote()) {
    TRY_ASSIGN(Remote remote, Remote::open(options.choice));
    return remote.post("/api/v1/store/fsck", json::Object());
  }
  TRY_ASSIGN(const store::Store store, open_for_reading(options));
  TRY_ASSIGN(const std::vector<std::string> findings, store::fsck(store));
  return json::Value(store::to_json(findings));
}

Result<int> check(const Options& options) {
  TRY_ASSIGN(const json::Value result, find_faults(options));
  const bool sound = flag_at(result, "sound");
  const json::Array& findings = array_at(result, "findings");
  if (options.json) {
    print_json(result);
  } else if (sound) {
    std::printf("%s is sound: every artifact, dictionary and blob has its digest\n",
                (options.choice.remote() ? options.choice.server : options.choice.file).c_str());
  } else {
    for (const json::Value& finding : findings) {
      const auto* text = finding.get_if<std::string>();
      std::printf("%s\n", text == nullptr ? "" : text->c_str());
    }
    std::printf("%zu findings; restore a backup, or build and release again what is named\n",
                findings.size());
  }
  return sound ? 0 : 1;
}

Result<json::Value> collect_garbage(const Options& options) {
  if (options.choice.remote()) {
    TRY_ASSIGN(Remote remote, Remote::open(options.choice));
    return remote.post("/api/v1/store/gc", json::Object{{"dry_run", options.dry_run}});
  }
  TRY_ASSIGN(
      store::Store store,
      store::Store::open(options.choice.file, {store::Access::write, false, "cubinary store gc"}));
  TRY_ASSIGN(const store::GcResult result, store::gc(store, options.dry_run));
  return json::Value(store::to_json(result, options.dry_run));
}

Result<int> collect(const Options& options) {
  TRY_ASSIGN(const json::Value result, collect_garbage(options));
  if (options.json) {
    print_json(result);
    return 0;
  }
  const auto count = [&](std::string_view key) {
    return static_cast<long long>(integer_at(result, key));
  };
  std::printf("%s %lld candidates with %lld measurements, %lld artifacts and %lld blobs: %s\n",
              options.dry_run ? "would drop" : "dropped", count("candidates"),
              count("measurements"), count("artifacts"), count("blobs"),
              format_bytes(size_at(result, "bytes")).c_str());
  return 0;
}

}  // namespace

void add_store(Cli& cli) {
  CLI::App* app = cli.app.add_subcommand("store", "Look after a store: backup, fsck, gc, stats");
  app->require_subcommand(1);
  const auto options = std::make_shared<Options>();

  CLI::App* backup = add_verb(cli, *app, options, "backup",
                              "Copy a store, also one in use, to a new file", make_backup);
  backup->add_option("FILE", options->destination, "the copy; must not exist")->required();
  backup->footer("Example:\n  cubinary store backup copy.db --store kernels.db");

  add_verb(cli, *app, options, "fsck", "Check the whole store and every digest in it", check)
      ->footer(
          "Example:\n  cubinary store fsck --store kernels.db\nExit status 1 when anything is "
          "damaged; one line names each.");

  CLI::App* gc = add_verb(cli, *app, options, "gc",
                          "Drop what no current build and no release needs", collect);
  gc->add_flag("--dry-run", options->dry_run, "only say what would go");
  gc->footer(
      "Example:\n  cubinary store gc --store kernels.db --dry-run\nCandidates no longer "
      "current go with their measurements; nothing a release holds ever does.");

  add_verb(cli, *app, options, "stats", "Count what is in the store and what it takes", print_stats)
      ->footer("Example:\n  cubinary store stats --server https://build.example --token-file t");
}

}  // namespace cubinary::cli
