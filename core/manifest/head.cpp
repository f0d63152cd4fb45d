// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>

#include "core/manifest/parse.hpp"

namespace cubinary::core {
namespace {

constexpr std::int64_t k_most = std::numeric_limits<std::int64_t>::max();

std::string in_quotes(std::string_view text) {
  return "\"" + std::string(text) + "\"";
}

Result<void> parse_name(const ManifestReader& reader, const TomlNode& root, Manifest& manifest) {
  TRY_ASSIGN(const TomlNode* value, reader.required(root, "name", "the manifest"));
  TRY_ASSIGN(manifest.name, reader.text(*value, "\"name\""));
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  const auto rest = [&](char c) {
    return letter(c) || (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '.';
  };
  const std::string& name = manifest.name;
  if (name.empty() || name.size() > 128 || !letter(name.front()) ||
      !std::ranges::all_of(name, rest)) {
    return reader.error(value->location,
                        "the kernel's name " + in_quotes(name) +
                            " must be letters, digits, _ - and ., start with a letter, and be at "
                            "most 128 long");
  }
  return {};
}

Result<void> parse_sources(const ManifestReader& reader, const TomlNode& root, Manifest& manifest) {
  const TomlNode* one = root.find("source");
  const TomlNode* several = root.find("sources");
  if (one != nullptr && several != nullptr) {
    return reader.error(several->location, "give \"source\" or \"sources\", not both");
  }
  if (one != nullptr) {
    TRY_ASSIGN(manifest.sources.emplace_back(), reader.text(*one, "\"source\""));
    if (manifest.sources.front().empty()) {
      return reader.error(one->location, "\"source\" must not be empty text");
    }
    return {};
  }
  if (several == nullptr) {
    return reader.error(root.location, "the manifest needs the key \"source\"");
  }
  TRY(reader.expect_list(*several, "\"sources\""));
  TRY_ASSIGN(manifest.sources, reader.texts(*several, "\"sources\""));
  if (manifest.sources.empty()) {
    return reader.error(several->location, "\"sources\" is empty");
  }
  return {};
}

}  // namespace

Result<void> check_flag(const ManifestReader& reader, const std::string& flag, SourceLocation at) {
  struct Taken {
    std::string_view prefix;
    std::string_view instead;
  };
  constexpr Taken taken[] = {
      {"-arch", "the target comes from \"targets\" or --target"},
      {"--gpu-architecture", "the target comes from \"targets\" or --target"},
      {"-gencode", "the target comes from \"targets\" or --target"},
      {"--generate-code", "the target comes from \"targets\" or --target"},
      {"-I", "include folders go into \"include\""},
      {"--include-path", "include folders go into \"include\""},
      {"-o", "the builder names its outputs"},
      {"--output-file", "the builder names its outputs"},
      {"-frandom-seed", "the builder sets it, so that the same inputs give the same bytes"},
      {"--frandom-seed", "the builder sets it, so that the same inputs give the same bytes"},
  };
  if (!flag.starts_with('-')) {
    return reader.error(at, "the flag " + in_quotes(flag) + " must begin with \"-\"");
  }
  for (const Taken& entry : taken) {
    if (flag.starts_with(entry.prefix) &&
        (entry.prefix != "-o" || flag.size() == 2 || flag[2] == '=' || flag[2] == ' ')) {
      return reader.error(
          at, "the flag " + in_quotes(flag) + " is not allowed: " + std::string(entry.instead));
    }
  }
  return {};
}

Result<void> parse_head(const ManifestReader& reader, const TomlNode& root, ManifestDraft& draft) {
  Manifest& manifest = draft.manifest;
  TRY_ASSIGN(const TomlNode* version, reader.required(root, "manifest", "the manifest"));
  TRY_ASSIGN(const std::int64_t number, reader.integer(*version, "\"manifest\"", 1, k_most));
  if (number != 1) {
    return reader.error(version->location, "\"manifest\" is " + std::to_string(number) +
                                               "; this program reads format 1");
  }
  TRY(parse_name(reader, root, manifest));
  if (const TomlNode* value = root.find("summary")) {
    TRY_ASSIGN(manifest.summary, reader.text(*value, "\"summary\""));
  }
  TRY(parse_sources(reader, root, manifest));
  if (const TomlNode* value = root.find("include")) {
    TRY_ASSIGN(manifest.includes, reader.texts(*value, "\"include\""));
  }
  if (const TomlNode* value = root.find("flags")) {
    TRY_ASSIGN(manifest.flags, reader.texts(*value, "\"flags\""));
    for (std::size_t i = 0; i < manifest.flags.size(); ++i) {
      TRY(check_flag(reader, manifest.flags[i],
                     value->items.empty() ? value->location : value->items[i].location));
    }
  }
  if (const TomlNode* value = root.find("backend")) {
    TRY_ASSIGN(const std::size_t index, reader.word(*value, "\"backend\"", {"nvrtc", "nvcc"}));
    manifest.backend = index == 0 ? Backend::nvrtc : Backend::nvcc;
  }
  if (const TomlNode* value = root.find("targets")) {
    TRY(reader.expect_list(*value, "\"targets\""));
    for (const TomlNode& item : value->items) {
      TRY_ASSIGN(const std::string name, reader.text(item, "a target"));
      auto target = Target::parse(name);
      if (!target) {
        return reader.error(item.location, target.error().message);
      }
      if (std::ranges::find(manifest.targets, *target) != manifest.targets.end()) {
        return reader.error(item.location, "the target " + in_quotes(name) + " is listed twice");
      }
      manifest.targets.push_back(*target);
    }
  }
  return {};
}

}  // namespace cubinary::core
