// SPDX-License-Identifier: Apache-2.0
#include "builder/triton/ingest.hpp"

#include <utility>

#include "store/artifacts.hpp"
#include "store/triton.hpp"

namespace cubinary::builder {
namespace {

using core::Result;

/// One transaction takes this many bytes of files or this many things: each costs a sync of the
/// disk, and all of it is held in memory until then.
constexpr std::uint64_t k_batch_bytes = 64U << 20U;
constexpr std::size_t k_batch_items = 512;

/// Gathers items and stores a batch at a time.
class Intake {
 public:
  Intake(store::Store& store, TritonIngest& report, std::int64_t now)
      : m_store(store), m_report(report), m_now(now) {}

  Result<void> add(TritonItem item) {
    for (const auto& [digest, bytes] : item.contents) {
      m_bytes += bytes.size();
    }
    m_items.push_back(std::move(item));
    return m_bytes >= k_batch_bytes || m_items.size() >= k_batch_items ? flush() : Result<void>();
  }

  Result<void> flush() {
    if (m_items.empty()) {
      return {};
    }
    // Compressed before the transaction begins, what is stored already left out.
    std::vector<store::PreparedArtifact> prepared;
    {
      TRY_ASSIGN(const store::Reader reader, m_store.reader());
      for (const TritonItem& item : m_items) {
        for (const auto& [digest, bytes] : item.contents) {
          TRY_ASSIGN(const bool known, store::has_artifact(reader, digest));
          if (!known) {
            TRY_ASSIGN(store::PreparedArtifact artifact, store::prepare_artifact(bytes, nullptr));
            prepared.push_back(std::move(artifact));
          }
        }
      }
    }
    TritonIngest counted = m_report;
    const auto body = [&](store::Writer& writer) -> Result<void> {
      for (const store::PreparedArtifact& artifact : prepared) {
        TRY(store::put_artifact(writer, artifact));
      }
      for (const TritonItem& item : m_items) {
        TRY(put(writer, item, counted));
      }
      return {};
    };
    TRY(m_store.write(body));
    m_report = std::move(counted);
    m_items.clear();
    m_bytes = 0;
    return {};
  }

 private:
  Result<void> put(store::Writer& writer, const TritonItem& item, TritonIngest& counted) const {
    TritonCount* count = nullptr;
    Result<store::PutResult> result = store::PutResult::unchanged;
    std::uint64_t bytes = 0;
    if (const auto* kernel = std::get_if<CapturedKernel>(&item.what)) {
      count = &counted.kernels;
      result = store::put_triton_kernel(writer, kernel->target, kernel->kernel, m_now);
    } else if (const auto* host = std::get_if<core::TritonHost>(&item.what)) {
      count = &counted.host;
      result = store::put_triton_host(writer, *host, m_now);
    } else if (const auto* autotune = std::get_if<core::TritonAutotune>(&item.what)) {
      count = &counted.autotune;
      result = store::put_triton_autotune(writer, *autotune, m_now);
    } else {
      const auto& record = std::get<std::string>(item.what);
      count = &counted.records;
      bytes = record.size();
      result = store::put_triton_record(writer, record, m_now);
    }
    TRY_ASSIGN(const store::PutResult done, std::move(result));
    for (const auto& [digest, content] : item.contents) {
      bytes += content.size();
    }
    count->bytes += bytes;
    switch (done) {
      case store::PutResult::added:
        ++count->added;
        break;
      case store::PutResult::replaced:
        ++count->replaced;
        break;
      case store::PutResult::unchanged:
        ++count->unchanged;
        break;
    }
    return {};
  }

  store::Store& m_store;
  TritonIngest& m_report;
  std::int64_t m_now;
  std::vector<TritonItem> m_items;
  std::uint64_t m_bytes = 0;
};

}  // namespace

void add(TritonIngest& sum, const TritonIngest& more) {
  const auto plus = [](TritonCount& count, const TritonCount& other) {
    count.added += other.added;
    count.replaced += other.replaced;
    count.unchanged += other.unchanged;
    count.bytes += other.bytes;
  };
  plus(sum.kernels, more.kernels);
  plus(sum.host, more.host);
  plus(sum.autotune, more.autotune);
  plus(sum.records, more.records);
  sum.notes.insert(sum.notes.end(), more.notes.begin(), more.notes.end());
}

Result<TritonIngest> ingest_triton(store::Store& store, const std::filesystem::path& folder,
                                   const TritonFolderOptions& options, std::int64_t now) {
  TritonIngest report;
  std::vector<std::string> notes;
  Intake intake(store, report, now);
  TRY(read_triton_folder(
      folder, options, [&](TritonItem item) { return intake.add(std::move(item)); },
      [&](const std::string& note) { notes.push_back(note); }));
  TRY(intake.flush());
  report.notes = std::move(notes);
  return report;
}

}  // namespace cubinary::builder
