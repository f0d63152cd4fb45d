// SPDX-License-Identifier: Apache-2.0
#include "store/artifacts.hpp"

#include <utility>

#include "core/wire/codec.hpp"
#include "store/connection.hpp"

namespace cubinary::store {

using core::Bytes;
using core::ByteView;
using core::Digest;
using core::ErrorCode;
using core::fail;
using core::Result;

namespace {

/// More than any cubin; SQLite's own limit on one value is 1 GB.
constexpr std::uint64_t k_max_artifact_bytes = 512U << 20U;
/// Building waits for this, and it costs compilers' time: higher levels take a hundred times longer
/// for a tenth of the bytes. What matters is the dictionary, and repack sees to that.
constexpr int k_level = 3;
/// A dictionary is packed once for all its artifacts: a hundredth of what compiling them took. 17
/// is 2 % larger for a fifth less time, 19 is 1 % smaller for half as much again.
constexpr int k_dictionary_level = 18;
/// At most 1 MiB each where repack made them.
constexpr std::size_t k_max_cached_dictionaries = 4;

using SharedBytes = std::shared_ptr<const Bytes>;

/// Unpacks the dictionary at columns (digest, size, stored) of `row`, or takes it from the cache.
Result<SharedBytes> dictionary_bytes(Connection& connection, const Statement& row, int first) {
  const Digest digest = row.digest(first);
  auto& cache = connection.dictionaries();
  if (const auto found = cache.find(digest); found != cache.end()) {
    return found->second;
  }
  core::DecompressOptions options;
  options.max_bytes = row.size(first + 1);
  auto bytes = core::decompress(row.blob(first + 2), options);
  if (!bytes || core::sha256(*bytes) != digest) {
    return fail(ErrorCode::corrupt, "the compression dictionary " + digest.text() + " in " +
                                        connection.path().string() +
                                        " is damaged; `cubinary store fsck` lists what needs it");
  }
  if (cache.size() >= k_max_cached_dictionaries) {
    cache.erase(cache.begin());
  }
  return cache[digest] = std::make_shared<const Bytes>(std::move(*bytes));
}

/// The artifact's bytes from its frame or its dictionary, by the columns of read_artifact's query.
Result<Bytes> unpack(const Statement& row, const Bytes* dictionary) {
  const std::uint64_t size = row.size(0);
  if (!row.is_null(6)) {
    const std::uint64_t offset = row.size(6);
    if (dictionary == nullptr || offset > dictionary->size() ||
        size > dictionary->size() - offset) {
      return fail(ErrorCode::corrupt, "it lies outside its dictionary");
    }
    const ByteView slice = ByteView(*dictionary).subspan(offset, size);
    return Bytes(slice.begin(), slice.end());
  }
  core::DecompressOptions options;
  options.max_bytes = size;
  if (dictionary != nullptr) {
    (row.integer(1) != 0 ? options.dictionary : options.prefix) = *dictionary;
  }
  return core::decompress(row.blob(5), options);
}

core::Error damaged(const Connection& connection, const Digest& digest, std::string_view why) {
  return {ErrorCode::corrupt, "artifact " + digest.text() + " in " + connection.path().string() +
                                  " is damaged (" + std::string(why) +
                                  "); `cubinary store fsck` lists all damage, building again "
                                  "after `cubinary store gc` or a backup brings it back"};
}

}  // namespace

Result<PreparedArtifact> prepare_artifact(ByteView raw, const Dictionary* dictionary) {
  if (raw.size() > k_max_artifact_bytes) {
    return fail(ErrorCode::too_large, "an artifact of " + std::to_string(raw.size()) +
                                          " bytes is more than the store takes (" +
                                          std::to_string(k_max_artifact_bytes) + ")");
  }
  PreparedArtifact artifact;
  artifact.digest = core::sha256(raw);
  artifact.size = raw.size();
  core::CompressOptions options;
  options.level = k_level;
  if (dictionary != nullptr && dictionary->id != 0) {
    artifact.dictionary = dictionary->id;
    (dictionary->trained ? options.dictionary : options.prefix) = dictionary->bytes;
  }
  TRY_ASSIGN(artifact.stored, core::compress(raw, options));
  return artifact;
}

Result<ArtifactId> put_artifact(Writer& writer, const PreparedArtifact& artifact) {
  Connection& connection = writer.connection();
  TRY_ASSIGN(const auto found,
             connection.find_integer("SELECT id FROM artifact WHERE digest = ?1", artifact.digest));
  if (found) {
    return *found;
  }
  std::optional<DictionaryId> dictionary;
  if (artifact.dictionary != 0) {
    TRY_ASSIGN(dictionary, connection.find_integer("SELECT id FROM dictionary WHERE id = ?1",
                                                   artifact.dictionary));
    if (!dictionary) {
      return fail(ErrorCode::not_found, "compression dictionary " +
                                            std::to_string(artifact.dictionary) +
                                            " is no longer in the store; prepare artifact " +
                                            artifact.digest.text() + " again");
    }
  }
  TRY(
      connection.run("INSERT INTO artifact (digest, size, stored_size, dictionary_id) "
                     "VALUES (?1, ?2, ?3, ?4)",
                     artifact.digest, artifact.size, artifact.stored.size(), dictionary));
  const ArtifactId id = connection.last_insert_id();
  TRY(connection.run("INSERT INTO artifact_data (artifact_id, bytes) VALUES (?1, ?2)", id,
                     ByteView(artifact.stored)));
  return id;
}

Result<Bytes> read_artifact(const Reader& reader, const Digest& digest) {
  Connection& connection = reader.connection();
  TRY_ASSIGN(
      Statement row,
      connection.query(
          "SELECT a.size, d.trained, d.digest, d.size, d.stored, b.bytes, "
          "a.dictionary_offset FROM artifact a LEFT JOIN dictionary d ON d.id = a.dictionary_id "
          "LEFT JOIN artifact_data b ON b.artifact_id = a.id "
          "WHERE a.digest = ?1",
          digest));
  auto found = row.step();
  if (!found) {
    return fail(found.error().code == ErrorCode::corrupt
                    ? damaged(connection, digest, "the database cannot be read there")
                    : std::move(found).error());
  }
  if (!*found) {
    return fail(ErrorCode::not_found,
                "no artifact " + digest.text() + " in " + connection.path().string());
  }
  SharedBytes dictionary;
  if (!row.is_null(1)) {
    TRY_ASSIGN(dictionary, dictionary_bytes(connection, row, 2));
  }
  auto raw = unpack(row, dictionary.get());
  if (!raw) {
    return fail(damaged(connection, digest, raw.error().message));
  }
  if (core::sha256(*raw) != digest) {
    return fail(damaged(connection, digest, "its bytes do not have that digest"));
  }
  return raw;
}

Result<bool> has_artifact(const Reader& reader, const Digest& digest) {
  TRY_ASSIGN(const auto found,
             reader.connection().find_integer("SELECT 1 FROM artifact WHERE digest = ?1", digest));
  return found.has_value();
}

Result<Dictionary> current_dictionary(const Reader& reader, std::string_view kernel,
                                      std::string_view target) {
  Connection& connection = reader.connection();
  TRY_ASSIGN(
      Statement row,
      connection.query("SELECT d.id, d.trained, d.digest, d.size, d.stored "
                       "FROM current_dictionary c JOIN dictionary d ON d.id = c.dictionary_id "
                       "WHERE c.kernel = ?1 AND c.target = ?2",
                       kernel, target));
  TRY_ASSIGN(const bool found, row.step());
  Dictionary dictionary;
  if (found) {
    dictionary.id = row.integer(0);
    dictionary.trained = row.integer(1) != 0;
    TRY_ASSIGN(const SharedBytes bytes, dictionary_bytes(connection, row, 2));
    dictionary.bytes = *bytes;
  }
  return dictionary;
}

Result<PreparedDictionary> prepare_dictionary(bool trained, ByteView bytes) {
  core::CompressOptions options;
  options.level = k_dictionary_level;
  PreparedDictionary dictionary;
  TRY_ASSIGN(dictionary.stored, core::compress(bytes, options));
  dictionary.trained = trained;
  dictionary.digest = core::sha256(bytes);
  dictionary.size = bytes.size();
  return dictionary;
}

Result<DictionaryId> put_dictionary(Writer& writer, std::string_view kernel,
                                    std::string_view target, const PreparedDictionary& dictionary) {
  Connection& connection = writer.connection();
  TRY(
      connection.run("INSERT INTO dictionary (kernel, target, trained, digest, size, stored) "
                     "VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
                     kernel, target, dictionary.trained, dictionary.digest, dictionary.size,
                     ByteView(dictionary.stored)));
  const DictionaryId id = connection.last_insert_id();
  TRY(
      connection.run("INSERT INTO current_dictionary (kernel, target, dictionary_id) "
                     "VALUES (?1, ?2, ?3) ON CONFLICT (kernel, target) "
                     "DO UPDATE SET dictionary_id = excluded.dictionary_id",
                     kernel, target, id));
  return id;
}

}  // namespace cubinary::store
