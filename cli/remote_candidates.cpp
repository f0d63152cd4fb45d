// SPDX-License-Identifier: Apache-2.0
#include "cli/remote_candidates.hpp"

#include <cstdint>
#include <limits>
#include <set>
#include <utility>

#include "cli/artifact_batch.hpp"
#include "store/artifacts.hpp"
#include "store/candidate_json.hpp"

namespace cubinary::cli {

namespace json = core::json;
using core::Digest;
using core::fail;
using core::Result;

Result<std::vector<store::CandidateId>> send_candidates(
    Remote& remote, const store::Store& staging, const store::Kernel& kernel,
    std::span<const store::Candidate> candidates, bool current) {
  TRY_ASSIGN(const store::Reader reader, staging.reader());
  core::Bytes batch;
  std::set<Digest> sent;
  json::Array list;
  for (const store::Candidate& candidate : candidates) {
    if (candidate.artifact && sent.insert(*candidate.artifact).second) {
      TRY_ASSIGN(const core::Bytes bytes, store::read_artifact(reader, *candidate.artifact));
      append_artifact(batch, *candidate.artifact, bytes);
    }
    list.emplace_back(store::to_json(candidate));
  }
  const json::Value request(json::Object{
      {"kernel", store::to_json(kernel)}, {"candidates", std::move(list)}, {"current", current}});
  // A gc there, between the two requests, takes artifacts that nothing names yet: then once more.
  for (bool again = true;; again = false) {
    if (!batch.empty()) {
      TRY(remote.post_bytes("/api/v1/artifacts", k_artifact_batch_type, batch,
                            {{"kernel", kernel.name}, {"target", candidates.front().target}}));
    }
    const auto answer = remote.post("/api/v1/candidates", request);
    if (answer) {
      const json::Node top(*answer, "the server's answer");
      TRY_ASSIGN(const json::Node node, top.at("ids"));
      TRY_ASSIGN(const auto nodes, node.elements());
      std::vector<store::CandidateId> ids;
      for (const json::Node& each : nodes) {
        TRY_ASSIGN(const std::int64_t id,
                   each.integer(1, std::numeric_limits<std::int64_t>::max()));
        ids.push_back(id);
      }
      if (ids.size() != candidates.size()) {
        return fail(node.error("are not as many as the candidates sent"));
      }
      return ids;
    }
    if (!again || answer.error().code != core::ErrorCode::not_found) {
      return fail(answer.error());
    }
  }
}

Result<std::vector<store::Candidate>> RemoteCandidates::begin(
    const store::Kernel& kernel, const std::string& target, const std::vector<Digest>& build_keys) {
  json::Array names;
  for (const Digest& key : build_keys) {
    names.emplace_back(key.text());
  }
  TRY(m_remote.put("/api/v1/kernels/" + encode(kernel.name) + "/current",
                   json::Object{{"kernel", store::to_json(kernel)},
                                {"targets", json::Object{{target, std::move(names)}}},
                                {"partial", true}}));
  TRY_ASSIGN(const json::Value answer,
             m_remote.get("/api/v1/candidates", {{"kernel", kernel.name}, {"target", target}}));
  const json::Node top(answer, "the server's candidates");
  TRY_ASSIGN(const auto nodes, top.elements());
  std::vector<store::Candidate> candidates;
  for (const json::Node& node : nodes) {
    TRY_ASSIGN(store::Candidate candidate, store::candidate_from_json(node));
    candidates.push_back(std::move(candidate));
  }
  return candidates;
}

Result<void> RemoteCandidates::add(const store::Kernel& kernel,
                                   std::span<store::Candidate> candidates) {
  TRY_ASSIGN(const auto ids, send_candidates(m_remote, m_staging, kernel, candidates, true));
  for (std::size_t i = 0; i < ids.size(); ++i) {
    candidates[i].id = ids[i];
  }
  return {};
}

}  // namespace cubinary::cli
