// SPDX-License-Identifier: Apache-2.0
#include "server/maintenance_api.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <limits>
#include <memory>

#include <fcntl.h>
#include <unistd.h>

#include "core/base/file.hpp"
#include "store/changes.hpp"
#include "store/maintenance_json.hpp"

namespace cubinary::server {
namespace {

namespace fs = std::filesystem;
namespace json = core::json;
using core::ErrorCode;
using core::fail;
using core::Result;

constexpr std::int64_t k_max_changes = 1000;

Result<std::int64_t> number(const Request& request, std::string_view name, std::int64_t otherwise,
                            std::int64_t most) {
  TRY_ASSIGN(const std::string* const text, query_value(request, name));
  if (text == nullptr) {
    return otherwise;
  }
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (error != std::errc() || end != text->data() + text->size() || value < 0) {
    return fail(ErrorCode::usage,
                std::string(name) + " must be a whole number, not \"" + *text + "\"");
  }
  return std::min(value, most);
}

/// A file that has no name any more and goes with its descriptor.
struct Snapshot {
  core::UniqueFd fd;
  std::uint64_t size = 0;
};

/// Copies the store beside itself, on the same disk, and takes the copy's name away.
Result<Snapshot> take_snapshot(const store::Store& store) {
  const fs::path path = store.path().string() + ".backup-" + std::to_string(::getpid());
  std::error_code ignored;
  fs::remove(path, ignored);  // of a server that was killed while it made one
  TRY(store::backup(store, path));
  Snapshot snapshot;
  snapshot.fd = core::UniqueFd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  const int number = errno;
  fs::remove(path, ignored);
  if (!snapshot.fd) {
    return fail(core::errno_error("cannot read the snapshot " + path.string(), number));
  }
  const off_t end = ::lseek(snapshot.fd.get(), 0, SEEK_END);
  snapshot.size = end > 0 ? static_cast<std::uint64_t>(end) : 0;
  return snapshot;
}

}  // namespace

Result<Response> MaintenanceApi::answer(const Request& request, const RouteMatch& match) {
  switch (match.route) {
    case Route::changes:
      return changes(request);
    case Route::store_stats: {
      TRY_ASSIGN(const store::Stats stats, store::stats(*m_store));
      return json_response(store::to_json(stats));
    }
    case Route::store_fsck: {
      TRY_ASSIGN(const auto running, begin());
      TRY_ASSIGN(const std::vector<std::string> findings, store::fsck(*m_store));
      return json_response(store::to_json(findings));
    }
    case Route::store_gc:
      return collect(request);
    default:
      return backup(request);
  }
}

Result<std::unique_lock<std::mutex>> MaintenanceApi::begin() {
  std::unique_lock<std::mutex> running(m_running, std::try_to_lock);
  if (!running) {
    return fail(ErrorCode::busy,
                "an fsck, gc or backup of this store runs already: try again when "
                "it is done");
  }
  return running;
}

Result<Response> MaintenanceApi::changes(const Request& request) const {
  constexpr std::int64_t k_any = std::numeric_limits<std::int64_t>::max();
  TRY_ASSIGN(const std::int64_t before, number(request, "before", 0, k_any));
  TRY_ASSIGN(const std::int64_t limit, number(request, "n", 100, k_max_changes));
  TRY_ASSIGN(const store::Reader reader, m_store->reader());
  TRY_ASSIGN(const auto changes,
             store::list_changes(reader, before, static_cast<std::size_t>(limit)));
  json::Array array;
  for (const store::Change& change : changes) {
    TRY_ASSIGN(json::Value detail, json::parse(change.detail));
    array.emplace_back(json::Object{{"id", change.id},
                                    {"at", change.at},
                                    {"actor", change.actor},
                                    {"origin", change.origin},
                                    {"action", change.action},
                                    {"subject", change.subject},
                                    {"detail", std::move(detail)}});
  }
  return json_response(std::move(array));
}

Result<Response> MaintenanceApi::collect(const Request& request) {
  bool dry_run = false;
  if (!request.body.empty()) {
    TRY_ASSIGN(const json::Value document, json_body(request));
    TRY_ASSIGN(dry_run, json::Node(document, "the request").boolean_or("dry_run", false));
  }
  TRY_ASSIGN(const auto running, begin());
  TRY_ASSIGN(const store::GcResult result, store::gc(*m_store, dry_run));
  return json_response(store::to_json(result, dry_run));
}

Result<Response> MaintenanceApi::backup(const Request& request) {
  Response response;
  response.content_type = "application/vnd.sqlite3";
  response.headers.emplace_back("Cache-Control", "no-store");
  if (request.method == "HEAD") {
    return response;
  }
  TRY_ASSIGN(const auto running, begin());
  TRY_ASSIGN(Snapshot taken, take_snapshot(*m_store));
  const auto snapshot = std::make_shared<Snapshot>(std::move(taken));
  response.length = snapshot->size;
  response.reader = [snapshot](std::uint64_t offset, std::uint64_t length,
                               const BodySink& sink) -> Result<void> {
    std::vector<std::byte> piece(std::size_t{256} << 10U);
    while (length > 0) {
      const ssize_t count =
          ::pread(snapshot->fd.get(), piece.data(), std::min<std::uint64_t>(piece.size(), length),
                  static_cast<off_t>(offset));
      if (count <= 0) {
        return fail(core::errno_error("cannot read the snapshot", count == 0 ? EIO : errno));
      }
      if (!sink(core::ByteView(piece).first(static_cast<std::size_t>(count)))) {
        return fail(ErrorCode::cancelled, "the client is gone");
      }
      offset += static_cast<std::uint64_t>(count);
      length -= static_cast<std::uint64_t>(count);
    }
    return {};
  };
  return response;
}

}  // namespace cubinary::server
