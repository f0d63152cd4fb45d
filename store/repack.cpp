// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <optional>
#include <span>
#include <utility>

#include "core/base/parallel.hpp"
#include "core/wire/codec.hpp"
#include "store/artifacts.hpp"
#include "store/connection.hpp"
#include "store/shrink.hpp"

namespace cubinary::store {

using core::Bytes;
using core::ByteView;
using core::ErrorCode;
using core::fail;
using core::Result;

namespace {

/// A longer prefix finds more to refer to, but is walked over once for each artifact compressed.
/// Whole cubins in a prefix beat a dictionary trained on them at every size: configs of one kernel
/// share long runs of code.
constexpr std::uint64_t k_max_prefix_bytes = 1U << 20U;
/// Nearly all of the saving is in the prefix: higher levels take many times longer for little.
constexpr int k_level = 3;
/// Saving less than this part of all is not worth a dictionary to unpack for every read.
constexpr std::uint64_t k_worthwhile = 16;
/// Stored artifacts replaced in one transaction.
constexpr std::size_t k_batch = 256;

struct Stored {
  ArtifactId id = 0;
  core::Digest digest;
  std::uint64_t size = 0;
  std::uint64_t stored_size = 0;
};

struct Plan {
  std::vector<Stored> artifacts;
  std::uint64_t dictionary_bytes = 0;  ///< all dictionaries of the pair now, as stored
  std::uint64_t covered = 0;           ///< artifacts the current dictionary was chosen for
};

Result<Plan> make_plan(Connection& connection, std::string_view kernel, std::string_view target) {
  Plan plan;
  TRY_ASSIGN(Statement row,
             connection.query("SELECT DISTINCT a.id, a.digest, a.size, a.stored_size "
                              "FROM candidate c JOIN artifact a ON a.id = c.artifact_id "
                              "WHERE c.kernel_id = (SELECT id FROM kernel WHERE name = ?1) "
                              "AND c.target = ?2 ORDER BY a.id",
                              kernel, target));
  while (true) {
    TRY_ASSIGN(const bool more, row.step());
    if (!more) {
      break;
    }
    plan.artifacts.push_back({row.integer(0), row.digest(1), row.size(2), row.size(3)});
  }
  TRY_ASSIGN(const auto bytes,
             connection.find_integer("SELECT coalesce(sum(length(stored)), 0) FROM dictionary "
                                     "WHERE kernel = ?1 AND target = ?2",
                                     kernel, target));
  plan.dictionary_bytes = static_cast<std::uint64_t>(bytes.value_or(0));
  TRY_ASSIGN(const auto covered,
             connection.find_integer("SELECT covers FROM dictionary WHERE id = (SELECT "
                                     "dictionary_id FROM current_dictionary "
                                     "WHERE kernel = ?1 AND target = ?2)",
                                     kernel, target));
  plan.covered = static_cast<std::uint64_t>(covered.value_or(0));
  return plan;
}

/// The new dictionary's bytes, and where in them an artifact lies that is one of its parts.
struct Prefix {
  Bytes bytes;
  std::vector<std::optional<std::uint64_t>> offsets;  ///< one an artifact of the plan
};

/// Artifacts evenly spread over the order they were built in, which goes by types and config, one
/// after the other: as large a share of all as fits.
Result<Prefix> make_prefix(const Reader& reader, std::span<const Stored> artifacts) {
  std::uint64_t total = 0;
  for (const Stored& artifact : artifacts) {
    total += artifact.size;
  }
  const double share = static_cast<double>(std::min(total, k_max_prefix_bytes)) /
                       static_cast<double>(std::max<std::uint64_t>(total, 1));
  Prefix prefix;
  std::uint64_t passed = 0;
  for (const Stored& artifact : artifacts) {
    // Having passed a part of all bytes, the same part of the prefix should be there. Half a byte
    // more, lest rounding leaves one out where all fit.
    passed += artifact.size;
    const std::uint64_t offset = prefix.bytes.size();
    const bool due =
        static_cast<double>(offset + artifact.size) <= static_cast<double>(passed) * share + 0.5;
    prefix.offsets.emplace_back();
    if (due || offset == 0) {
      TRY_ASSIGN(const Bytes raw, read_artifact(reader, artifact.digest));
      prefix.bytes.insert(prefix.bytes.end(), raw.begin(), raw.end());
      prefix.offsets.back() = offset;
    }
  }
  return prefix;
}

/// What a thread compresses with.
struct Packer {
  Reader reader;
  core::Compressor compressor;
};

/// The old bytes are gone for good once this is written, so what replaces them is read back first.
Result<Bytes> pack_again(Packer& packer, const Stored& artifact, ByteView dictionary) {
  TRY_ASSIGN(const Bytes raw, read_artifact(packer.reader, artifact.digest));
  TRY_ASSIGN(Bytes frame, packer.compressor.compress(raw));
  core::DecompressOptions options;
  options.max_bytes = artifact.size;
  options.prefix = dictionary;
  TRY_ASSIGN(const Bytes back, core::decompress(frame, options));
  if (back != raw) {
    return fail(ErrorCode::internal, "artifact " + artifact.digest.text() +
                                         " does not survive compression; it stays as it was");
  }
  return frame;
}

/// Where and how one artifact is kept from now on.
struct Kept {
  ArtifactId id = 0;
  std::optional<std::uint64_t> offset;  ///< in the dictionary; else
  Bytes frame;
};

Result<void> replace(Connection& connection, std::span<const Kept> artifacts,
                     DictionaryId dictionary) {
  // Rows that only shrink would leave their pages half empty: out with all of them, then in again.
  for (const Kept& artifact : artifacts) {
    TRY(connection.run("DELETE FROM artifact_data WHERE artifact_id = ?1", artifact.id));
  }
  for (const Kept& artifact : artifacts) {
    TRY(
        connection.run("UPDATE artifact SET stored_size = ?2, dictionary_id = ?3, "
                       "dictionary_offset = ?4 WHERE id = ?1",
                       artifact.id, artifact.frame.size(), dictionary, artifact.offset));
    if (!artifact.offset) {
      // Nothing to insert for one that gc dropped meanwhile.
      TRY(
          connection.run("INSERT INTO artifact_data (artifact_id, bytes) "
                         "SELECT id, ?2 FROM artifact WHERE id = ?1",
                         artifact.id, core::ByteView(artifact.frame)));
    }
  }
  return {};
}

/// Drops the pair's earlier dictionaries and says how many artifacts the new one is for: only now
/// is it not chosen again.
Result<void> finish(Connection& connection, std::string_view kernel, std::string_view target,
                    DictionaryId dictionary, std::size_t count) {
  TRY(connection.run("UPDATE dictionary SET covers = ?2 WHERE id = ?1", dictionary, count));
  return connection.run(
      "DELETE FROM dictionary WHERE kernel = ?1 AND target = ?2 AND id <> ?3 "
      "AND NOT EXISTS (SELECT 1 FROM artifact a "
      "WHERE a.dictionary_id = dictionary.id)",
      kernel, target, dictionary);
}

}  // namespace

Result<std::uint64_t> repack_artifacts(Store& store, std::string_view kernel,
                                       std::string_view target, const RepackOptions& options) {
  Plan plan;
  Prefix prefix;
  {
    TRY_ASSIGN(const Reader reader, store.reader());
    TRY_ASSIGN(plan, make_plan(reader.connection(), kernel, target));
    if (plan.artifacts.size() < 2 || 2 * plan.artifacts.size() < 3 * plan.covered) {
      return 0;
    }
    TRY_ASSIGN(prefix, make_prefix(reader, plan.artifacts));
  }
  std::uint64_t before = plan.dictionary_bytes;
  std::vector<Kept> kept;
  std::vector<std::size_t> outside;  ///< artifacts that are no part of the dictionary
  for (std::size_t i = 0; i < plan.artifacts.size(); ++i) {
    before += plan.artifacts[i].stored_size;
    kept.push_back({plan.artifacts[i].id, prefix.offsets[i], {}});
    if (!prefix.offsets[i]) {
      outside.push_back(i);
    }
  }

  // The dictionary itself is one more piece of work beside its artifacts, and the longest.
  PreparedDictionary dictionary;
  const auto make_packer = [&]() -> Result<Packer> {
    core::CompressOptions packing;
    packing.level = k_level;
    packing.prefix = prefix.bytes;
    TRY_ASSIGN(core::Compressor compressor, core::Compressor::make(packing));
    TRY_ASSIGN(Reader reader, store.reader());
    return Packer{std::move(reader), std::move(compressor)};
  };
  const auto pack = [&](Packer& packer, std::size_t index) -> Result<void> {
    if (index == 0) {
      TRY_ASSIGN(dictionary, prepare_dictionary(false, prefix.bytes));
      return {};
    }
    const std::size_t artifact = outside[index - 1];
    TRY_ASSIGN(kept[artifact].frame, pack_again(packer, plan.artifacts[artifact], prefix.bytes));
    return {};
  };
  TRY(core::for_each_index(outside.size() + 1, options.threads, make_packer, pack));
  std::uint64_t after = dictionary.stored.size();
  for (const Kept& artifact : kept) {
    after += artifact.frame.size();
  }
  if (after + after / k_worthwhile >= before) {
    return 0;
  }

  DictionaryId id = 0;
  TRY(store.write([&](Writer& writer) -> Result<void> {
    TRY_ASSIGN(id, put_dictionary(writer, kernel, target, dictionary));
    return {};
  }));
  const std::span<const Kept> all = kept;
  for (std::size_t first = 0; first < all.size(); first += k_batch) {
    const std::size_t count = std::min(k_batch, all.size() - first);
    TRY(store.write([&](Writer& writer) {
      return replace(writer.connection(), all.subspan(first, count), id);
    }));
  }
  TRY(store.write(
      [&](Writer& writer) { return finish(writer.connection(), kernel, target, id, all.size()); }));
  if (options.shrink) {
    TRY(shrink(store));
  }
  return before - after;
}

}  // namespace cubinary::store
