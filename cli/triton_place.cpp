// SPDX-License-Identifier: Apache-2.0
#include "cli/triton_place.hpp"

#include <ctime>
#include <set>
#include <utility>

#include "cli/answer.hpp"
#include "cli/artifact_batch.hpp"
#include "core/base/temporary_folder.hpp"
#include "store/artifacts.hpp"
#include "store/triton_json.hpp"

namespace cubinary::cli {
namespace {

namespace json = core::json;
using core::Digest;
using core::ErrorCode;
using core::fail;
using core::Result;

constexpr const char* k_path = "/api/v1/triton";
constexpr std::size_t k_digests_at_once = 20'000;

Result<store::Store> open_store(const StoreChoice& choice, const std::string& command) {
  return store::Store::open(choice.file, {store::Access::write, true, command});
}

std::set<Digest> files_of(const store::TritonEntries& entries) {
  std::set<Digest> files;
  const auto add = [&](const core::TritonFiles& named) {
    for (const auto& [name, digest] : named) {
      files.insert(digest);
    }
  };
  for (const store::StoredTritonKernel& stored : entries.kernels) {
    add(stored.kernel.files);
  }
  for (const core::TritonHost& module : entries.host) {
    files.insert(module.digest);
  }
  for (const core::TritonAutotune& result : entries.autotune) {
    add(result.files);
  }
  return files;
}

/// Those of `files` that the server lacks.
Result<std::vector<Digest>> missing_there(Remote& remote, const std::set<Digest>& files) {
  std::vector<Digest> missing;
  json::Array names;
  const auto ask = [&]() -> Result<void> {
    TRY_ASSIGN(const json::Value answer,
               remote.post("/api/v1/artifacts/known",
                           json::Object{{"digests", std::exchange(names, {})}}));
    for (const json::Value& name : array_at(answer, "missing")) {
      const auto* const text = name.get_if<std::string>();
      TRY_ASSIGN(const Digest digest, Digest::parse(text != nullptr ? *text : ""));
      missing.push_back(digest);
    }
    return {};
  };
  for (const Digest& digest : files) {
    names.emplace_back(digest.text());
    if (names.size() == k_digests_at_once) {
      TRY(ask());
    }
  }
  if (!names.empty()) {
    TRY(ask());
  }
  return missing;
}

Result<void> send_files(Remote& remote, const store::Reader& reader,
                        const std::set<Digest>& files) {
  TRY_ASSIGN(const std::vector<Digest> missing, missing_there(remote, files));
  core::Bytes batch;
  const auto send = [&]() -> Result<void> {
    TRY(remote.post_bytes("/api/v1/artifacts", k_artifact_batch_type, batch));
    batch.clear();
    return {};
  };
  for (const Digest& digest : missing) {
    TRY_ASSIGN(const core::Bytes bytes, store::read_artifact(reader, digest));
    append_artifact(batch, digest, bytes);
    if (batch.size() >= k_artifact_batch_bytes) {
      TRY(send());
    }
  }
  return batch.empty() ? Result<void>() : send();
}

/// What the server says it did takes the place of what the store of this run alone counted.
void take_over(builder::TritonCount& count, const json::Value& answer, std::string_view sort) {
  const auto* const object = answer.get_if<json::Object>();
  const auto found = object != nullptr ? object->find(sort) : json::Object::const_iterator();
  if (object == nullptr || found == object->end()) {
    return;
  }
  count.added = static_cast<std::size_t>(integer_at(found->second, "added"));
  count.replaced = static_cast<std::size_t>(integer_at(found->second, "replaced"));
  count.unchanged = static_cast<std::size_t>(integer_at(found->second, "unchanged"));
}

Result<void> send(Remote& remote, const store::Store& staging, builder::TritonIngest& ingest) {
  TRY_ASSIGN(const store::Reader reader, staging.reader());
  TRY_ASSIGN(store::TritonEntries entries, store::list_triton(reader));
  TRY_ASSIGN(entries.records, store::list_triton_records(reader));
  const std::set<Digest> files = files_of(entries);
  const json::Value document(store::to_json(entries));
  // A gc there, between the requests, takes artifacts that nothing names yet: then once more.
  for (bool again = true;; again = false) {
    TRY(send_files(remote, reader, files));
    const auto answer = remote.post(k_path, document);
    if (answer) {
      take_over(ingest.kernels, *answer, "kernels");
      take_over(ingest.host, *answer, "host");
      take_over(ingest.autotune, *answer, "autotune");
      take_over(ingest.records, *answer, "records");
      return {};
    }
    if (!again || answer.error().code != ErrorCode::not_found) {
      return fail(answer.error());
    }
  }
}

}  // namespace

Result<void> TritonPlace::check() const {
  if (!m_choice.remote()) {
    TRY(open_store(m_choice, m_command));
    return {};
  }
  // Nothing, sent: the token, its scope and whether the server knows of Triton at all.
  TRY_ASSIGN(Remote remote, Remote::open(m_choice));
  TRY(remote.post(k_path, store::to_json(store::TritonEntries{})));
  return {};
}

Result<std::vector<std::string>> TritonPlace::records() const {
  if (!m_choice.remote()) {
    TRY_ASSIGN(const store::Store store,
               store::Store::open(m_choice.file, {store::Access::read, false, m_command}));
    TRY_ASSIGN(const store::Reader reader, store.reader());
    return store::list_triton_records(reader);
  }
  TRY_ASSIGN(Remote remote, Remote::open(m_choice));
  TRY_ASSIGN(const json::Value answer, remote.get(std::string(k_path) + "/records"));
  std::vector<std::string> records;
  for (const json::Value& record : array_at(answer, "records")) {
    if (const auto* const text = record.get_if<std::string>(); text != nullptr) {
      records.push_back(*text);
    }
  }
  return records;
}

Result<builder::TritonIngest> TritonPlace::take(const std::filesystem::path& folder,
                                                const builder::TritonFolderOptions& options) const {
  const std::int64_t now = std::time(nullptr);
  if (!m_choice.remote()) {
    TRY_ASSIGN(store::Store store, open_store(m_choice, m_command));
    return builder::ingest_triton(store, folder, options, now);
  }
  TRY_ASSIGN(Remote remote, Remote::open(m_choice));
  TRY_ASSIGN(const core::TemporaryFolder own, core::TemporaryFolder::make({}, "cubinary-triton-"));
  TRY_ASSIGN(store::Store staging, store::Store::open(own.path() / "staging.cubinary",
                                                      {store::Access::write, true, m_command}));
  TRY_ASSIGN(builder::TritonIngest ingest, builder::ingest_triton(staging, folder, options, now));
  TRY(send(remote, staging, ingest));
  return ingest;
}

}  // namespace cubinary::cli
