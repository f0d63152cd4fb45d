// SPDX-License-Identifier: Apache-2.0
#include "cli/build_remote.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include <unistd.h>

#include "cli/artifact_batch.hpp"
#include "cli/remote_candidates.hpp"
#include "store/candidate_json.hpp"

namespace cubinary::cli {
namespace {

namespace json = core::json;
using core::Digest;
using core::fail;
using core::Result;

constexpr std::size_t k_group = 64;
constexpr std::size_t k_keys_at_once = 20'000;

Result<store::CandidateStatus> parse_status(const std::string& name) {
  using enum store::CandidateStatus;
  for (const auto status : {ok, failed, timeout, crashed}) {
    if (store::status_name(status) == name) {
      return status;
    }
  }
  return fail(core::ErrorCode::corrupt, "the server told of an unknown status \"" + name + "\"");
}

}  // namespace

builder::AskElsewhere RemoteBuild::ask() {
  return [this](std::span<const Digest> keys)
             -> Result<std::unordered_map<Digest, store::CandidateStatus>> {
    std::unordered_map<Digest, store::CandidateStatus> all;
    while (!keys.empty()) {
      const auto part = keys.first(std::min(keys.size(), k_keys_at_once));
      keys = keys.subspan(part.size());
      json::Array names;
      for (const Digest& key : part) {
        names.emplace_back(key.text());
      }
      TRY_ASSIGN(const json::Value answer,
                 m_remote.post("/api/v1/candidates/known",
                               json::Object{{"build_keys", std::move(names)}}));
      const json::Node top(answer, "the server's answer");
      TRY_ASSIGN(const json::Node known, top.at("known"));
      TRY_ASSIGN(const auto states, known.text_map());
      for (const auto& [key, state] : states) {
        TRY_ASSIGN(const Digest digest, Digest::parse(key));
        TRY_ASSIGN(const auto status, parse_status(state));
        all.emplace(digest, status);
      }
    }
    return all;
  };
}

Result<void> RemoteBuild::send() {
  const std::vector<store::Candidate> waiting = std::exchange(m_waiting, {});
  m_waiting_bytes = 0;
  std::map<std::pair<std::string, std::string>, std::vector<store::Candidate>> groups;
  for (const store::Candidate& candidate : waiting) {
    groups[{candidate.kernel, candidate.target}].push_back(candidate);
  }
  for (const auto& [place, group] : groups) {
    TRY_ASSIGN(const store::Reader reader, m_staging.reader());
    TRY_ASSIGN(const auto kernel, store::find_kernel(reader, place.first));
    if (!kernel) {
      return fail(core::ErrorCode::internal, "kernel " + place.first + " is not in its own build");
    }
    TRY(send_candidates(m_remote, m_staging, *kernel, group, false));
  }
  return {};
}

Result<void> RemoteBuild::finish(const builder::BuildSummary& summary) {
  if (!m_error) {
    if (auto sent = send(); !sent) {
      m_error = sent.error();
    }
  }
  if (m_error) {
    return fail(*m_error);
  }
  for (const builder::BuiltKernel& built : summary.current) {
    json::Object targets;
    for (const auto& [target, keys] : built.build_keys) {
      json::Array names;
      for (const Digest& key : keys) {
        names.emplace_back(key.text());
      }
      targets.emplace(target, std::move(names));
    }
    TRY(m_remote.put(
        "/api/v1/kernels/" + encode(built.kernel.name) + "/current",
        json::Object{{"kernel", store::to_json(built.kernel)}, {"targets", std::move(targets)}}));
  }
  return {};
}

void RemoteBuild::finished(const store::Candidate& candidate, bool compiled_now) {
  m_inner.finished(candidate, compiled_now);
  if (!compiled_now || m_error) {
    return;
  }
  m_waiting.push_back(candidate);
  m_waiting_bytes += candidate.raw_size;
  if (m_waiting.size() < k_group && m_waiting_bytes < k_artifact_batch_bytes) {
    return;
  }
  if (const auto sent = send(); !sent) {
    m_error = sent.error();
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = ::write(m_stop, &one, sizeof one);
  }
}

void RemoteBuild::planned(std::size_t candidates, std::size_t to_compile, unsigned jobs) {
  m_inner.planned(candidates, to_compile, jobs);
}
void RemoteBuild::explained(const store::Candidate& candidate, const std::string& reason) {
  m_inner.explained(candidate, reason);
}
void RemoteBuild::progress(const builder::BuildProgress& progress) {
  m_inner.progress(progress);
}
void RemoteBuild::note(const std::string& text) {
  m_inner.note(text);
}

}  // namespace cubinary::cli
