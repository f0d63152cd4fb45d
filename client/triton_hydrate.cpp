// SPDX-License-Identifier: Apache-2.0
#include "client/triton_hydrate.hpp"

#include <algorithm>
#include <atomic>
#include <set>
#include <system_error>
#include <utility>

#include <sys/utsname.h>
#include <unistd.h>

#include "client/parallel.hpp"
#include "client/triton_folder.hpp"

namespace cubinary::client {
namespace {

using core::ErrorCode;
using core::fail;
using core::Result;

using Catalogues = std::vector<std::shared_ptr<const core::TritonCatalogue>>;

std::string joined(const std::vector<core::Target>& targets) {
  std::string text;
  for (const core::Target& target : targets) {
    text += (text.empty() ? "" : ", ") + target.text();
  }
  return text.empty() ? "none" : text;
}

/// The catalogues of the targets asked for that have Triton entries.
Result<Catalogues> catalogues_of(Release& release, const TritonFilter& filter, Deadline deadline) {
  Catalogues catalogues;
  std::vector<core::Target> with_triton;
  for (const core::Target& target : release.targets()) {
    const bool named =
        filter.targets.empty() || std::ranges::find(filter.targets, target) != filter.targets.end();
    const bool runs = !filter.device_class || target.runs_on(filter.device_class->capability);
    TRY_ASSIGN(auto catalogue, release.triton(target, deadline));
    if (catalogue) {
      with_triton.push_back(target);
    }
    if (catalogue && named && runs) {
      catalogues.push_back(std::move(catalogue));
    }
  }
  if (catalogues.empty()) {
    std::string wanted = filter.targets.empty() ? std::string() : " for " + joined(filter.targets);
    if (filter.device_class) {
      wanted += " that runs on " + filter.device_class->text();
    }
    return fail(ErrorCode::no_match, "release " + release.name() + " has no Triton entry" + wanted +
                                         "; its targets with Triton entries are " +
                                         joined(with_triton));
  }
  return catalogues;
}

/// Where a file's bytes have to go.
struct Use {
  const std::string* folder;
  const std::string* file;
};

/// One run over a plan.
class Hydration {
 public:
  Hydration(Release& release, const TritonPlan& plan, TritonFolder& folder, std::size_t width,
            Deadline deadline)
      : m_release(release), m_plan(plan), m_folder(folder), m_width(width), m_deadline(deadline) {}

  Result<void> run(HydrateReport& report) {
    TRY(find_missing());
    report.folders_kept = m_plan.folders.size() - m_missing.size();
    report.folders_written = m_missing.size();
    if (m_missing.empty() && m_folder.holds_index(m_plan.index)) {
      return {};
    }
    TRY(m_folder.begin());
    TRY(stage_all());
    TRY(parallel_for(m_missing.size(), m_width, [&](std::size_t i) {
      return m_folder.publish(m_missing[i]->first, m_missing[i]->second);
    }));
    TRY(m_folder.publish_index(m_plan.index));
    report.files_written = m_files;
    report.bytes_written = m_bytes;
    report.packs_received = m_packs.size();
    report.bytes_received = m_received;
    return {};
  }

 private:
  using Entry = std::pair<const std::string, PlannedFolder>;

  Result<void> find_missing() {
    std::vector<const Entry*> all;
    for (const Entry& entry : m_plan.folders) {
      all.push_back(&entry);
    }
    std::vector<char> held(all.size(), 0);
    TRY(parallel_for(all.size(), m_width, [&](std::size_t i) -> Result<void> {
      held[i] = m_folder.holds(all[i]->first, all[i]->second) ? 1 : 0;
      return {};
    }));
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (held[i] == 0) {
        m_missing.push_back(all[i]);
      }
    }
    return {};
  }

  Result<void> stage(const std::string& folder, const std::string& file, core::ByteView bytes) {
    m_files += 1;
    m_bytes += bytes.size();
    return m_folder.stage(folder, file, bytes);
  }

