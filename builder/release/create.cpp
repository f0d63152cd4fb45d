// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <mutex>
#include <set>
#include <utility>

#include <fnmatch.h>

#include "builder/release/packer.hpp"
#include "builder/release/release.hpp"
#include "builder/release/shelf.hpp"
#include "builder/release/table.hpp"
#include "builder/release/triton_part.hpp"
#include "core/base/nearest.hpp"
#include "core/model/target.hpp"
#include "core/wire/oci.hpp"
#include "core/wire/revocation.hpp"
#include "store/artifacts.hpp"
#include "store/candidates.hpp"
#include "store/changes.hpp"

namespace cubinary::builder {
namespace {

namespace oci = core::oci;
using core::ErrorCode;
using core::fail;
using core::Result;

constexpr int k_pack_level = 19;

/// What one target's manifest is made of.
struct TargetSelection {
  std::string target;
  std::vector<SelectedTable> kernels;  ///< sorted by name
  TritonSelection triton;
};

std::string join(const std::vector<std::string>& words, std::string_view separator) {
  std::string text;
  for (const std::string& word : words) {
    text += (text.empty() ? "" : std::string(separator)) + word;
  }
  return text;
}

Result<void> check_name(const store::Reader& reader, const std::string& name) {
  if (!oci::is_tag(name)) {
    return fail(ErrorCode::usage,
                "\"" + name +
                    "\" cannot name a release: use 1 to 128 letters, digits, `_`, "
                    "`.` or `-`, the first not `.` or `-`");
  }
  if (name == core::k_revocations_tag) {
    return fail(ErrorCode::usage,
                "\"" + name + "\" cannot name a release: it is the tag of the revocation list");
  }
  if (name.starts_with("sha256-")) {
    return fail(ErrorCode::usage,
                "\"" + name + "\" cannot name a release: `sha256-…` is how signatures are tagged");
  }
  TRY_ASSIGN(const auto release, store::find_release(reader, name));
  if (release) {
    return fail(ErrorCode::exists, "release " + name +
                                       " exists already and releases never change: choose another "
                                       "name");
  }
  TRY_ASSIGN(const auto tag, store::find_tag(reader, name));
  if (tag) {
    return fail(ErrorCode::exists, name + " is a channel already: choose another release name");
  }
  return {};
}

/// The kernels asked for; none is an error unless Triton has something to release.
Result<std::vector<store::Kernel>> choose_kernels(const store::Reader& reader,
                                                  const ReleaseRequest& request, bool has_triton) {
  const std::string& glob = request.kernels;
  std::vector<store::Kernel> kernels;
  if (request.cuda) {
    TRY_ASSIGN(kernels, store::list_kernels(reader));
  }
  std::sort(kernels.begin(), kernels.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  std::vector<std::string> names;
  if (request.triton) {
    TRY_ASSIGN(const auto triton, triton_kernel_names(reader));
    names.assign(triton.begin(), triton.end());
  }
  if (kernels.empty() && names.empty()) {
    return fail(ErrorCode::not_found,
                "the store holds no kernels: run `cubinary build` or `cubinary triton capture` "
                "first");
  }
  for (const store::Kernel& kernel : kernels) {
    names.push_back(kernel.name);
  }
  if (!glob.empty()) {
    std::erase_if(kernels, [&](const store::Kernel& kernel) {
      return ::fnmatch(glob.c_str(), kernel.name.c_str(), 0) != 0;
    });
  }
  if (kernels.empty() && !has_triton) {
    return fail(ErrorCode::not_found, "no kernel in the store matches \"" + glob + "\"" +
                                          core::did_you_mean(glob, names) + "; it holds " +
                                          join(names, ", "));
  }
  return kernels;
}

/// Targets with a usable current candidate of each of these kernels, by kernel name.
Result<std::map<std::string, std::set<std::string>>> built_targets(
    const store::Reader& reader, const std::vector<store::Kernel>& kernels) {
  std::map<std::string, std::set<std::string>> targets;
  for (const store::Kernel& kernel : kernels) {
    store::CandidateFilter filter;
    filter.kernel = kernel.name;
    filter.role = store::CandidateRole::kernel;
    auto& built = targets[kernel.name];
    TRY(store::for_each_candidate(reader, filter, false,
                                  [&](const store::Candidate& candidate) -> Result<void> {
                                    if (candidate.status == store::CandidateStatus::ok) {
                                      built.insert(candidate.target);
                                    }
                                    return {};
                                  }));
  }
  return targets;
}

/// The targets to release, ascending: those asked for, or all there are.
Result<std::vector<std::string>> choose_targets(
    const std::map<std::string, std::set<std::string>>& built,
    const std::map<std::string, TritonSelection>& captured, std::vector<std::string> wanted) {
  std::set<std::string> all;
  for (const auto& [target, selection] : captured) {
    all.insert(target);
  }
  for (const auto& [kernel, targets] : built) {
    all.insert(targets.begin(), targets.end());
  }
  if (all.empty()) {
    return fail(ErrorCode::not_found,
                "nothing to release: no candidate compiled; run `cubinary build` first");
  }
  const std::vector<std::string> known(all.begin(), all.end());
  for (const std::string& target : wanted) {
    TRY(core::Target::parse(target));
    if (!all.contains(target)) {
      return fail(ErrorCode::not_found,
                  "nothing to release for " + target + ": the store's candidates are for " +
                      join(known, ", ") + "; run `cubinary build --target " + target + "` first");
    }
  }
  if (wanted.empty()) {
    wanted = known;
  }
  std::vector<core::Target> targets;
  for (const std::string& target : wanted) {
    TRY_ASSIGN(const core::Target parsed, core::Target::parse(target));
    targets.push_back(parsed);
  }
  std::sort(targets.begin(), targets.end());
  targets.erase(std::unique(targets.begin(), targets.end()), targets.end());
  std::vector<std::string> names;
  for (const core::Target& target : targets) {
    names.push_back(target.text());
  }
  return names;
}

/// Chooses every entry of the release, before any artifact is read, so that all that is missing is
/// said at once.
Result<std::vector<TargetSelection>> select_all(const store::Reader& reader,
                                                const ReleaseRequest& request,
                                                std::vector<std::string>& notes) {
  std::map<std::string, TritonSelection> captured;
  if (request.triton) {
    TRY_ASSIGN(captured, select_triton(reader, request.kernels));
  }
  TRY_ASSIGN(const auto kernels, choose_kernels(reader, request, !captured.empty()));
  TRY_ASSIGN(const auto built, built_targets(reader, kernels));
  TRY_ASSIGN(const auto targets, choose_targets(built, captured, request.targets));

  std::vector<TargetSelection> selections;
  std::vector<std::string> problems;
  for (const std::string& target : targets) {
    TargetSelection selection{target, {}, std::move(captured[target])};
    for (const store::Kernel& kernel : kernels) {
      if (!built.at(kernel.name).contains(target)) {
        notes.push_back("kernel " + kernel.name + " has no cubin for " + target + ": left out");
        continue;
      }
      TRY_ASSIGN(SelectedTable selected, select_table(reader, kernel, target));
      problems.insert(problems.end(), selected.problems.begin(), selected.problems.end());
      notes.insert(notes.end(), selected.notes.begin(), selected.notes.end());
      if (!selected.table.entries.empty()) {
        selection.kernels.push_back(std::move(selected));
      }
    }
    if (!selection.kernels.empty() || !selection.triton.kernels.empty()) {
      selections.push_back(std::move(selection));
    }
  }
  if (!problems.empty() && (!request.keep_going || selections.empty())) {
    return fail(ErrorCode::compile_failed,
                "release " + request.name + " was not made: what every shape needs is missing" +
                    (request.keep_going ? "" : " (--keep-going leaves it out)") + "\n  " +
                    join(problems, "\n  "));
  }
  notes.insert(notes.end(), problems.begin(), problems.end());
  return selections;
}

/// Makes what a release is made of, from one snapshot of the store.
class Assembly {
 public:
  Assembly(const store::Reader& reader, const ReleaseRequest& request, Shelf& shelf)
      : m_reader(reader), m_request(request), m_shelf(shelf) {}

  /// Packs, catalogues and describes one target.
  Result<void> add_target(TargetSelection selection,
                          const std::function<void(const ReleasedKernel&)>& on_kernel) {
    TRY_ASSIGN(const core::Target target, core::Target::parse(selection.target));
    core::Catalogue catalogue{m_request.name, target, {}, 0, {}};
    oci::Manifest manifest;
    manifest.artifact_type = oci::k_release_artifact_type;
    Packer packer(k_pack_level);
    for (SelectedTable& selected : selection.kernels) {
      catalogue.toolkit = std::max(catalogue.toolkit, selected.toolkit);
      catalogue.minimum_driver = std::max(catalogue.minimum_driver, selected.minimum_driver);
      std::size_t artifacts = 0;
      TRY_ASSIGN(core::Bytes raw, concatenate(selected.table, artifacts));
      TRY(packer.add(std::move(raw), [&, artifacts](const core::Bytes& frame) -> Result<void> {
        TRY_ASSIGN(oci::Descriptor pack, m_shelf.add(oci::k_pack_type, frame));
        selected.table.pack = pack.digest;
        selected.table.pack_size = pack.size;
        pack.annotations.emplace(oci::k_kernel_annotation, selected.table.name);
        manifest.layers.push_back(std::move(pack));
        note(selected.table, selection.target, artifacts, on_kernel);
        return {};
      }));
    }
    TRY(packer.finish());
    for (SelectedTable& selected : selection.kernels) {
      catalogue.kernels.push_back(std::move(selected.table));
    }

    if (!selection.triton.kernels.empty()) {
      TRY(add_triton(std::move(selection.triton), target, catalogue, manifest));
    }

    const std::string json = core::catalogue_to_json(catalogue);
    if (json.size() > oci::k_max_catalogue_bytes) {
      return fail(ErrorCode::too_large, selection.target + ": the catalogue has " +
                                            std::to_string(json.size()) +
                                            " bytes and clients take at most " +
                                            std::to_string(oci::k_max_catalogue_bytes) +
                                            "; release fewer kernels at once (--kernel)");
    }
    // What clients would refuse must never be frozen, so it is read here as they will.
    if (auto read = core::catalogue_from_json(json); !read) {
      return fail(read.error().with_context("the catalogue for " + selection.target +
                                            " would not be accepted by clients"));
    }
    TRY_ASSIGN(manifest.config, m_shelf.add(oci::k_catalogue_type, core::as_bytes(json)));
    const std::string manifest_json = oci::to_json(manifest);
    if (manifest_json.size() > oci::k_max_document_bytes) {
      return fail(ErrorCode::too_large,
                  selection.target + ": the manifest names " +
                      std::to_string(manifest.layers.size()) +
                      " packs, more than clients take; release fewer kernels at once (--kernel)");
    }
    TRY_ASSIGN(oci::Descriptor descriptor,
               m_shelf.add(oci::k_manifest_type, core::as_bytes(manifest_json)));
    descriptor.annotations.emplace(oci::k_target_annotation, selection.target);
    m_index.manifests.push_back(std::move(descriptor));
    m_new.catalogues.push_back(std::move(catalogue));
    m_new.release.targets.push_back(selection.target);
    return {};
  }

  /// Makes the index: afterwards all that the release needs is on the shelf.
  Result<store::NewRelease> finish() {
    TRY_ASSIGN(const oci::Descriptor index,
               m_shelf.add(oci::k_index_type, core::as_bytes(oci::to_json(m_index))));
    m_new.release.name = m_request.name;
    m_new.release.index = index.digest;
    m_new.release.created = m_request.created;
    m_new.release.expires = m_request.expires;
    m_new.blobs.assign(m_shelf.digests().begin(), m_shelf.digests().end());
    m_new.artifacts.assign(m_artifacts.begin(), m_artifacts.end());
    return std::move(m_new);
  }

  [[nodiscard]] std::vector<ReleasedKernel> take_kernels() { return std::move(m_kernels); }
  [[nodiscard]] std::vector<ReleasedTriton> take_triton() { return std::move(m_triton); }

 private:
  /// The table's distinct artifacts, ascending by digest, whose places go into the entries, and how
  /// many they are.
  Result<core::Bytes> concatenate(core::KernelTable& table, std::size_t& artifacts) {
    std::map<core::Digest, std::pair<std::uint64_t, std::uint64_t>> places;
    for (const core::TableEntry& entry : table.entries) {
      places.emplace(entry.artifact, std::pair(0, 0));
    }
    core::Bytes raw;
    for (auto& [digest, place] : places) {
      TRY_ASSIGN(const core::Bytes artifact, store::read_artifact(m_reader, digest));
      place = {raw.size(), artifact.size()};
      raw.insert(raw.end(), artifact.begin(), artifact.end());
      m_artifacts.insert(digest);
    }
    for (core::TableEntry& entry : table.entries) {
      std::tie(entry.offset, entry.size) = places.at(entry.artifact);
    }
    table.pack_raw_size = raw.size();
    artifacts = places.size();
    return raw;
  }

  /// A kernel's line of what is told of the release.
  void note(const core::KernelTable& table, const std::string& target, std::size_t artifacts,
            const std::function<void(const ReleasedKernel&)>& on_kernel) {
    ReleasedKernel line{table.name,          target,         table.entries.size(), 0, artifacts,
                        table.pack_raw_size, table.pack_size};
    for (const core::TableEntry& entry : table.entries) {
      line.tuned += entry.origin == core::Origin::tuned ? 1 : 0;
    }
    if (on_kernel) {
      on_kernel(line);
    }
    m_kernels.push_back(std::move(line));
  }

  Result<void> add_triton(TritonSelection selection, const core::Target& target,
                          core::Catalogue& catalogue, oci::Manifest& manifest) {
    ReleasedTriton line{target.text(),
                        selection.kernels.size(),
                        selection.host.size(),
                        selection.autotune.size(),
                        0,
                        0};
    TRY_ASSIGN(const TritonLayers layers,
               freeze_triton(m_reader, std::move(selection), m_request.name, target,
                             [&](std::string_view media_type, core::ByteView bytes) {
                               return m_shelf.add(media_type, bytes);
                             }));
    manifest.layers.insert(manifest.layers.end(), layers.layers.begin(), layers.layers.end());
    m_artifacts.insert(layers.artifacts.begin(), layers.artifacts.end());
    catalogue.toolkit = std::max(catalogue.toolkit, layers.toolkit);
    catalogue.minimum_driver = std::max(catalogue.minimum_driver, layers.minimum_driver);
    line.raw_bytes = layers.raw_bytes;
    line.pack_bytes = layers.pack_bytes;
    m_triton.push_back(std::move(line));
    return {};
  }

  const store::Reader& m_reader;
  const ReleaseRequest& m_request;
  Shelf& m_shelf;
  store::NewRelease m_new;
  oci::Index m_index;
  std::set<core::Digest> m_artifacts;
  std::vector<ReleasedKernel> m_kernels;
  std::vector<ReleasedTriton> m_triton;
};

}  // namespace

std::string describe(const ReleasedKernel& kernel) {
  const std::size_t untuned = kernel.entries - kernel.tuned;
  return kernel.kernel + " " + kernel.target + ": " + std::to_string(kernel.entries) +
         (kernel.entries == 1 ? " entry, " : " entries, ") + std::to_string(kernel.tuned) +
         " tuned, " + std::to_string(untuned) + " untuned" +
         (untuned == 0 ? "" : " (manifest default)");
}

std::string describe(const ReleasedTriton& triton) {
  const auto count = [](std::size_t number, const std::string& what) {
    return std::to_string(number) + " " + what + (number == 1 ? "" : "s");
  };
  return "triton " + triton.target + ": " + count(triton.kernels, "kernel") + ", " +
         count(triton.host, "host module") + ", " + count(triton.autotune, "autotune result");
}

Result<CreatedRelease> create_release(store::Store& store, const ReleaseRequest& request,
                                      const std::function<void(const ReleasedKernel&)>& on_kernel) {
  if (request.expires != 0 && request.expires <= request.created) {
    return fail(ErrorCode::usage, "release " + request.name + " would expire before it is made");
  }
  // One release of a store at a time: serials must grow with what the releases hold.
  static std::mutex one_at_a_time;
  const std::scoped_lock making(one_at_a_time);

  CreatedRelease created;
  TRY_ASSIGN(Shelf shelf, Shelf::open(store.path().parent_path()));
  store::NewRelease made;
  {
    // All is chosen and read from one snapshot, so that nothing changes under it, and packed
    // without holding up whoever publishes or tunes meanwhile: their changes are for the next
    // release.
    TRY_ASSIGN(const store::Reader reader, store.reader());
    TRY(check_name(reader, request.name));
    TRY_ASSIGN(auto selections, select_all(reader, request, created.notes));
    Assembly assembly(reader, request, shelf);
    for (TargetSelection& selection : selections) {
      TRY(assembly.add_target(std::move(selection), on_kernel));
    }
    TRY_ASSIGN(made, assembly.finish());
    created.kernels = assembly.take_kernels();
    created.triton = assembly.take_triton();
  }
  const auto body = [&](store::Writer& writer) -> Result<void> {
    TRY(check_name(writer.reader(), request.name));
    TRY(shelf.put(writer));
    auto put = store::put_release(writer, made);
    if (!put) {
      return fail(put.error().code == ErrorCode::not_found
                      ? put.error().with_context("what the release was made of was collected "
                                                 "meanwhile: make it again")
                      : put.error());
    }
    created.release = *std::move(put);
    return store::record_change(
        writer, "release create", created.release.name,
        {{"serial", created.release.serial}, {"index", created.release.index.text()}});
  };
  TRY(store.write(body));
  return created;
}

}  // namespace cubinary::builder
