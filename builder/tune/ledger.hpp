// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/bytes.hpp"
#include "core/base/digest.hpp"
#include "core/base/result.hpp"
#include "store/candidates.hpp"
#include "store/leases.hpp"
#include "store/measurements.hpp"
#include "store/store.hpp"
#include "store/tunings.hpp"

namespace cubinary::builder {

/// What a tuner reads from and writes to: a store of its own, or a server that owns one. Writes are
/// durable when they return. One thread.
class Ledger {
 public:
  Ledger() = default;
  Ledger(const Ledger&) = delete;
  Ledger& operator=(const Ledger&) = delete;
  virtual ~Ledger() = default;

  // --- What there is to tune ---

  [[nodiscard]] virtual core::Result<std::vector<store::Kernel>> kernels() = 0;
  /// Targets a kernel has current candidates for.
  [[nodiscard]] virtual core::Result<std::vector<std::string>> targets(
      const std::string& kernel) = 0;
  /// Current candidates of all roles and every status.
  [[nodiscard]] virtual core::Result<std::vector<store::Candidate>> candidates(
      const std::string& kernel, const std::string& target) = 0;
  /// A cubin's bytes, verified.
  [[nodiscard]] virtual core::Result<core::Bytes> artifact(const core::Digest& digest) = 0;

  // --- What is known ---

  [[nodiscard]] virtual core::Result<std::vector<store::DeviceSession>> sessions() = 0;
  /// Of one kernel, target and types on every shape and device class, current candidates only,
  /// without samples.
  [[nodiscard]] virtual core::Result<std::vector<store::MeasurementRow>> measurements(
      const std::string& kernel, const std::string& target, const core::Types& types) = 0;
  [[nodiscard]] virtual core::Result<std::optional<store::Tuning>> tuning(
      const store::TuningJob& job) = 0;
  [[nodiscard]] virtual core::Result<std::vector<store::JournalEntry>> journal(
      const store::TuningJob& job) = 0;

  // --- What a tuner does ---

  [[nodiscard]] virtual core::Result<store::SessionId> begin_session(
      const store::DeviceSession& session) = 0;
  [[nodiscard]] virtual core::Result<void> add_facts(
      store::SessionId session, const std::map<std::string, std::string>& facts) = 0;
  /// Takes or extends the job's lease for `seconds`.
  [[nodiscard]] virtual core::Result<store::LeaseAnswer> acquire(const store::TuningJob& job,
                                                                 std::int64_t seconds) = 0;
  virtual void release(const store::Lease& lease) = 0;
  /// One durable step: results of what ran, and the journal of what is about to. Returns the
  /// results' ids.
  [[nodiscard]] virtual core::Result<std::vector<store::MeasurementId>> record(
      const std::vector<store::Measurement>& results,
      const std::vector<store::JournalEntry>& next) = 0;
  /// Takes back the journal of something that was not judged after all.
  [[nodiscard]] virtual core::Result<void> forget(const store::JournalEntry& entry) = 0;
  [[nodiscard]] virtual core::Result<void> finish(const store::Tuning& tuning) = 0;
};

/// A ledger over a store opened for writing, which must outlive it. Leases that an earlier process
/// left are dropped: only one owns the store.
[[nodiscard]] core::Result<std::unique_ptr<Ledger>> make_store_ledger(store::Store& store);

}  // namespace cubinary::builder
