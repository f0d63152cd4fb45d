// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <ctime>

#include <unistd.h>

#include "builder/tune/ledger.hpp"
#include "store/artifacts.hpp"

namespace cubinary::builder {

using core::Result;

namespace {

class StoreLedger final : public Ledger {
 public:
  explicit StoreLedger(store::Store& store)
      : m_store(store), m_owner("process " + std::to_string(getpid())) {}

  Result<void> drop_old_leases() {
    TRY_ASSIGN(const store::Reader reader, m_store.reader());
    TRY_ASSIGN(const auto leases, store::list_leases(reader, std::time(nullptr)));
    if (leases.empty()) {
      return {};
    }
    return m_store.write([&](store::Writer& writer) -> Result<void> {
      for (const store::Lease& lease : leases) {
        TRY(store::release_lease(writer, lease.id, lease.owner));
      }
      return {};
    });
  }

  Result<std::vector<store::Kernel>> kernels() override {
    TRY_ASSIGN(const store::Reader reader, m_store.reader());
    return store::list_kernels(reader);
  }
  Result<std::vector<std::string>> targets(const std::string& kernel) override {
    std::vector<std::string> found;
    TRY_ASSIGN(const store::Reader reader, m_store.reader());
    store::CandidateFilter filter;
    filter.kernel = kernel;
    const auto visit = [&](const store::Candidate& candidate) -> Result<void> {
      if (found.empty() || found.back() != candidate.target) {
        found.push_back(candidate.target);
      }
      return {};
    };
    TRY(store::for_each_candidate(reader, filter, false, visit));
    found.erase(std::unique(found.begin(), found.end()), found.end());
    return found;
  }
  Result<std::vector<store::Candidate>> candidates(const std::string& kernel,
                                                   const std::string& target) override {
    std::vector<store::Candidate> found;
    TRY_ASSIGN(const store::Reader reader, m_store.reader());
    store::CandidateFilter filter;
    filter.kernel = kernel;
    filter.target = target;
    const auto visit = [&](const store::Candidate& candidate) -> Result<void> {
      found.push_back(candidate);
      return {};
    };
    TRY(store::for_each_candidate(reader, filter, false, visit));
    return found;
  }
  Result<core::Bytes> artifact(const core::Digest& digest) override {
    TRY_ASSIGN(const store::Reader reader, m_store.reader());
    return store::read_artifact(reader, digest);
  }
  Result<std::vector<store::DeviceSession>> sessions() override {
    TRY_ASSIGN(const store::Reader reader, m_store.reader());
    return store::list_sessions(reader);
  }
  Result<std::vector<store::MeasurementRow>> measurements(const std::string& kernel,
                                                          const std::string& target,
                                                          const core::Types& types) override {
    std::vector<store::MeasurementRow> found;
    TRY_ASSIGN(const store::Reader reader, m_store.reader());
    store::MeasurementFilter filter;
    filter.kernel = kernel;
    filter.target = target;
    filter.types = types;
    TRY(store::for_each_measurement(reader, filter,
                                    [&](const store::MeasurementRow& row) -> Result<void> {
                                      found.push_back(row);
                                      return {};
                                    }));
    return found;
  }
  Result<std::optional<store::Tuning>> tuning(const store::TuningJob& job) override {
    TRY_ASSIGN(const store::Reader reader, m_store.reader());
    return store::find_tuning(reader, job);
  }
  Result<std::vector<store::JournalEntry>> journal(const store::TuningJob& job) override {
    TRY_ASSIGN(const store::Reader reader, m_store.reader());
    return store::list_journal(reader, job);
  }
  Result<store::SessionId> begin_session(const store::DeviceSession& session) override {
    store::SessionId id = 0;
    TRY(m_store.write([&](store::Writer& writer) -> Result<void> {
      TRY_ASSIGN(id, store::put_session(writer, session));
      return {};
    }));
    return id;
  }
  Result<void> add_facts(store::SessionId session,
                         const std::map<std::string, std::string>& facts) override {
    return m_store.write(
        [&](store::Writer& writer) { return store::put_session_facts(writer, session, facts); });
  }
  Result<store::LeaseAnswer> acquire(const store::TuningJob& job, std::int64_t seconds) override {
    store::LeaseAnswer answer;
    TRY(m_store.write([&](store::Writer& writer) -> Result<void> {
      TRY_ASSIGN(answer, store::acquire_lease(writer, job, m_owner, std::time(nullptr), seconds));
      return {};
    }));
    return answer;
  }
  void release(const store::Lease& lease) override {
    (void)m_store.write(
        [&](store::Writer& writer) { return store::release_lease(writer, lease.id, m_owner); });
  }
  Result<std::vector<store::MeasurementId>> record(
      const std::vector<store::Measurement>& results,
      const std::vector<store::JournalEntry>& next) override {
    std::vector<store::MeasurementId> ids;
    if (results.empty() && next.empty()) {
      return ids;
    }
    const auto body = [&](store::Writer& writer) -> Result<void> {
      ids.clear();
      for (const store::Measurement& result : results) {
        TRY_ASSIGN(const store::MeasurementId id, store::put_measurement(writer, result));
        ids.push_back(id);
      }
      for (const store::JournalEntry& entry : next) {
        TRY(store::put_journal(writer, entry));
      }
      return {};
    };
    TRY(m_store.write(body));
    return ids;
  }
  Result<void> forget(const store::JournalEntry& entry) override {
    return m_store.write([&](store::Writer& writer) { return store::drop_journal(writer, entry); });
  }
  Result<void> finish(const store::Tuning& tuning) override {
    return m_store.write([&](store::Writer& writer) -> Result<void> {
      TRY(store::put_tuning(writer, tuning));
      return {};
    });
  }

 private:
  store::Store& m_store;
  std::string m_owner;
};

}  // namespace

Result<std::unique_ptr<Ledger>> make_store_ledger(store::Store& store) {
  auto ledger = std::make_unique<StoreLedger>(store);
  TRY(ledger->drop_old_leases());
  return std::unique_ptr<Ledger>(std::move(ledger));
}

}  // namespace cubinary::builder
