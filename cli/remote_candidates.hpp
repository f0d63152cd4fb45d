// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "builder/tune/compile_ahead.hpp"
#include "cli/remote.hpp"
#include "core/base/result.hpp"
#include "store/candidates.hpp"
#include "store/store.hpp"

namespace cubinary::cli {

/// Sends candidates of one kernel and target to a server, first their artifacts, which `staging`
/// has. With `current` they join the current ones there. Returns the server's ids, in order.
[[nodiscard]] core::Result<std::vector<store::CandidateId>> send_candidates(
    Remote& remote, const store::Store& staging, const store::Kernel& kernel,
    std::span<const store::Candidate> candidates, bool current);

/// The server of a tuner that compiles, over a connection of its own.
class RemoteCandidates final : public builder::CandidateServer {
 public:
  /// `staging` is what CompileAhead compiles into; it must outlive this.
  RemoteCandidates(Remote remote, const store::Store& staging)
      : m_remote(std::move(remote)), m_staging(staging) {}

  core::Result<std::vector<store::Candidate>> begin(
      const store::Kernel& kernel, const std::string& target,
      const std::vector<core::Digest>& build_keys) override;
  core::Result<void> add(const store::Kernel& kernel,
                         std::span<store::Candidate> candidates) override;

 private:
  Remote m_remote;
  const store::Store& m_staging;
};

}  // namespace cubinary::cli
