// SPDX-License-Identifier: Apache-2.0
#include "client/source.hpp"

#include <algorithm>
#include <cctype>
#include <system_error>

#include "client/layout_source.hpp"
#include "client/registry_source.hpp"

namespace cubinary::client {
namespace {

using core::ErrorCode;
using core::fail;
using core::Result;

bool all_digits(std::string_view text) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isdigit(c); });
}

bool is_folder(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::is_directory(path, ignored);
}

/// HOST[:PORT], HOST being a name, an IPv4 address or [IPv6].
bool is_authority(std::string_view text) {
  std::string_view host = text;
  if (text.starts_with('[')) {
    const auto end = text.find(']');
    if (end == std::string_view::npos) {
      return false;
    }
    host = text.substr(1, end - 1);
    const auto rest = text.substr(end + 1);
    if (!rest.empty() && (!rest.starts_with(':') || !all_digits(rest.substr(1)))) {
      return false;
    }
    return !host.empty() && host.find_first_not_of("0123456789abcdefABCDEF:.%") == host.npos;
  }
  if (const auto colon = text.find(':'); colon != std::string_view::npos) {
    host = text.substr(0, colon);
    const auto port = text.substr(colon + 1);
    if (!all_digits(port) || port.size() > 5) {
      return false;
    }
  }
  return !host.empty() && std::all_of(host.begin(), host.end(), [](unsigned char c) {
    return std::isalnum(c) || c == '.' || c == '-' || c == '_';
  });
}

core::Error not_a_source(std::string_view text, std::string_view why) {
  return {ErrorCode::usage, "source \"" + std::string(text) + "\": " + std::string(why) +
                                "; write DIR[:TAG], http[s]://HOST[:PORT][/REPOSITORY][:TAG] or "
                                "oci://HOST/REPOSITORY[:TAG]"};
}

Result<SourceName> parse_registry(std::string_view text, std::string_view scheme,
                                  std::string_view rest, bool needs_repository) {
  SourceName name;
  name.kind = SourceName::Kind::registry;
  while (rest.ends_with('/')) {
    rest.remove_suffix(1);
  }
  std::string_view authority = rest;
  std::string_view path;
  if (const auto slash = rest.find('/'); slash != std::string_view::npos) {
    authority = rest.substr(0, slash);
    path = rest.substr(slash + 1);
    if (const auto colon = path.find(':'); colon != std::string_view::npos) {
      name.tag = path.substr(colon + 1);
      if (name.tag.empty()) {
        return fail(not_a_source(text, "the tag after ':' is empty"));
      }
      path = path.substr(0, colon);
    }
    name.repository = path;
  } else if (const auto colon = rest.rfind(':'); colon != std::string_view::npos &&
                                                 !all_digits(rest.substr(colon + 1)) &&
                                                 rest.find(']', colon) == rest.npos) {
    name.tag = rest.substr(colon + 1);
    authority = rest.substr(0, colon);
  }
  if (!is_authority(authority)) {
    return fail(not_a_source(text, "no usable host"));
  }
  if (path.empty() && needs_repository) {
    return fail(not_a_source(text, "oci:// names a repository after the host"));
  }
  if (!core::oci::is_repository(name.repository)) {
    return fail(not_a_source(text, "\"" + name.repository +
                                       "\" is no repository name (lower-case letters, digits and "
                                       ". _ - between slashes)"));
  }
  if (!name.tag.empty() && !core::oci::is_tag(name.tag)) {
    return fail(not_a_source(text, "\"" + name.tag + "\" is no tag"));
  }
  name.origin = std::string(scheme) + "://" + std::string(authority);
  return name;
}

}  // namespace

Deadline deadline_after(double seconds) {
  // A year stands for "no bound": adding more could overflow the clock.
  const double bounded = std::clamp(seconds, 0.0, 365.0 * 86400.0);
  return std::chrono::steady_clock::now() +
         std::chrono::duration_cast<std::chrono::steady_clock::duration>(
             std::chrono::duration<double>(bounded));
}

Result<SourceName> SourceName::parse(std::string_view text) {
  if (text.empty()) {
    return fail(not_a_source(text, "it is empty"));
  }
  for (const std::string_view scheme : {"http", "https"}) {
    const std::string prefix = std::string(scheme) + "://";
    if (text.starts_with(prefix)) {
      return parse_registry(text, scheme, text.substr(prefix.size()), false);
    }
  }
  if (text.starts_with("oci://")) {
    return parse_registry(text, "https", text.substr(6), true);
  }
  if (text.find("://") != std::string_view::npos) {
    return fail(not_a_source(text, "unknown scheme"));
  }

  SourceName name;
  name.directory = text;
  const auto colon = text.rfind(':');
  if (!is_folder(name.directory) && colon != std::string_view::npos && colon > 0 &&
      text.find('/', colon) == std::string_view::npos) {
    name.directory = text.substr(0, colon);
    name.tag = text.substr(colon + 1);
    if (!core::oci::is_tag(name.tag)) {
      return fail(not_a_source(text, "\"" + name.tag + "\" is no tag"));
    }
  }
  return name;
}

std::string SourceName::place() const {
  return kind == Kind::layout ? directory.string() : origin + "/" + repository;
}

Result<std::unique_ptr<Source>> open_source(const SourceName& name, const SourceOptions& options) {
  if (name.kind == SourceName::Kind::layout) {
    return open_layout_source(name.directory);
  }
  return open_registry_source(name, options);
}

}  // namespace cubinary::client
