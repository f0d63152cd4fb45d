// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.hpp"
#include "store/tunings.hpp"

namespace cubinary::store {

using LeaseId = std::int64_t;

/// The right to tune one job, for a time.
struct Lease {
  LeaseId id = 0;
  TuningJob job;
  std::string owner;         ///< for people: host, process, token
  std::int64_t expires = 0;  ///< Unix seconds
};

/// What asking for a lease came to.
struct LeaseAnswer {
  bool granted = false;
  Lease lease;  ///< yours when granted, otherwise the one in the way
};

/// Takes the job's lease for `seconds` unless another holds one that has not expired at `now` (Unix
/// seconds). The same owner asking again gets its own, extended. `not_found` for a kernel the store
/// does not have.
[[nodiscard]] core::Result<LeaseAnswer> acquire_lease(Writer& writer, const TuningJob& job,
                                                      std::string_view owner, std::int64_t now,
                                                      std::int64_t seconds);
/// Extends a lease to `now` + `seconds`. `not_found` when it is no longer this owner's: it expired
/// and somebody took the job.
[[nodiscard]] core::Result<void> renew_lease(Writer& writer, LeaseId lease, std::string_view owner,
                                             std::int64_t now, std::int64_t seconds);
/// Gives a lease back; nothing happens when it is no longer this owner's.
[[nodiscard]] core::Result<void> release_lease(Writer& writer, LeaseId lease,
                                               std::string_view owner);
/// Whether `lease` is this owner's and has not expired at `now`.
[[nodiscard]] core::Result<bool> holds_lease(const Reader& reader, LeaseId lease,
                                             std::string_view owner, std::int64_t now);
/// Leases not expired at `now`.
[[nodiscard]] core::Result<std::vector<Lease>> list_leases(const Reader& reader, std::int64_t now);

/// One launch about to happen: written before it, removed by put_measurement.
struct JournalEntry {
  CandidateId candidate = 0;
  core::Shape shape;
  core::Config config;
  core::DeviceClass device_class;
  unsigned attempts = 0;  ///< read only: how often it was begun without a result
};
[[nodiscard]] core::Result<void> put_journal(Writer& writer, const JournalEntry& entry);
/// Takes an entry back: its candidate was never launched.
[[nodiscard]] core::Result<void> drop_journal(Writer& writer, const JournalEntry& entry);
/// What was running on a device class when a tuner or its machine went down.
[[nodiscard]] core::Result<std::vector<JournalEntry>> list_journal(const Reader& reader,
                                                                   const TuningJob& job);

}  // namespace cubinary::store
