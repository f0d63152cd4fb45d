// SPDX-License-Identifier: Apache-2.0
#include "server/publish_api.hpp"

#include <array>
#include <cstring>
#include <map>
#include <set>
#include <span>
#include <utility>

#include "builder/inspect/judge_candidate.hpp"
#include "core/base/digest.hpp"
#include "core/base/nearest.hpp"
#include "core/manifest/manifest.hpp"
#include "store/artifacts.hpp"
#include "store/candidate_json.hpp"
#include "store/candidates.hpp"
#include "store/changes.hpp"

namespace cubinary::server {
namespace {

namespace json = core::json;
using core::Digest;
using core::ErrorCode;
using core::fail;
using core::Result;

constexpr std::string_view k_artifact_type = "application/octet-stream";
constexpr std::string_view k_artifacts_type = "application/vnd.cubinary.artifacts.v1";
/// A build that sends more names at once is split by its client.
constexpr std::size_t k_max_keys = 100'000;

Result<Digest> parse_digest(std::string_view text) {
  if (!text.starts_with("sha256:")) {
    return fail(ErrorCode::usage, "\"" + std::string(text) + "\" is no digest: write sha256:HEX");
  }
  auto digest = Digest::parse(text);
  if (!digest) {
    return fail(ErrorCode::usage, digest.error().message);
  }
  return digest;
}

Result<std::string> value_or_empty(const Request& request, std::string_view name) {
  TRY_ASSIGN(const std::string* const value, query_value(request, name));
  return value == nullptr ? std::string() : *value;
}

Result<store::Kernel> require_kernel(const store::Reader& reader, std::string_view name) {
  TRY_ASSIGN(auto kernel, store::find_kernel(reader, name));
  if (kernel) {
    return *std::move(kernel);
  }
  TRY_ASSIGN(const auto kernels, store::list_kernels(reader));
  std::vector<std::string> names;
  for (const store::Kernel& known : kernels) {
    names.push_back(known.name);
  }
  return fail(ErrorCode::not_found, "the store holds no kernel \"" + std::string(name) + "\"" +
                                        core::did_you_mean(name, names));
}

struct SentKernel {
  store::Kernel row;
  core::Manifest manifest;
};

/// What a kernel's sender says of it must be what its manifest says.
Result<SentKernel> read_kernel(const json::Node& node) {
  TRY_ASSIGN(store::Kernel kernel, store::kernel_from_json(node));
  auto manifest = core::parse_manifest(kernel.manifest, "manifest");
  if (!manifest) {
    return fail(node.error(manifest.error().message));
  }
  if (manifest->name != kernel.name) {
    return fail(node.error("the manifest is of kernel " + manifest->name + ", not " + kernel.name));
  }
  if (core::interface_digest(*manifest) != kernel.interface) {
    return fail(node.error("the interface is not the digest of the manifest's arguments"));
  }
  return SentKernel{std::move(kernel), *std::move(manifest)};
}

/// Judges cubins that others compiled as a build judges its own.
class PublishGate {
 public:
  PublishGate(const store::Reader& reader, const core::Manifest& manifest)
      : m_reader(reader), m_manifest(manifest) {}

  /// Nothing is asked of a candidate that failed. Errors: `not_found` for a missing artifact, and
  /// those of judge_candidate.
  Result<void> judge(store::Candidate& candidate) {
    if (!candidate.artifact) {
      return {};
    }
    TRY_ASSIGN(const bool there, store::has_artifact(m_reader, *candidate.artifact));
    if (!there) {
      return fail(ErrorCode::not_found, "no artifact " + candidate.artifact->text() +
                                            " in the store; put it before its candidate");
    }
    TRY_ASSIGN(const core::Bytes cubin, store::read_artifact(m_reader, *candidate.artifact));
    auto gate = m_gates.find(candidate.target);
    if (gate == m_gates.end()) {
      TRY_ASSIGN(const core::Target target, core::Target::parse(candidate.target));
      gate = m_gates.emplace(candidate.target, builder::LaunchGate(m_manifest, target)).first;
    }
    return builder::judge_candidate(m_manifest, gate->second, cubin, candidate);
  }

