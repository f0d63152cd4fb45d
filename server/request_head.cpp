// SPDX-License-Identifier: Apache-2.0
#include "server/request_head.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <utility>

namespace cubinary::server {
namespace {

bool is_token_char(char c) {
  constexpr std::string_view k_marks = "!#$%&'*+-.^_`|~";
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         k_marks.find(c) != std::string_view::npos;
}

bool is_token(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, is_token_char);
}

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

bool same_ignoring_case(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, {}, lower, lower);
}

std::string_view trim(std::string_view text) {
  const auto begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) {
    return {};
  }
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

bool is_control(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte < 0x20 || byte == 0x7f;
}

int hex_value(char c) {
  if (c >= '0' && c <= '9') {
    return c - '0';
  }
  c = lower(c);
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/// Why a target is refused, or nothing. Escapes must be whole; none may stand for a control
/// character (it could end up in a header or a log) or, in the path, for a slash (it would change
/// the route).
std::optional<std::string> check_target(std::string_view target) {
  if (!target.starts_with('/')) {
    return "the request target must be an absolute path";
  }
  bool in_path = true;
  for (std::size_t i = 0; i < target.size(); ++i) {
    const char c = target[i];
    if (is_control(c) || static_cast<unsigned char>(c) >= 0x80 || c == ' ' || c == '#') {
      return "the request target holds a character that must be percent-encoded";
    }
    if (c == '?') {
      in_path = false;
    }
    if (c != '%') {
      continue;
    }
    if (i + 2 >= target.size() || hex_value(target[i + 1]) < 0 || hex_value(target[i + 2]) < 0) {
      return "the request target holds a broken percent escape";
    }
    const int value = hex_value(target[i + 1]) * 16 + hex_value(target[i + 2]);
    if (value < 0x20 || value == 0x7f || (in_path && (value == '/' || value == '\\'))) {
      return "the request target holds a percent escape that is not allowed";
    }
    i += 2;
  }
  return std::nullopt;
}

/// A field handlers use, and whether it may come more than once (as a list).
struct Wanted {
  std::string_view name;
  std::string RequestHead::* member;
  bool list = false;
};
constexpr std::array k_wanted = {
    Wanted{"host", &RequestHead::host},
    Wanted{"authorization", &RequestHead::authorization},
    Wanted{"if-none-match", &RequestHead::if_none_match, true},
    Wanted{"if-range", &RequestHead::if_range},
    Wanted{"range", &RequestHead::range},
    Wanted{"x-forwarded-for", &RequestHead::forwarded_for, true},
    Wanted{"content-type", &RequestHead::content_type},
    Wanted{"content-encoding", &RequestHead::content_encoding},
};

/// What the fields of one head add up to besides the wanted ones.
struct Framing {
  std::array<bool, k_wanted.size()> seen{};
  bool has_length = false;
  bool has_encoding = false;
};

std::optional<HeadRefusal> take_field(std::string_view name, std::string_view value,
                                      RequestHead& head, Framing& framing) {
  for (std::size_t i = 0; i < k_wanted.size(); ++i) {
    if (!same_ignoring_case(name, k_wanted[i].name)) {
      continue;
    }
    std::string& field = head.*k_wanted[i].member;
    if (framing.seen[i] && !k_wanted[i].list) {
      return HeadRefusal{400, "the header " + std::string(k_wanted[i].name) + " is given twice"};
    }
    if (framing.seen[i]) {
      field += ", ";
    }
    field += value;
    framing.seen[i] = true;
    return std::nullopt;
  }
  if (same_ignoring_case(name, "content-length")) {
    if (framing.has_length) {
      return HeadRefusal{400, "the header content-length is given twice"};
    }
    framing.has_length = true;
    if (value.empty() || !std::ranges::all_of(value, [](char c) { return c >= '0' && c <= '9'; })) {
      return HeadRefusal{400, "the header content-length is no number"};
    }
    const auto [end, error] =
        std::from_chars(value.data(), value.data() + value.size(), head.body_bytes);
    if (error != std::errc()) {
      return HeadRefusal{413, "the request body is too large"};
    }
  } else if (same_ignoring_case(name, "transfer-encoding")) {
    framing.has_encoding = true;
  } else if (same_ignoring_case(name, "expect")) {
    head.expects_continue = same_ignoring_case(value, "100-continue");
  } else if (same_ignoring_case(name, "connection")) {
    while (true) {
      const auto comma = value.find(',');
      head.close = head.close || same_ignoring_case(trim(value.substr(0, comma)), "close");
      if (comma == std::string_view::npos) {
        break;
      }
      value.remove_prefix(comma + 1);
    }
  }
  return std::nullopt;
}

}  // namespace

