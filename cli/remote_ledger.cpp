// SPDX-License-Identifier: Apache-2.0
#include "cli/remote_ledger.hpp"

#include <array>
#include <limits>
#include <set>
#include <utility>

#include <unistd.h>

#include "store/candidate_json.hpp"
#include "store/tuning_json.hpp"

namespace cubinary::cli {
namespace {

namespace json = core::json;
using core::Result;

constexpr std::uint64_t k_max_artifact = 1ULL << 30U;

/// Machine and process: what an operator sees beside a lease.
std::string owner_name() {
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0) {
    host[0] = '\0';
  }
  return std::string(host.data()) + " process " + std::to_string(::getpid());
}

template <typename T>
Result<std::vector<T>> read_list(const json::Value& answer, Result<T> (*read)(const json::Node&)) {
  const json::Node top(answer, "the server's answer");
  TRY_ASSIGN(const auto nodes, top.elements());
  std::vector<T> items;
  for (const json::Node& node : nodes) {
    TRY_ASSIGN(T item, read(node));
    items.push_back(std::move(item));
  }
  return items;
}

class RemoteLedger final : public builder::Ledger {
 public:
  explicit RemoteLedger(Remote remote) : m_remote(std::move(remote)), m_owner(owner_name()) {}

  Result<std::vector<store::Kernel>> kernels() override {
    TRY_ASSIGN(const json::Value answer, m_remote.get("/api/v1/kernels"));
    const json::Node top(answer, "the server's kernels");
    TRY_ASSIGN(const auto nodes, top.elements());
    std::vector<store::Kernel> kernels;
    for (const json::Node& node : nodes) {
      TRY_ASSIGN(const std::string name, node.text("name"));
      TRY_ASSIGN(const json::Value one, m_remote.get("/api/v1/kernels/" + encode(name)));
      TRY_ASSIGN(store::Kernel kernel, store::kernel_from_json(json::Node(one, "kernel " + name)));
      kernels.push_back(std::move(kernel));
    }
    return kernels;
  }

  Result<std::vector<std::string>> targets(const std::string& kernel) override {
    TRY_ASSIGN(const auto all, candidates(kernel, ""));
    std::set<std::string> names;
    for (const store::Candidate& candidate : all) {
      names.insert(candidate.target);
    }
    return std::vector<std::string>(names.begin(), names.end());
  }

  Result<std::vector<store::Candidate>> candidates(const std::string& kernel,
                                                   const std::string& target) override {
    TRY_ASSIGN(const json::Value answer,
               m_remote.get("/api/v1/candidates", {{"kernel", kernel}, {"target", target}}));
    return read_list(answer, &store::candidate_from_json);
  }

  Result<core::Bytes> artifact(const core::Digest& digest) override {
    TRY_ASSIGN(core::Bytes bytes,
               m_remote.get_bytes("/api/v1/artifacts/" + digest.text(), k_max_artifact));
    if (core::sha256(bytes) != digest) {
      return core::fail(core::ErrorCode::corrupt, m_remote.url() + ": the bytes of artifact " +
                                                      digest.text() + " do not match their digest");
    }
    return bytes;
  }

  Result<std::vector<store::DeviceSession>> sessions() override {
    TRY_ASSIGN(const json::Value answer, m_remote.get("/api/v1/sessions"));
    return read_list(answer, &store::session_from_json);
  }

  Result<std::vector<store::MeasurementRow>> measurements(const std::string& kernel,
                                                          const std::string& target,
                                                          const core::Types& types) override {
    TRY_ASSIGN(
        const json::Value answer,
        m_remote.get("/api/v1/measurements",
                     {{"kernel", kernel}, {"target", target}, {"types", core::to_json(types)}}));
    return read_list(answer, &store::measurement_row_from_json);
  }

