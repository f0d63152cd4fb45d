// SPDX-License-Identifier: Apache-2.0
#include "server/http.hpp"

#include <algorithm>
#include <array>

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

int hex_value(char c) {
  if (c >= '0' && c <= '9') {
    return c - '0';
  }
  return (c | 0x20) - 'a' + 10;
}

/// Every `%` is followed by two hexadecimal digits: the head's parser saw to that.
std::string percent_decode(std::string_view text, bool plus_is_space) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size()) {
      out += static_cast<char>(hex_value(text[i + 1]) * 16 + hex_value(text[i + 2]));
      i += 2;
    } else {
      out += plus_is_space && text[i] == '+' ? ' ' : text[i];
    }
  }
  return out;
}

}  // namespace

std::string_view status_phrase(int status) {
  constexpr std::array<std::pair<int, std::string_view>, 31> k_phrases = {{
      {200, "OK"},
      {201, "Created"},
      {204, "No Content"},
      {206, "Partial Content"},
      {304, "Not Modified"},
      {400, "Bad Request"},
      {401, "Unauthorized"},
      {403, "Forbidden"},
      {404, "Not Found"},
      {405, "Method Not Allowed"},
      {408, "Request Timeout"},
      {409, "Conflict"},
      {410, "Gone"},
      {411, "Length Required"},
      {413, "Content Too Large"},
      {414, "URI Too Long"},
      {415, "Unsupported Media Type"},
      {416, "Range Not Satisfiable"},
      {417, "Expectation Failed"},
      {421, "Misdirected Request"},
      {422, "Unprocessable Content"},
      {429, "Too Many Requests"},
      {431, "Request Header Fields Too Large"},
      {499, "Client Closed Request"},
      {500, "Internal Server Error"},
      {501, "Not Implemented"},
      {502, "Bad Gateway"},
      {503, "Service Unavailable"},
      {504, "Gateway Timeout"},
      {505, "HTTP Version Not Supported"},
      {507, "Insufficient Storage"},
  }};
  for (const auto& [code, phrase] : k_phrases) {
    if (code == status) {
      return phrase;
    }
  }
  return "Unknown";
}

Target decode_target(std::string_view target) {
  const auto mark = target.find('?');
  Target result;
  result.path = percent_decode(target.substr(0, mark), false);
  std::string_view rest =
      mark == std::string_view::npos ? std::string_view() : target.substr(mark + 1);
  while (!rest.empty()) {
    const std::string_view pair = rest.substr(0, rest.find('&'));
    rest.remove_prefix(std::min(rest.size(), pair.size() + 1));
    if (pair.empty()) {
      continue;
    }
    const auto equals = pair.find('=');
    result.query.emplace_back(
        percent_decode(pair.substr(0, equals), true),
        equals == std::string_view::npos ? "" : percent_decode(pair.substr(equals + 1), true));
  }
  return result;
}

Response json_response(const core::json::Value& value, std::string_view cache_control) {
  Response response;
  response.headers.emplace_back("Cache-Control", cache_control);
  response.set_body(core::json::to_text(value), "application/json");
  return response;
}

core::Result<core::json::Value> json_body(const Request& request) {
  const std::string_view type =
      trim(std::string_view(request.content_type).substr(0, request.content_type.find(';')));
  if (request.body.empty() || (!type.empty() && type != "application/json")) {
    return core::fail(core::ErrorCode::usage,
                      "this request needs a JSON document as its body (application/json)");
  }
  auto value = core::json::parse(request.body);
  if (!value) {
    return core::fail(value.error().with_context("the request's body"));
  }
  return value;
}

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
    response.blob.reset();
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
    return refusal;
  }
  response.status = 206;
  response.headers.emplace_back("Content-Range",
                                "bytes " + std::to_string(range.offset) + "-" +
                                    std::to_string(range.offset + range.length - 1) + "/" +
                                    std::to_string(response.length));
  response.length = range.length;
  if (response.blob) {
    response.offset = range.offset;
  } else if (response.reader) {
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