  /// A pack at a time in each thread: what is held in memory is bounded by them, not by the
  /// release.
  Result<void> stage_all() {
    std::map<core::Digest, std::vector<Use>> uses;
    for (const Entry* entry : m_missing) {
      for (const auto& [file, digest] : entry->second.files) {
        uses[digest].push_back({&entry->first, &file});
      }
    }
    std::set<core::Digest> needed;
    for (const auto& [digest, used] : uses) {
      needed.insert(m_plan.places.at(digest));
    }
    for (const core::Digest& digest : needed) {
      m_packs.push_back(&m_plan.packs.at(digest));
      m_received += m_packs.back()->size;
    }
    // The largest first: it must not be the last one running.
    std::ranges::sort(m_packs, [](const auto* a, const auto* b) {
      return a->raw_size != b->raw_size ? a->raw_size > b->raw_size : a->digest < b->digest;
    });
    const auto unpack = [&](std::size_t i) -> Result<void> {
      const core::TritonPack& pack = *m_packs[i];
      TRY_ASSIGN(const core::Bytes raw, m_release.triton_pack(pack, m_deadline));
      std::uint64_t offset = 0;
      for (const core::TritonPack::File& file : pack.files) {
        const core::ByteView bytes = core::ByteView(raw).subspan(offset, file.size);
        offset += file.size;
        const auto wanted = uses.find(file.digest);
        if (wanted == uses.end() || m_plan.places.at(file.digest) != pack.digest) {
          continue;
        }
        for (const Use& use : wanted->second) {
          TRY(stage(*use.folder, *use.file, bytes));
        }
      }
      return {};
    };
    TRY(parallel_for(m_packs.size(), m_width, unpack));
    return parallel_for(m_missing.size(), m_width, [&](std::size_t i) -> Result<void> {
      for (const auto& [file, text] : m_missing[i]->second.made) {
        TRY(stage(m_missing[i]->first, file, core::as_bytes(text)));
      }
      return {};
    });
  }

  Release& m_release;
  const TritonPlan& m_plan;
  TritonFolder& m_folder;
  std::size_t m_width;
  Deadline m_deadline;
  std::vector<const Entry*> m_missing;
  std::vector<const core::TritonPack*> m_packs;
  std::atomic<std::size_t> m_files{0};
  std::atomic<std::uint64_t> m_bytes{0};
  std::uint64_t m_received = 0;
};

}  // namespace

std::shared_ptr<Cache> triton_document_cache(const std::filesystem::path& folder, Log log) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  Cache::Options options;
  if (::access(folder.c_str(), W_OK | X_OK) == 0) {
    options.directory = folder / "cubinary" / "fetched";
  }
  options.log = std::move(log);
  return std::make_shared<Cache>(std::move(options));
}

std::string this_machine() {
  struct utsname system{};
  return ::uname(&system) == 0 ? system.machine : "";
}

Result<HydrateReport> hydrate_triton(Release& release, const HydrateOptions& options,
                                     Deadline deadline) {
  TRY_ASSIGN(const Catalogues catalogues, catalogues_of(release, options.filter, deadline));
  const std::filesystem::path seen_at =
      options.seen_at.empty() ? cache_path(options.folder) : options.seen_at;
  TRY_ASSIGN(const TritonPlan plan,
             plan_triton(catalogues, options.filter,
                         {release.name(), release.index_digest(),
                          release.statement() ? release.key_id() : "", options.source},
                         seen_at));
  TRY_ASSIGN(TritonFolder folder, TritonFolder::open(options.folder, deadline));
  HydrateReport report;
  report.kernels = plan.kernels;
  report.host = plan.host;
  report.autotune = plan.autotune;
  report.autotune_class = plan.autotune_class;
  report.folder = folder.path();
  report.index = core::sha256(plan.index);
  Hydration hydration(release, plan, folder, options.width, deadline);
  TRY(hydration.run(report));

  if (plan.host == 0) {
    report.notes.push_back(
        "the release holds no host module for this Python: programs will need a C compiler");
  } else if (!folder.executable()) {
    report.notes.push_back(folder.path().string() +
                           " lies on a file system mounted noexec: Python cannot load host "
                           "modules from there");
  }
  if (options.filter.device_class && plan.autotune > 0 &&
      plan.autotune_class != options.filter.device_class->text()) {
    report.notes.push_back(plan.autotune_class.empty()
                               ? "no autotune result is for a GPU of this capability"
                               : "autotune results are those of " + plan.autotune_class +
                                     ": none were captured on " +
                                     options.filter.device_class->text());
  }
  return report;
}

}  // namespace cubinary::client