  Result<std::optional<store::Tuning>> tuning(const store::TuningJob& job) override {
    TRY_ASSIGN(const json::Value answer,
               m_remote.get("/api/v1/tunings", {{"kernel", job.kernel},
                                                {"target", job.target},
                                                {"types", core::to_json(job.types)},
                                                {"shape", core::to_json(job.shape)},
                                                {"device_class", job.device_class.text()}}));
    TRY_ASSIGN(auto found, read_list(answer, &store::tuning_from_json));
    if (found.empty()) {
      return std::nullopt;
    }
    return std::move(found.front());
  }

  Result<std::vector<store::JournalEntry>> journal(const store::TuningJob& job) override {
    TRY_ASSIGN(const json::Value answer, m_remote.post("/api/v1/journal", store::to_json(job)));
    return read_list(answer, &store::journal_from_json);
  }

  Result<store::SessionId> begin_session(const store::DeviceSession& session) override {
    TRY_ASSIGN(const json::Value answer,
               m_remote.post("/api/v1/sessions", store::to_json(session)));
    return json::Node(answer, "the session").integer("id", 1, k_max);
  }

  Result<void> add_facts(store::SessionId session,
                         const std::map<std::string, std::string>& facts) override {
    TRY(m_remote.put("/api/v1/sessions/" + std::to_string(session) + "/facts",
                     json::Object(facts.begin(), facts.end())));
    return {};
  }

  Result<store::LeaseAnswer> acquire(const store::TuningJob& job, std::int64_t seconds) override {
    TRY_ASSIGN(const json::Value answer,
               m_remote.post("/api/v1/leases", json::Object{{"job", store::to_json(job)},
                                                            {"owner", m_owner},
                                                            {"seconds", seconds}}));
    const json::Node top(answer, "the lease");
    store::LeaseAnswer lease;
    TRY_ASSIGN(lease.granted, top.boolean_or("granted", false));
    TRY_ASSIGN(const json::Node node, top.at("lease"));
    TRY_ASSIGN(lease.lease, store::lease_from_json(node));
    return lease;
  }

  void release(const store::Lease& lease) override {
    // Should this fail, the lease ends by itself.
    [[maybe_unused]] const auto released =
        m_remote.remove("/api/v1/leases/" + std::to_string(lease.id) + "?owner=" + encode(m_owner));
  }

  Result<std::vector<store::MeasurementId>> record(
      const std::vector<store::Measurement>& results,
      const std::vector<store::JournalEntry>& next) override {
    json::Array measurements;
    for (const store::Measurement& measurement : results) {
      measurements.emplace_back(store::to_json(measurement));
    }
    json::Array launches;
    for (const store::JournalEntry& entry : next) {
      launches.emplace_back(store::to_json(entry));
    }
    TRY_ASSIGN(const json::Value answer,
               m_remote.post("/api/v1/measurements",
                             json::Object{{"measurements", std::move(measurements)},
                                          {"next", std::move(launches)}}));
    const json::Node top(answer, "the server's answer");
    TRY_ASSIGN(const json::Node list, top.at("ids"));
    TRY_ASSIGN(const auto nodes, list.elements());
    std::vector<store::MeasurementId> ids;
    for (const json::Node& node : nodes) {
      TRY_ASSIGN(const std::int64_t id, node.integer(1, k_max));
      ids.push_back(id);
    }
    return ids;
  }

  Result<void> forget(const store::JournalEntry& entry) override {
    json::Object note = store::to_json(entry);
    note.emplace("running", false);
    TRY(m_remote.put("/api/v1/journal", std::move(note)));
    return {};
  }

  Result<void> finish(const store::Tuning& tuning) override {
    TRY(m_remote.post("/api/v1/tunings", store::to_json(tuning)));
    return {};
  }

 private:
  static constexpr std::int64_t k_max = std::numeric_limits<std::int64_t>::max();

  Remote m_remote;
  std::string m_owner;
};

}  // namespace

std::unique_ptr<builder::Ledger> make_remote_ledger(Remote remote) {
  return std::make_unique<RemoteLedger>(std::move(remote));
}

}  // namespace cubinary::cli
