// SPDX-License-Identifier: Apache-2.0
#include "builder/plan.hpp"

#include <algorithm>
#include <set>
#include <system_error>

#include <fnmatch.h>

#include "builder/recheck.hpp"
#include "core/base/nearest.hpp"

namespace cubinary::builder {

namespace fs = std::filesystem;
using core::Backend;
using core::ErrorCode;
using core::fail;
using core::Manifest;
using core::Result;
using core::Target;

namespace {

constexpr const char* k_manifest_name = "kernel.toml";

Result<void> find_manifest_files(const fs::path& folder, std::set<fs::path>& files) {
  std::error_code error;
  if (fs::is_regular_file(folder, error)) {
    if (folder.filename() != k_manifest_name) {
      return fail(ErrorCode::usage, folder.string() + " is no manifest: name a " + k_manifest_name +
                                        ", its folder, or a folder of such");
    }
    files.insert(folder.lexically_normal());
    return {};
  }
  if (fs::is_regular_file(folder / k_manifest_name, error)) {
    files.insert((folder / k_manifest_name).lexically_normal());
    return {};
  }
  if (!fs::is_directory(folder, error)) {
    return fail(ErrorCode::not_found,
                "no folder " + folder.string() +
                    ": name a kernel's folder or a folder of them (the default is kernels/)");
  }
  const std::size_t before = files.size();
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    std::error_code ignored;
    if (fs::is_regular_file(it->path() / k_manifest_name, ignored)) {
      files.insert((it->path() / k_manifest_name).lexically_normal());
    }
  }
  if (error) {
    return fail(ErrorCode::io, "cannot read " + folder.string() + ": " + error.message());
  }
  if (files.size() == before) {
    return fail(ErrorCode::not_found, "no " + std::string(k_manifest_name) + " in " +
                                          folder.string() + " or the folders in it");
  }
  return {};
}

/// Finds toolkits and asks compilers who they are, each at most once.
class Toolchains {
 public:
  Toolchains(store::Store& store, const PlanOptions& options)
      : m_store(store), m_options(options) {}

  struct Known {
    Toolkit toolkit;
    store::Toolchain toolchain;
  };
  Result<Known> get(Backend backend) {
    if (const auto found = m_known.find(backend); found != m_known.end()) {
      return found->second;
    }
    Known known;
    TRY_ASSIGN(known.toolkit, find_toolkit(backend, m_options.toolkit));
    const std::string probe = probe_name(known.toolkit, backend);
    std::optional<std::string> text;
    {
      TRY_ASSIGN(const store::Reader reader, m_store.reader());
      TRY_ASSIGN(text, store::find_toolchain_probe(reader, probe));
    }
    std::optional<store::Toolchain> kept = text ? toolchain_from_text(*text) : std::nullopt;
    if (kept) {
      known.toolchain = std::move(*kept);
    } else {
      TRY_ASSIGN(known.toolchain, identify(known.toolkit, backend, m_options.worker));
      TRY(m_store.write([&](store::Writer& writer) {
        return store::put_toolchain_probe(writer, probe, toolchain_to_text(known.toolchain));
      }));
    }
    m_known.emplace(backend, known);
    return known;
  }

 private:
  store::Store& m_store;
  const PlanOptions& m_options;
  std::map<Backend, Known> m_known;
};

/// Whether untuned choices cover every shape: a property of the manifest's text, so it is tested
/// once.
Result<void> check_coverage(store::Store& store, const Manifest& manifest) {
  {
    TRY_ASSIGN(const store::Reader reader, store.reader());
    TRY_ASSIGN(const std::optional<store::Kernel> known, store::find_kernel(reader, manifest.name));
    if (known && !known->inputs.empty() && known->manifest == manifest.text) {
      return {};
    }
  }
  return core::check_default_covers(manifest);
}

Result<void> check_target(const Target& target, const PlannedKernel& kernel) {
  const core::ToolkitVersion first = core::first_toolkit(target);
  if (kernel.toolchain.version < first) {
    return fail(ErrorCode::environment,
                "kernel " + kernel.manifest.name + ": " + target.text() + " needs CUDA " +
                    first.text() + ", and the toolkit in " + kernel.toolkit.root.string() + " is " +
                    kernel.toolchain.version.text() + ": name a newer one with --toolkit DIR");
  }
  return {};
}

Result<void> scan_inputs(InputScanner& scanner, PlannedKernel& kernel) {
  const Manifest& manifest = kernel.manifest;
  InputFolders folders;
  folders.source = manifest.path.parent_path();
  for (const std::string& include : manifest.includes) {
    folders.includes.push_back(folders.source / include);
  }
  folders.toolkit = kernel.toolkit.includes;
  using store::CandidateRole;
  std::vector<CandidateRole> roles{CandidateRole::kernel};
  if (manifest.reference) {
    roles.push_back(CandidateRole::reference);
  }
  if (manifest.prepare) {
    roles.push_back(CandidateRole::prepare);
  }
  for (const CandidateRole role : roles) {
    auto inputs = scanner.scan(folders, sources_of(manifest, role));
    if (!inputs) {
      return fail(inputs.error().with_context("kernel " + manifest.name));
    }
    kernel.inputs.emplace(role, std::move(*inputs));
  }
  return {};
}

Result<void> add_candidates(Plan& plan, std::size_t index, const Target& target) {
  const PlannedKernel& kernel = plan.kernels[index];
  TRY_ASSIGN(std::vector<Variant> variants, expand(kernel.manifest, target));
  plan.candidates.reserve(plan.candidates.size() + variants.size());
  for (Variant& variant : variants) {
    PlannedCandidate candidate;
    candidate.kernel = index;
    candidate.target = target.text();
    TRY_ASSIGN(candidate.special, specialise(kernel.manifest, variant));
    candidate.code = code_key({&kernel.inputs.at(variant.role), &candidate.special,
                               kernel.manifest.includes, candidate.target, &kernel.toolchain});
    candidate.key = build_key(candidate.code, kernel.manifest.name, variant);
    candidate.variant = std::move(variant);
    plan.candidates.push_back(std::move(candidate));
  }
  return {};
}

}  // namespace