 private:
  const store::Reader& m_reader;
  const core::Manifest& m_manifest;
  std::map<std::string, builder::LaunchGate> m_gates;
};

/// The records of a batch: digest (32 bytes), size (8 bytes, little-endian), bytes.
Result<std::vector<std::pair<Digest, core::ByteView>>> split_batch(std::string_view body) {
  constexpr std::size_t k_head = Digest::k_size + 8;
  std::vector<std::pair<Digest, core::ByteView>> artifacts;
  while (!body.empty()) {
    const auto broken = [&] {
      return fail(ErrorCode::corrupt,
                  "artifact " + std::to_string(artifacts.size()) + " of the batch is cut off");
    };
    if (body.size() < k_head) {
      return broken();
    }
    std::array<std::byte, Digest::k_size> raw{};
    std::memcpy(raw.data(), body.data(), raw.size());
    const Digest digest(raw);
    std::uint64_t size = 0;
    for (std::size_t i = 0; i < 8; ++i) {
      size |= static_cast<std::uint64_t>(static_cast<unsigned char>(body[Digest::k_size + i]))
              << (8 * i);
    }
    body.remove_prefix(k_head);
    if (size > body.size()) {
      return broken();
    }
    artifacts.emplace_back(digest, core::as_bytes(body.substr(0, size)));
    body.remove_prefix(size);
  }
  return artifacts;
}

}  // namespace

Result<Response> PublishApi::answer(const Request& request, const RouteMatch& match) const {
  switch (match.route) {
    case Route::artifacts:
      return put_artifacts(request);
    case Route::artifacts_known:
      return known_artifacts(request);
    case Route::artifact:
      return request.method == "PUT" ? put_artifact(request, match.reference)
                                     : get_artifact(match.reference);
    case Route::candidates:
      return request.method == "POST" ? put_candidates(request) : list_candidates(request);
    case Route::candidates_known:
      return known_candidates(request);
    case Route::kernel_current:
      return put_current(request, match.reference);
    case Route::kernel:
      return get_kernel(match.reference);
    default:
      return list_kernels();
  }
}

// --- Artifacts ---

Result<Response> PublishApi::put_artifact(const Request& request, std::string_view text) const {
  TRY_ASSIGN(const Digest digest, parse_digest(text));
  const std::pair<Digest, core::ByteView> one(digest, core::as_bytes(request.body));
  return store_artifacts(request, std::span(&one, 1));
}

Result<Response> PublishApi::put_artifacts(const Request& request) const {
  if (request.content_type != k_artifacts_type) {
    return fail(ErrorCode::usage,
                "a batch of artifacts is sent as " + std::string(k_artifacts_type));
  }
  TRY_ASSIGN(const auto artifacts, split_batch(request.body));
  return store_artifacts(request, artifacts);
}

Result<Response> PublishApi::store_artifacts(
    const Request& request, std::span<const std::pair<Digest, core::ByteView>> artifacts) const {
  for (const auto& [digest, bytes] : artifacts) {
    if (bytes.empty()) {
      return fail(ErrorCode::usage, "artifact " + digest.text() + " is empty");
    }
    if (const Digest found = core::sha256(bytes); found != digest) {
      return fail(ErrorCode::corrupt, "the bytes sent for " + digest.text() + " have the digest " +
                                          found.text() + "; nothing was kept: send them again");
    }
  }
  TRY_ASSIGN(const std::string kernel, value_or_empty(request, "kernel"));
  TRY_ASSIGN(const std::string target, value_or_empty(request, "target"));
  // A repack or gc may drop the dictionary between compressing and putting: then once more.
  constexpr int k_attempts = 3;
  for (int attempt = 1;; ++attempt) {
    std::vector<store::PreparedArtifact> prepared;
    std::size_t known = 0;
    {
      TRY_ASSIGN(const store::Reader reader, m_store->reader());
      TRY_ASSIGN(const store::Dictionary dictionary,
                 store::current_dictionary(reader, kernel, target));
      for (const auto& [digest, bytes] : artifacts) {
        TRY_ASSIGN(const bool there, store::has_artifact(reader, digest));
        if (there) {
          ++known;
          continue;
        }
        TRY_ASSIGN(auto one,
                   store::prepare_artifact(bytes, dictionary.id != 0 ? &dictionary : nullptr));
        prepared.push_back(std::move(one));
      }
    }
    const Result<void> put = prepared.empty()
                                 ? Result<void>()
                                 : m_store->write([&](store::Writer& writer) -> Result<void> {
                                     for (const store::PreparedArtifact& one : prepared) {
                                       TRY(store::put_artifact(writer, one));
                                     }
                                     return {};
                                   });
    if (put) {
      return json_response(json::Object{{"stored", prepared.size()}, {"known", known}});
    }
    if (put.error().code != ErrorCode::not_found || attempt == k_attempts) {
      return fail(put.error());
    }
  }
}

Result<Response> PublishApi::known_artifacts(const Request& request) const {
  TRY_ASSIGN(const json::Value document, json_body(request));
  const json::Node top(document, "the request");
  TRY_ASSIGN(const json::Node list, top.at("digests"));
  TRY_ASSIGN(const auto nodes, list.elements());
  if (nodes.size() > k_max_keys) {
    return fail(list.error("names more than " + std::to_string(k_max_keys) + " digests"));
  }
  TRY_ASSIGN(const store::Reader reader, m_store->reader());
  json::Array missing;
  for (const json::Node& node : nodes) {
    TRY_ASSIGN(const std::string text, node.text());
    TRY_ASSIGN(const Digest digest, parse_digest(text));
    TRY_ASSIGN(const bool there, store::has_artifact(reader, digest));
    if (!there) {
      missing.emplace_back(text);
    }
  }
  return json_response(json::Object{{"missing", std::move(missing)}});
}

Result<Response> PublishApi::get_artifact(std::string_view text) const {
  TRY_ASSIGN(const Digest digest, parse_digest(text));
  TRY_ASSIGN(const store::Reader reader, m_store->reader());
  TRY_ASSIGN(const bool there, store::has_artifact(reader, digest));
  if (!there) {
    return fail(ErrorCode::not_found, "the store holds no artifact " + digest.text());
  }
  TRY_ASSIGN(const core::Bytes bytes, store::read_artifact(reader, digest));
  Response response;
  response.etag = '"' + digest.text() + '"';
  response.headers.emplace_back("Cache-Control", "max-age=31536000, immutable");
  response.set_body(core::to_text(bytes), std::string(k_artifact_type));
  return response;
}

// --- Candidates ---

Result<Response> PublishApi::put_candidates(const Request& request) const {
  TRY_ASSIGN(const json::Value document, json_body(request));
  const json::Node top(document, "the request");
  TRY_ASSIGN(const json::Node kernel_node, top.at("kernel"));
  TRY_ASSIGN(const SentKernel sent, read_kernel(kernel_node));
  const store::Kernel& kernel = sent.row;
  TRY_ASSIGN(const bool join, top.boolean_or("current", false));
  TRY_ASSIGN(const json::Node list, top.at("candidates"));
  TRY_ASSIGN(const auto nodes, list.elements());
  TRY_ASSIGN(const store::Reader reader, m_store->reader());
  PublishGate gate(reader, sent.manifest);
  std::vector<store::Candidate> candidates;
  for (const json::Node& node : nodes) {
    TRY_ASSIGN(store::Candidate candidate, store::candidate_from_json(node));
    if (candidate.kernel != kernel.name) {
      return fail(node.error("is of kernel " + candidate.kernel + ", not " + kernel.name));
    }
    if (const Result<void> judged = gate.judge(candidate); !judged) {
      return fail(judged.error().code == ErrorCode::bad_cubin ? node.error(judged.error().message)
                                                              : judged.error());
    }
    candidates.push_back(std::move(candidate));
  }
  std::size_t kept = 0;
  std::vector<store::CandidateId> ids;
  const auto body = [&](store::Writer& writer) -> Result<void> {
    kept = 0;
    ids.clear();
    // The manifest in force changes only with the current candidates.
    TRY_ASSIGN(const auto known, store::find_kernel(writer.reader(), kernel.name));
    if (join && (!known || known->manifest_digest != kernel.manifest_digest ||
                 known->inputs != kernel.inputs)) {
      return fail(ErrorCode::exists, "kernel " + kernel.name +
                                         " is in force here with other sources, or none: these "
                                         "candidates cannot join its current ones");
    }
    if (!known) {
      store::Kernel unfinished = kernel;
      unfinished.inputs.clear();
      TRY(store::put_kernel(writer, unfinished));
    }
    for (const store::Candidate& candidate : candidates) {
      TRY_ASSIGN(const auto before, store::find_candidate(writer.reader(), candidate.build_key));
      if (before && before->status == store::CandidateStatus::ok) {
        ++kept;  // The same inputs gave this before: what others may have measured stays.
        ids.push_back(before->id);
        continue;
      }
      TRY_ASSIGN(const store::CandidateId id, store::put_candidate(writer, candidate));
      ids.push_back(id);
    }
    if (join) {
      TRY(store::add_current(writer, kernel.name, ids));
    }
    if (kept == candidates.size()) {
      return {};
    }
    return store::record_change(writer, "candidates put", kernel.name,
                                {{"candidates", candidates.size() - kept}});
  };
  TRY(m_store->write(body));
  return json_response(json::Object{{"stored", candidates.size() - kept},
                                    {"known", kept},
                                    {"ids", json::Array(ids.begin(), ids.end())}});
}

Result<Response> PublishApi::list_candidates(const Request& request) const {
  store::CandidateFilter filter;
  TRY_ASSIGN(filter.kernel, value_or_empty(request, "kernel"));
  TRY_ASSIGN(filter.target, value_or_empty(request, "target"));
  TRY_ASSIGN(const std::string role, value_or_empty(request, "role"));
  TRY_ASSIGN(const std::string all, value_or_empty(request, "all"));
  filter.current_only = all != "true";
  if (filter.kernel.empty()) {
    return fail(ErrorCode::usage, "say whose candidates: ?kernel=NAME");
  }
  if (!role.empty()) {
    using enum store::CandidateRole;
    for (const auto known : {kernel, reference, prepare}) {
      if (store::role_name(known) == role) {
        filter.role = known;
      }
    }
    if (!filter.role) {
      return fail(ErrorCode::usage,
                  "role must be kernel, reference or prepare, not \"" + role + "\"");
    }
  }
  TRY_ASSIGN(const store::Reader reader, m_store->reader());
  TRY(require_kernel(reader, filter.kernel));
  json::Array candidates;
  TRY(store::for_each_candidate(reader, filter, false,
                                [&](const store::Candidate& candidate) -> Result<void> {
                                  candidates.emplace_back(store::to_json(candidate));
                                  return {};
                                }));
  return json_response(std::move(candidates));
}

Result<Response> PublishApi::known_candidates(const Request& request) const {
  TRY_ASSIGN(const json::Value document, json_body(request));
  const json::Node top(document, "the request");
  TRY_ASSIGN(const json::Node list, top.at("build_keys"));
  TRY_ASSIGN(const auto nodes, list.elements());
  if (nodes.size() > k_max_keys) {
    return fail(list.error("names more than " + std::to_string(k_max_keys) + " build keys"));
  }
  TRY_ASSIGN(const store::Reader reader, m_store->reader());
  json::Object known;
  for (const json::Node& node : nodes) {
    TRY_ASSIGN(const std::string text, node.text());
    const auto key = Digest::parse(text);
    if (!key) {
      return fail(node.error(key.error().message));
    }
    TRY_ASSIGN(const auto state, store::find_candidate(reader, *key));
    if (state) {
      known.emplace(key->text(), store::status_name(state->status));
    }
  }
  return json_response(json::Object{{"known", std::move(known)}});
}

// --- Kernels ---

Result<Response> PublishApi::list_kernels() const {
  TRY_ASSIGN(const store::Reader reader, m_store->reader());
  TRY_ASSIGN(const auto kernels, store::list_kernels(reader));
  json::Array names;
  for (const store::Kernel& kernel : kernels) {
    names.emplace_back(json::Object{{"name", kernel.name}, {"interface", kernel.interface.text()}});
  }
  return json_response(std::move(names));
}

Result<Response> PublishApi::get_kernel(std::string_view name) const {
  TRY_ASSIGN(const store::Reader reader, m_store->reader());
  TRY_ASSIGN(const store::Kernel kernel, require_kernel(reader, name));
  return json_response(store::to_json(kernel));
}

Result<Response> PublishApi::put_current(const Request& request, std::string_view name) const {
  TRY_ASSIGN(const json::Value document, json_body(request));
  const json::Node top(document, "the request");
  TRY_ASSIGN(const json::Node kernel_node, top.at("kernel"));
  TRY_ASSIGN(const SentKernel sent, read_kernel(kernel_node));
  const store::Kernel& kernel = sent.row;
  if (kernel.name != name) {
    return fail(kernel_node.error("is " + kernel.name + ", not " + std::string(name)));
  }
  TRY_ASSIGN(const bool partial, top.boolean_or("partial", false));
  TRY_ASSIGN(const json::Node targets, top.at("targets"));
  TRY_ASSIGN(const auto members, targets.members());
  std::map<std::string, std::vector<Digest>> wanted;
  for (const json::Node& member : members) {
    TRY_ASSIGN(const auto nodes, member.elements());
    auto& keys = wanted[std::string(member.key())];
    for (const json::Node& node : nodes) {
      TRY_ASSIGN(const std::string text, node.text());
      const auto key = Digest::parse(text);
      if (!key) {
        return fail(node.error(key.error().message));
      }
      keys.push_back(*key);
    }
  }
  const auto body = [&](store::Writer& writer) -> Result<void> {
    TRY(store::put_kernel(writer, kernel));
    json::Object counts;
    for (const auto& [target, keys] : wanted) {
      std::vector<store::CandidateId> ids;
      for (const Digest& key : keys) {
        TRY_ASSIGN(const auto state, store::find_candidate(writer.reader(), key));
        if (!state && partial) {
          continue;
        }
        if (!state) {
          return fail(ErrorCode::not_found, "there is no candidate with the build key " +
                                                key.text() +
                                                "; nothing was changed: send it first");
        }
        ids.push_back(state->id);
      }
      TRY(store::set_current(writer, kernel.name, target, ids));
      counts.emplace(target, ids.size());
    }
    return store::record_change(writer, "kernel current", kernel.name, std::move(counts));
  };
  TRY(m_store->write(body));
  for (const auto& [target, keys] : wanted) {
    TRY(store::repack_artifacts(*m_store, kernel.name, target));
  }
  return json_response(json::Object{{"kernel", kernel.name}, {"targets", wanted.size()}});
}

}  // namespace cubinary::server
