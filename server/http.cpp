// SPDX-License-Identifier: Apache-2.0
#include "server/http.hpp"

#include "core/base/json.hpp"
#include "server/range.hpp"

namespace cubinary::server {
namespace {

std::string_view trim(std::string_view text) {
  const auto begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) {
    return {};
  }
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

/// Weak comparison of an If-None-Match list with one strong etag.
bool lists_etag(std::string_view list, std::string_view etag) {
  while (!list.empty()) {
    const auto comma = list.find(',');
    std::string_view item = trim(list.substr(0, comma));
    if (item.starts_with("W/")) {
      item.remove_prefix(2);
    }
    if (item == "*" || item == etag) {
      return true;
    }
    if (comma == std::string_view::npos) {
      break;
    }
    list.remove_prefix(comma + 1);
  }
  return false;
}

}  // namespace

Response error_response(int status, std::string_view code, std::string_view message) {
  Response response;
  response.status = status;
  const core::json::Object error = {{"code", code}, {"message", message}};
  response.set_body(core::json::to_text(core::json::Object{{"errors", core::json::Array{error}}}),
                    "application/json");
  response.headers.emplace_back("Cache-Control", "no-store");
  return response;
}

Response error_response(const core::Error& error) {
  const core::ErrorInfo& info = core::error_info(error.code);
  return error_response(info.http_status, info.name, error.message);
}

core::Result<const std::string*> query_value(const Request& request, std::string_view name) {
  const std::string* found = nullptr;
  for (const auto& [key, value] : request.query) {
    if (key != name) {
      continue;
    }
    if (found != nullptr) {
      return core::fail(core::ErrorCode::usage,
                        "the query parameter \"" + std::string(name) + "\" is given twice");
    }
    found = &value;
  }
  return found;
}

Response apply_conditions(const Request& request, Response response) {
  if (response.status != 200 || response.etag.empty()) {
    return response;
  }
  response.headers.emplace_back("ETag", response.etag);
  response.headers.emplace_back("Accept-Ranges", "bytes");
  if (!request.if_none_match.empty() && lists_etag(request.if_none_match, response.etag)) {
    response.status = 304;
    response.body.clear();
    response.reader = nullptr;
    return response;
  }
  if (request.range.empty() || request.method != "GET" ||
      (!request.if_range.empty() && request.if_range != response.etag)) {
    return response;
  }
  const RangeRequest range = parse_range(request.range, response.length);
  if (range.kind == RangeRequest::Kind::whole) {
    return response;
  }
  if (range.kind == RangeRequest::Kind::unsatisfiable) {
    const std::string size = std::to_string(response.length);
    Response refusal = error_response(
        416, "RANGE_INVALID",
        "one range within the " + size + " bytes of this content can be had at a time");
    refusal.headers.emplace_back("Content-Range", "bytes */" + size);
    refusal.token = std::move(response.token);
    return refusal;
  }
  response.status = 206;
  response.headers.emplace_back("Content-Range",
                                "bytes " + std::to_string(range.offset) + "-" +
                                    std::to_string(range.offset + range.length - 1) + "/" +
                                    std::to_string(response.length));
  response.length = range.length;
  if (response.reader) {
    response.reader = [inner = std::move(response.reader), base = range.offset](
                          std::uint64_t offset, std::uint64_t length, const BodySink& sink) {
      return inner(base + offset, length, sink);
    };
  } else {
    response.body = response.body.substr(range.offset, range.length);
  }
  return response;
}

}  // namespace cubinary::server