Result<std::vector<Manifest>> load_manifests(const std::vector<fs::path>& folders,
                                             const std::string& glob) {
  std::set<fs::path> files;
  for (const fs::path& folder : folders) {
    TRY(find_manifest_files(folder, files));
  }
  std::vector<Manifest> manifests;
  std::string broken;
  for (const fs::path& file : files) {
    auto manifest = core::load_manifest(file);
    if (!manifest) {
      broken += (broken.empty() ? "" : "\n") + manifest.error().message;
      continue;
    }
    manifests.push_back(std::move(*manifest));
  }
  if (!broken.empty()) {
    return fail(ErrorCode::manifest, broken);
  }
  std::sort(manifests.begin(), manifests.end(),
            [](const Manifest& a, const Manifest& b) { return a.name < b.name; });
  const auto twin =
      std::adjacent_find(manifests.begin(), manifests.end(),
                         [](const Manifest& a, const Manifest& b) { return a.name == b.name; });
  if (twin != manifests.end()) {
    return fail(ErrorCode::manifest, std::next(twin)->path.string() + ": kernel " + twin->name +
                                         " is also in " + twin->path.string() +
                                         ": give one of them another name");
  }
  if (!glob.empty()) {
    std::vector<std::string> names;
    for (const Manifest& manifest : manifests) {
      names.push_back(manifest.name);
    }
    std::erase_if(manifests, [&](const Manifest& manifest) {
      return fnmatch(glob.c_str(), manifest.name.c_str(), 0) != 0;
    });
    if (manifests.empty()) {
      return fail(ErrorCode::not_found,
                  "no kernel matches " + glob + core::did_you_mean(glob, names));
    }
  }
  return manifests;
}

Result<Plan> make_plan(store::Store& store, std::vector<Manifest> manifests,
                       const PlanOptions& options) {
  Plan plan;
  Toolchains toolchains(store, options);
  InputScanner scanner;
  for (Manifest& manifest : manifests) {
    TRY(check_coverage(store, manifest));
    PlannedKernel kernel;
    kernel.manifest = std::move(manifest);
    kernel.targets = options.targets.empty() ? kernel.manifest.targets : options.targets;
    if (kernel.targets.empty()) {
      return fail(ErrorCode::usage, "kernel " + kernel.manifest.name +
                                        " names no targets: add `targets = [\"sm_90\"]` to its "
                                        "manifest or give --target sm_90");
    }
    std::sort(kernel.targets.begin(), kernel.targets.end());
    kernel.targets.erase(std::unique(kernel.targets.begin(), kernel.targets.end()),
                         kernel.targets.end());
    TRY_ASSIGN(Toolchains::Known known, toolchains.get(kernel.manifest.backend));
    kernel.toolkit = std::move(known.toolkit);
    kernel.toolchain = std::move(known.toolchain);
    for (const Target& target : kernel.targets) {
      TRY(check_target(target, kernel));
    }
    TRY(scan_inputs(scanner, kernel));
    for (const Target& target : kernel.targets) {
      kernel.gates.emplace(target.text(), LaunchGate(kernel.manifest, target));
    }
    plan.kernels.push_back(std::move(kernel));
  }
  for (std::size_t index = 0; index < plan.kernels.size(); ++index) {
    for (const Target& target : plan.kernels[index].targets) {
      TRY(add_candidates(plan, index, target));
    }
  }
  TRY_ASSIGN(const store::Reader reader, store.reader());
  for (PlannedCandidate& candidate : plan.candidates) {
    TRY_ASSIGN(candidate.known, store::find_candidate(reader, candidate.key));
  }
  TRY(recheck(reader, plan));
  return plan;
}

}  // namespace cubinary::builder
