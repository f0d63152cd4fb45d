// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "builder/release/view.hpp"
#include "core/base/result.hpp"
#include "core/wire/signature.hpp"
#include "store/releases.hpp"
#include "store/store.hpp"

namespace cubinary::builder {

/// What `release create` is asked for.
struct ReleaseRequest {
  std::string name;                  ///< OCI tag grammar; not of the form of a signature's tag
  std::vector<std::string> targets;  ///< empty: every target with current candidates
  std::string kernels;               ///< glob over kernel names, Triton's too; empty: all
  bool cuda = true;                  ///< kernels built from manifests
  bool triton = true;                ///< what was captured of Triton
  std::int64_t created = 0;          ///< Unix seconds
  std::int64_t expires = 0;          ///< Unix seconds; 0: never
  bool keep_going = false;           ///< leave out configs without a cubin instead of failing
};

/// One kernel on one target, as a release holds it.
struct ReleasedKernel {
  std::string kernel;
  std::string target;
  std::size_t entries = 0;
  std::size_t tuned = 0;        ///< of `entries`; the others are the manifest's own choice
  std::size_t artifacts = 0;    ///< distinct cubins in the pack
  std::uint64_t raw_bytes = 0;  ///< of the unpacked pack
  std::uint64_t pack_bytes = 0;
};
/// `rmsnorm sm_120: 3 entries, 0 tuned, 3 untuned (manifest default)`, for people.
[[nodiscard]] std::string describe(const ReleasedKernel& kernel);

/// What a release holds of Triton on one target.
struct ReleasedTriton {
  std::string target;
  std::size_t kernels = 0;   ///< specialisations
  std::size_t host = 0;      ///< host modules
  std::size_t autotune = 0;  ///< autotune results
  std::uint64_t raw_bytes = 0;
  std::uint64_t pack_bytes = 0;
};
/// `triton sm_90: 12 kernels, 4 host modules, 2 autotune results`, for people.
[[nodiscard]] std::string describe(const ReleasedTriton& triton);

struct CreatedRelease {
  store::Release release;
  std::vector<ReleasedKernel> kernels;  ///< sorted by target, then name
  std::vector<ReleasedTriton> triton;   ///< sorted by target
  std::vector<std::string> notes;       ///< what was left out and why, a sentence each
};

/// Freezes winners and the manifests' own choices of the current candidates, with the artifacts
/// they use: afterwards the release is there whole, or the store is as it was.
///
/// Chosen and packed from a snapshot of the store as it is at the call, which others go on changing
/// meanwhile; one short transaction at the end puts it. The same store content gives the same bytes
/// under the same name. Holds one kernel's artifacts in memory at a time; what is packed waits in a
/// file without a name beside the store. Releases of one process are made one after the other.
/// `on_kernel` (may be empty) hears of each pack once it is made. Errors: `usage` for a bad name,
/// glob or target; `exists` for a taken name; `not_found` when nothing is there to release;
/// `compile_failed` when a default config has no cubin (all of them are listed).
[[nodiscard]] core::Result<CreatedRelease> create_release(
    store::Store& store, const ReleaseRequest& request,
    const std::function<void(const ReleasedKernel&)>& on_kernel = {});

struct SignedRelease {
  store::Release release;
  core::Digest signature_manifest;
  std::vector<std::string> key_ids;
};
/// Signs a release with every key, checking the digest of each of its blobs first, and attaches the
/// signature, replacing an earlier one. Errors: `not_found` (with the nearest name); `corrupt`.
[[nodiscard]] core::Result<SignedRelease> sign_release(store::Store& store, std::string_view name,
                                                       std::span<const core::PrivateKey> keys);

/// The two halves of `sign_release`, for a key that is not where the store is. The first reads the
/// whole release, digests checked, and makes the signed envelope; the second attaches an envelope
/// made so, after checking that it is for this very release (not who signed it: clients do). The
/// same envelope again changes nothing. Errors: those of `sign_release`; `signature` for one made
/// for something else.
[[nodiscard]] core::Result<std::string> make_signature(const ReadBlob& read,
                                                       const store::Release& release,
                                                       std::span<const core::PrivateKey> keys);
[[nodiscard]] core::Result<SignedRelease> attach_signature(store::Store& store,
                                                           std::string_view name,
                                                           std::string_view envelope);

struct Promotion {
  store::Release release;
  std::vector<std::string> notes;  ///< what clients will make of it, when they will refuse it
};
/// Points channel tag `channel` at the release. Errors: `usage` for a channel outside the tag
/// grammar; `exists` when a release has that name; `not_found`.
[[nodiscard]] core::Result<Promotion> promote_release(store::Store& store, std::string_view name,
                                                      std::string_view channel);

/// The release of this name, or `not_found` with the nearest one.
[[nodiscard]] core::Result<store::Release> require_release(const store::Reader& reader,
                                                           std::string_view name);

/// All tags that point at `index`, other than the release's own name and signature tags: its
/// channels.
[[nodiscard]] core::Result<std::vector<std::string>> channels_of(const store::Reader& reader,
                                                                 const store::Release& release);

}  // namespace cubinary::builder
