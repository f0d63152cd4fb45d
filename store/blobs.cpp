// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <utility>

#include "store/connection.hpp"
#include "store/releases.hpp"

namespace cubinary::store {

using core::Bytes;
using core::ByteView;
using core::Digest;
using core::ErrorCode;
using core::fail;
using core::Result;

namespace {

/// As schema/store says; a piece is read at once.
constexpr std::uint64_t k_chunk_bytes = 65536;

core::Error no_blob(const Connection& connection, const Digest& digest) {
  return {ErrorCode::not_found, "no blob " + digest.text() + " in " + connection.path().string()};
}
core::Error damaged(const Connection& connection, const Digest& digest) {
  return {ErrorCode::corrupt, "blob " + digest.text() + " in " + connection.path().string() +
                                  " is damaged; `cubinary store fsck` lists all damage, a backup "
                                  "brings it back"};
}

}  // namespace

Result<void> put_blob(Writer& writer, std::string_view media_type, ByteView bytes) {
  Connection& connection = writer.connection();
  const Digest digest = core::sha256(bytes);
  TRY_ASSIGN(const auto found,
             connection.find_integer("SELECT id FROM blob WHERE digest = ?1", digest));
  if (found) {
    return {};
  }
  TRY(connection.run("INSERT INTO blob (digest, size, media_type) VALUES (?1, ?2, ?3)", digest,
                     bytes.size(), media_type));
  const std::int64_t id = connection.last_insert_id();
  for (std::uint64_t offset = 0; offset < bytes.size(); offset += k_chunk_bytes) {
    const ByteView piece =
        bytes.subspan(offset, std::min<std::uint64_t>(k_chunk_bytes, bytes.size() - offset));
    TRY(connection.run("INSERT INTO blob_chunk (blob_id, position, bytes) VALUES (?1, ?2, ?3)", id,
                       offset / k_chunk_bytes, piece));
  }
  return {};
}

Result<std::optional<BlobInfo>> find_blob(const Reader& reader, const Digest& digest) {
  TRY_ASSIGN(Statement row, reader.connection().query(
                                "SELECT size, media_type FROM blob WHERE digest = ?1", digest));
  TRY_ASSIGN(const bool found, row.step());
  if (!found) {
    return std::nullopt;
  }
  return BlobInfo{digest, row.size(0), row.text(1)};
}

Result<Bytes> read_blob(const Reader& reader, const Digest& digest, std::uint64_t max_bytes) {
  TRY_ASSIGN(const auto info, find_blob(reader, digest));
  if (!info) {
    return fail(no_blob(reader.connection(), digest));
  }
  if (info->size > max_bytes) {
    return fail(ErrorCode::too_large, "blob " + digest.text() + " has " +
                                          std::to_string(info->size) + " bytes, more than the " +
                                          std::to_string(max_bytes) + " allowed here");
  }
  Bytes bytes;
  bytes.reserve(info->size);
  TRY(stream_blob(reader, digest, 0, info->size, [&](ByteView piece) {
    bytes.insert(bytes.end(), piece.begin(), piece.end());
    return true;
  }));
  if (core::sha256(bytes) != digest) {
    return fail(damaged(reader.connection(), digest));
  }
  return bytes;
}

Result<void> stream_blob(const Reader& reader, const Digest& digest, std::uint64_t offset,
                         std::uint64_t length, const std::function<bool(ByteView)>& sink) {
  Connection& connection = reader.connection();
  std::int64_t id = 0;
  {
    TRY_ASSIGN(Statement row,
               connection.query("SELECT id, size FROM blob WHERE digest = ?1", digest));
    TRY_ASSIGN(const bool found, row.step());
    if (!found) {
      return fail(no_blob(connection, digest));
    }
    id = row.integer(0);
    const std::uint64_t size = row.size(1);
    if (offset > size || length > size - offset) {
      return fail(ErrorCode::usage, "blob " + digest.text() + " has " + std::to_string(size) +
                                        " bytes: no range of " + std::to_string(length) + " at " +
                                        std::to_string(offset));
    }
  }
  TRY_ASSIGN(Statement chunks,
             connection.query("SELECT bytes FROM blob_chunk WHERE blob_id = ?1 AND position >= ?2 "
                              "ORDER BY position",
                              id, offset / k_chunk_bytes));
  std::uint64_t skip = offset % k_chunk_bytes;
  while (length > 0) {
    const auto found = chunks.step();
    if (!found && found.error().code != ErrorCode::corrupt) {
      return fail(found.error());
    }
    if (!found || !*found || chunks.blob(0).size() <= skip) {
      return fail(damaged(connection, digest));
    }
    ByteView piece = chunks.blob(0).subspan(skip);
    piece = piece.first(std::min<std::uint64_t>(piece.size(), length));
    skip = 0;
    length -= piece.size();
    if (!sink(piece)) {
      return fail(ErrorCode::cancelled, "reading blob " + digest.text() + " was stopped");
    }
  }
  return {};
}

}  // namespace cubinary::store