HeadScan scan_head(std::string_view buffer, std::size_t from, const HeadLimits& limits) {
  // A line end may be split between two reads, so start where it could begin.
  std::size_t at = from >= 3 ? from - 3 : 0;
  while ((at = buffer.find('\n', at)) != std::string_view::npos) {
    if (at == 0 || buffer[at - 1] != '\r') {
      return {HeadScan::State::refused, 0, {400, "a line of the request does not end in CR LF"}};
    }
    if (at == 1 || (at >= 3 && buffer[at - 2] == '\n')) {
      if (at + 1 > limits.bytes) {
        break;
      }
      return {HeadScan::State::complete, at + 1, {}};
    }
    ++at;
  }
  if (buffer.size() <= limits.target_bytes + 32) {
    return {};
  }
  if (buffer.substr(0, limits.target_bytes + 32).find('\n') == std::string_view::npos) {
    return {HeadScan::State::refused, 0, {414, "the request target is too long"}};
  }
  if (buffer.size() > limits.bytes) {
    return {HeadScan::State::refused,
            0,
            {431, "the request's header fields are larger than " + std::to_string(limits.bytes) +
                      " bytes"}};
  }
  return {};
}

tl::expected<RequestHead, HeadRefusal> parse_head(std::string_view head, const HeadLimits& limits) {
  const auto refuse = [](int status, std::string message) {
    return tl::unexpected<HeadRefusal>(HeadRefusal{status, std::move(message)});
  };
  RequestHead result;
  const std::size_t line_end = head.find("\r\n");
  const std::string_view line = head.substr(0, line_end);
  const std::size_t first = line.find(' ');
  const std::size_t second = first == std::string_view::npos ? first : line.find(' ', first + 1);
  if (second == std::string_view::npos || line.find(' ', second + 1) != std::string_view::npos ||
      !is_token(line.substr(0, first))) {
    return refuse(400, "the request line is malformed");
  }
  result.method = line.substr(0, first);
  result.target = line.substr(first + 1, second - first - 1);
  const std::string_view version = line.substr(second + 1);
  if (version != "HTTP/1.1" && version != "HTTP/1.0") {
    return refuse(version.starts_with("HTTP/") ? 505 : 400, "only HTTP/1.1 is spoken here");
  }
  result.close = version == "HTTP/1.0";
  if (result.target.size() > limits.target_bytes) {
    return refuse(414, "the request target is too long");
  }
  if (auto why = check_target(result.target)) {
    return refuse(400, *std::move(why));
  }

  Framing framing;
  std::size_t count = 0;
  std::string_view rest = head.substr(line_end + 2);
  while (!rest.starts_with("\r\n")) {
    const std::size_t end = rest.find("\r\n");
    if (end == std::string_view::npos) {
      return refuse(400, "the request ends within its header fields");
    }
    const std::string_view field = rest.substr(0, end);
    rest.remove_prefix(end + 2);
    if (++count > limits.fields) {
      return refuse(
          431, "the request has more than " + std::to_string(limits.fields) + " header fields");
    }
    const std::size_t colon = field.find(':');
    if (colon == std::string_view::npos || !is_token(field.substr(0, colon))) {
      return refuse(400, "a header field's name is malformed");
    }
    const std::string_view value = trim(field.substr(colon + 1));
    if (std::ranges::any_of(value, [](char c) { return is_control(c) && c != '\t'; })) {
      return refuse(400, "a header field's value holds a control character");
    }
    if (auto refusal = take_field(field.substr(0, colon), value, result, framing)) {
      return tl::unexpected<HeadRefusal>(*std::move(refusal));
    }
  }
  if (framing.has_encoding && framing.has_length) {
    return refuse(400, "content-length and transfer-encoding must not come together");
  }
  if (framing.has_encoding) {
    return refuse(411,
                  "send the request body with its content-length: no transfer coding is taken");
  }
  if (version == "HTTP/1.1" && !framing.seen[0]) {
    return refuse(400, "the header host is missing");
  }
  return result;
}

}  // namespace cubinary::server
