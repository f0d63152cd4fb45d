// SPDX-License-Identifier: Apache-2.0
#include "core/wire/oci.hpp"

#include <algorithm>
#include <array>
#include <limits>

#include "core/base/document.hpp"
#include "core/base/json.hpp"

namespace cubinary::core::oci {
namespace {

using json::Array;
using json::Node;
using json::Object;
using json::Value;

Value to_value(const std::map<std::string, std::string>& map) {
  Object object;
  for (const auto& [key, text] : map) {
    object[key] = text;
  }
  return object;
}

Value to_value(const Descriptor& descriptor) {
  Object object{{"mediaType", descriptor.media_type},
                {"digest", descriptor.digest.text()},
                {"size", descriptor.size}};
  if (!descriptor.annotations.empty()) {
    object["annotations"] = to_value(descriptor.annotations);
  }
  return object;
}

Value to_value(const std::vector<Descriptor>& descriptors) {
  Array array;
  for (const Descriptor& descriptor : descriptors) {
    array.push_back(to_value(descriptor));
  }
  return array;
}

Result<std::map<std::string, std::string>> annotations_of(const Node& node) {
  TRY_ASSIGN(const Node annotations, node.find("annotations"));
  if (!annotations.exists() || annotations.value() == Value(nullptr)) {
    return std::map<std::string, std::string>();
  }
  return annotations.text_map();
}

Result<Descriptor> descriptor_of(const Node& node) {
  Descriptor descriptor;
  TRY_ASSIGN(descriptor.media_type, node.text("mediaType"));
  TRY_ASSIGN(const Node digest, node.at("digest"));
  TRY_ASSIGN(const std::string text, digest.text());
  auto parsed = Digest::parse(text);
  if (!parsed || !text.starts_with("sha256:")) {
    return fail(digest.error("must be sha256: and 64 lower-case hexadecimal digits"));
  }
  descriptor.digest = *parsed;
  TRY_ASSIGN(const std::int64_t size,
             node.integer("size", 0, std::numeric_limits<std::int64_t>::max()));
  descriptor.size = static_cast<std::uint64_t>(size);
  TRY_ASSIGN(descriptor.annotations, annotations_of(node));
  return descriptor;
}

Result<std::vector<Descriptor>> descriptors_of(const Node& node, std::string_view key) {
  TRY_ASSIGN(const Node array, node.at(key));
  TRY_ASSIGN(const std::vector<Node> nodes, array.elements());
  std::vector<Descriptor> descriptors;
  for (const Node& element : nodes) {
    TRY_ASSIGN(Descriptor descriptor, descriptor_of(element));
    descriptors.push_back(std::move(descriptor));
  }
  return descriptors;
}

// `mediaType` is optional in the image-spec, but every document of a release has it: without it one
// kind could be passed off as another.
Result<void> check_head(const Node& top, std::string_view media_type) {
  TRY(top.integer("schemaVersion", 2, 2));
  TRY_ASSIGN(const Node type, top.at("mediaType"));
  TRY_ASSIGN(const std::string text, type.text());
  if (text != media_type) {
    return fail(type.error("must be \"" + std::string(media_type) + "\""));
  }
  return {};
}

bool is_lower_alnum(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}
bool is_word(char c) {
  return is_lower_alnum(c) || (c >= 'A' && c <= 'Z') || c == '_';
}

// alphanumerics joined by `.`, `_`, `__` or dashes.
bool is_path_component(std::string_view text) {
  const auto skip = [&text](auto accepts) {
    const auto end = std::ranges::find_if_not(text, accepts);
    const auto count = static_cast<std::size_t>(end - text.begin());
    text.remove_prefix(count);
    return count;
  };
  while (true) {
    if (skip(is_lower_alnum) == 0) {
      return false;
    }
    if (text.empty()) {
      return true;
    }
    if (text.starts_with("__")) {
      text.remove_prefix(2);
    } else if (text.front() == '.' || text.front() == '_') {
      text.remove_prefix(1);
    } else if (skip([](char c) { return c == '-'; }) == 0) {
      return false;
    }
  }
}

}  // namespace

std::string to_json(const Index& index) {
  return json::to_text(Object{
      {"schemaVersion", 2}, {"mediaType", k_index_type}, {"manifests", to_value(index.manifests)}});
}

std::string to_json(const Manifest& manifest) {
  Object object{{"schemaVersion", 2},
                {"mediaType", k_manifest_type},
                {"artifactType", manifest.artifact_type},
                {"config", to_value(manifest.config)},
                {"layers", to_value(manifest.layers)}};
  if (manifest.subject) {
    object["subject"] = to_value(*manifest.subject);
  }
  if (!manifest.annotations.empty()) {
    object["annotations"] = to_value(manifest.annotations);
  }
  return json::to_text(object);
}

Result<Index> index_from_json(std::string_view text) {
  constexpr std::string_view k_what = "the image index";
  TRY_ASSIGN(const Value value, parse_document(text, k_what));
  const Node top(value, k_what);
  TRY_ASSIGN(const Node type, top.find("mediaType"));
  if (type.exists() && type.value() == Value(k_manifest_type)) {
    return fail(ErrorCode::corrupt,
                "this is one target's manifest, not a release: copy the whole release again with "
                "skopeo copy --all --preserve-digests");
  }
  TRY(check_head(top, k_index_type));
  Index index;
  TRY_ASSIGN(index.manifests, descriptors_of(top, "manifests"));
  return index;
}

Result<Manifest> manifest_from_json(std::string_view text) {
  constexpr std::string_view k_what = "the image manifest";
  TRY_ASSIGN(const Value value, parse_document(text, k_what));
  const Node top(value, k_what);
  TRY(check_head(top, k_manifest_type));
  Manifest manifest;
  TRY_ASSIGN(manifest.artifact_type, top.text_or("artifactType", ""));
  TRY_ASSIGN(const Node config, top.at("config"));
  TRY_ASSIGN(manifest.config, descriptor_of(config));
  TRY_ASSIGN(manifest.layers, descriptors_of(top, "layers"));
  TRY_ASSIGN(const Node subject, top.find("subject"));
  if (subject.exists()) {
    TRY_ASSIGN(manifest.subject, descriptor_of(subject));
  }
  TRY_ASSIGN(manifest.annotations, annotations_of(top));
  return manifest;
}

bool is_tag(std::string_view text) {
  constexpr std::size_t k_max_tag = 128;
  return !text.empty() && text.size() <= k_max_tag && is_word(text.front()) &&
         std::ranges::all_of(text, [](char c) { return is_word(c) || c == '.' || c == '-'; });
}

bool is_repository(std::string_view text) {
  constexpr std::size_t k_max_repository = 255;
  if (text.empty() || text.size() > k_max_repository) {
    return false;
  }
  while (true) {
    const std::size_t slash = text.find('/');
    if (!is_path_component(text.substr(0, slash))) {
      return false;
    }
    if (slash == std::string_view::npos) {
      return true;
    }
    text.remove_prefix(slash + 1);
  }
}

std::string signature_tag(const Digest& index) {
  return "sha256-" + index.hex();
}

}  // namespace cubinary::core::oci
