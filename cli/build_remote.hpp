// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "builder/build.hpp"
#include "cli/remote.hpp"
#include "core/base/result.hpp"
#include "store/store.hpp"

namespace cubinary::cli {

/// Builds into a server: what it has is not compiled, what is compiled here is sent in groups as it
/// is finished, and in the end the candidates become the current ones there. A build that is
/// stopped or breaks off leaves what it sent, in no release, and the next one goes on from it.
///
/// Observes a build into a store of its own (`staging`), handing everything on to `inner`.
class RemoteBuild final : public builder::BuildObserver {
 public:
  /// `stop` is a descriptor made readable when sending fails, so that the build ends. All must
  /// outlive it.
  RemoteBuild(Remote& remote, const store::Store& staging, builder::BuildObserver& inner, int stop)
      : m_remote(remote), m_staging(staging), m_inner(inner), m_stop(stop) {}

  /// For BuildOptions::elsewhere.
  [[nodiscard]] builder::AskElsewhere ask();
  /// After the build: sends what is left and makes it current. The first error of any sending.
  [[nodiscard]] core::Result<void> finish(const builder::BuildSummary& summary);

  void planned(std::size_t candidates, std::size_t to_compile, unsigned jobs) override;
  void explained(const store::Candidate& candidate, const std::string& reason) override;
  void finished(const store::Candidate& candidate, bool compiled_now) override;
  void progress(const builder::BuildProgress& progress) override;
  void note(const std::string& text) override;

 private:
  [[nodiscard]] core::Result<void> send();

  Remote& m_remote;
  const store::Store& m_staging;
  builder::BuildObserver& m_inner;
  int m_stop;
  std::vector<store::Candidate> m_waiting;
  std::uint64_t m_waiting_bytes = 0;
  std::optional<core::Error> m_error;
};

}  // namespace cubinary::cli
