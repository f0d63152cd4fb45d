// SPDX-License-Identifier: Apache-2.0
#include "server/releases_api.hpp"

#include <ctime>
#include <limits>
#include <optional>
#include <vector>

#include "builder/release/release_json.hpp"
#include "core/base/nearest.hpp"

namespace cubinary::server {
namespace {

namespace json = core::json;
using core::ErrorCode;
using core::fail;
using core::Result;

/// A request sent again, its first answer lost, finds the release it made: both times it named the
/// second it was made in.
Result<std::optional<store::Release>> made_before(const store::Reader& reader,
                                                  const builder::ReleaseRequest& request) {
  TRY_ASSIGN(auto release, store::find_release(reader, request.name));
  if (release && (release->created != request.created || release->expires != request.expires)) {
    release.reset();
  }
  return release;
}

}  // namespace

Result<Response> ReleasesApi::answer(const Request& request, const RouteMatch& match) const {
  if (match.route == Route::releases && request.method == "POST") {
    return create(request);
  }
  if (match.route == Route::release_signature) {
    TRY_ASSIGN(const auto result,
               builder::attach_signature(*m_store, match.reference, request.body));
    return json_response(builder::to_json(result));
  }
  if (match.route == Route::revocations) {
    return revocations(request);
  }
  if (match.route == Route::channel) {
    return request.method == "PUT" ? promote(request, match.reference) : channel(match.reference);
  }
  TRY_ASSIGN(const store::Reader reader, m_store->reader());
  if (match.route == Route::releases) {
    TRY_ASSIGN(json::Array releases, builder::releases_json(reader));
    return json_response(std::move(releases));
  }
  if (match.route == Route::release) {
    TRY_ASSIGN(json::Object release, builder::release_json(reader, match.reference));
    return json_response(std::move(release));
  }
  TRY_ASSIGN(const std::string* const before, query_value(request, "since"));
  if (before == nullptr) {
    return fail(ErrorCode::usage, "say since which release: ?since=NAME");
  }
  TRY_ASSIGN(json::Array changes, builder::release_diff_json(reader, *before, match.reference));
  return json_response(std::move(changes));
}

Result<Response> ReleasesApi::create(const Request& request) const {
  constexpr std::int64_t k_max = std::numeric_limits<std::int64_t>::max();
  TRY_ASSIGN(const json::Value document, json_body(request));
  const json::Node top(document, "the request");
  builder::ReleaseRequest wanted;
  TRY_ASSIGN(wanted.name, top.text("name"));
  TRY_ASSIGN(wanted.kernels, top.text_or("kernels", ""));
  TRY_ASSIGN(wanted.keep_going, top.boolean_or("keep_going", false));
  TRY_ASSIGN(wanted.cuda, top.boolean_or("cuda", true));
  TRY_ASSIGN(wanted.triton, top.boolean_or("triton", true));
  TRY_ASSIGN(wanted.created, top.integer_or("created", 1, k_max, std::time(nullptr)));
  TRY_ASSIGN(wanted.expires, top.integer_or("expires", 0, k_max, 0));
  TRY_ASSIGN(const json::Node targets, top.find("targets"));
  if (targets.exists()) {
    TRY_ASSIGN(const auto nodes, targets.elements());
    for (const json::Node& node : nodes) {
      TRY_ASSIGN(std::string target, node.text());
      wanted.targets.push_back(std::move(target));
    }
  }
  auto created = builder::create_release(*m_store, wanted);
  if (created) {
    Response response = json_response(builder::to_json(*created));
    response.status = 201;
    return response;
  }
  if (created.error().code == ErrorCode::exists) {
    TRY_ASSIGN(const store::Reader reader, m_store->reader());
    TRY_ASSIGN(auto release, made_before(reader, wanted));
    if (release) {
      return json_response(builder::to_json(builder::CreatedRelease{
          *std::move(release), {}, {}, {"it was made already, by this request sent before"}}));
    }
  }
  return fail(std::move(created).error());
}

Result<Response> ReleasesApi::promote(const Request& request, std::string_view channel) const {
  TRY_ASSIGN(const json::Value document, json_body(request));
  TRY_ASSIGN(const std::string release, json::Node(document, "the request").text("release"));
  TRY_ASSIGN(const auto promotion, builder::promote_release(*m_store, release, channel));
  return json_response(builder::to_json(promotion, channel));
}

Result<Response> ReleasesApi::channel(std::string_view name) const {
  TRY_ASSIGN(const store::Reader reader, m_store->reader());
  TRY_ASSIGN(const auto tag, store::find_tag(reader, name));
  if (!tag) {
    TRY_ASSIGN(const auto known, store::list_tags(reader, "", 1000));
    return fail(ErrorCode::not_found, "there is no channel \"" + std::string(name) + "\"" +
                                          core::did_you_mean(name, known));
  }
  return json_response(json::Object{{"channel", tag->name}, {"index", tag->manifest.text()}});
}

Result<Response> ReleasesApi::revocations(const Request& request) const {
  if (request.method == "PUT") {
    TRY_ASSIGN(const auto attached, builder::attach_revocations(*m_store, request.body));
    return json_response(builder::to_json(attached));
  }
  TRY_ASSIGN(const store::Reader reader, m_store->reader());
  TRY_ASSIGN(json::Object list, builder::revocations_json(reader));
  return json_response(std::move(list));
}

}  // namespace cubinary::server
