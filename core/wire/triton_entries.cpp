// SPDX-License-Identifier: Apache-2.0
#include "core/wire/triton_entries.hpp"

#include <algorithm>
#include <utility>

#include "core/model/device_class.hpp"

namespace cubinary::core {
namespace {

using json::Array;
using json::Node;
using json::Object;
using json::Value;

constexpr std::size_t k_max_files_of_entry = 4096;

Value to_value(const std::map<std::string, std::string>& map) {
  Object object;
  for (const auto& [key, text] : map) {
    object.emplace(key, text);
  }
  return object;
}

void put_origin(Object& object, const TritonOrigin& origin) {
  object.emplace("triton", origin.triton);
  object.emplace("python_abi", origin.python_abi);
  object.emplace("machine", origin.machine);
}

Result<std::string> read_key(const Node& node) {
  TRY_ASSIGN(std::string key, node.text());
  if (!is_triton_key(key)) {
    return fail(node.error("\"" + key + "\" is no key of a Triton cache"));
  }
  return key;
}

Result<std::string> read_file_name(const Node& node) {
  TRY_ASSIGN(std::string name, node.text());
  if (!is_triton_file(name)) {
    return fail(node.error("\"" + name + "\" is no file name of a Triton cache"));
  }
  return name;
}

Result<std::string> read_member_key(const Node& node) {
  TRY_ASSIGN(const Node key, node.at("key"));
  return read_key(key);
}

Result<std::string> read_member_file(const Node& node, std::string_view member) {
  TRY_ASSIGN(const Node file, node.at(member));
  return read_file_name(file);
}

Result<TritonOrigin> read_origin(const Node& node) {
  TritonOrigin origin;
  TRY_ASSIGN(origin.triton, node.text("triton"));
  TRY_ASSIGN(origin.python_abi, node.text("python_abi"));
  TRY_ASSIGN(origin.machine, node.text("machine"));
  // Both become parts of folder names.
  for (const std::string* text : {&origin.python_abi, &origin.machine}) {
    if (!text->empty() && !is_triton_key(*text)) {
      return fail(node.error("\"" + *text + "\" is no Python ABI or machine"));
    }
  }
  return origin;
}

Result<TritonFiles> read_files(const Node& parent, const TritonContents* shipped) {
  TRY_ASSIGN(const Node node, parent.at("files"));
  TRY_ASSIGN(const std::vector<Node> members, node.members());
  if (members.empty() || members.size() > k_max_files_of_entry) {
    return fail(node.error("must hold 1 to " + std::to_string(k_max_files_of_entry) + " files"));
  }
  TritonFiles files;
  for (const Node& member : members) {
    if (!is_triton_file(member.key())) {
      return fail(member.error("is no file name of a Triton cache"));
    }
    TRY_ASSIGN(const Digest digest, read_bare_digest(member));
    if (shipped != nullptr && !shipped->contains(digest)) {
      return fail(member.error("lies in no pack"));
    }
    files.emplace(member.key(), digest);
  }
  return files;
}

}  // namespace

bool is_triton_key(std::string_view text) {
  constexpr std::size_t k_max_key = 128;
  return !text.empty() && text.size() <= k_max_key && std::ranges::all_of(text, [](char c) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-';
  });
}

bool is_triton_file(std::string_view text) {
  constexpr std::size_t k_max_name = 255;
  return !text.empty() && text.size() <= k_max_name && text.front() != '.' &&
         !text.starts_with("tmp.") && text.find('/') == std::string_view::npos &&
         text.find('\0') == std::string_view::npos;
}

std::map<std::string, std::string> triton_files_as_text(const TritonFiles& files) {
  std::map<std::string, std::string> texts;
  for (const auto& [name, digest] : files) {
    texts.emplace(name, digest.hex());
  }
  return texts;
}

// --- Writing ---

Object to_json(const TritonKernel& kernel) {
  Object object{{"key", kernel.key},
                {"name", kernel.name},
                {"group", kernel.group},
                {"files", to_value(triton_files_as_text(kernel.files))},
                {"key_parts", to_value(kernel.key_parts)}};
  put_origin(object, kernel.origin);
  return object;
}

Object to_json(const TritonHost& host) {
  Array keys;
  for (const std::string& key : host.keys) {
    keys.emplace_back(key);
  }
  Object object{{"source", host.source},
                {"name", host.name},
                {"file", host.file},
                {"sha256", host.digest.hex()},
                {"glibc_floor", host.glibc_floor},
                {"keys", std::move(keys)}};
  put_origin(object, host.origin);
  return object;
}

Object to_json(const TritonAutotune& autotune) {
  Object object{{"device_class", autotune.device_class},
                {"key", autotune.key},
                {"files", to_value(triton_files_as_text(autotune.files))}};
  put_origin(object, autotune.origin);
  return object;
}

// --- Reading ---

Result<Digest> read_bare_digest(const Node& node) {
  TRY_ASSIGN(const std::string text, node.text());
  auto digest = Digest::parse(text);
  if (!digest || text.size() != 2 * Digest::k_size) {
    return fail(node.error("must be 64 lower-case hexadecimal digits"));
  }
  return digest;
}

Result<TritonKernel> read_triton_kernel(const Node& node, const TritonContents* shipped) {
  TritonKernel kernel;
  TRY_ASSIGN(kernel.key, read_member_key(node));
  TRY_ASSIGN(kernel.name, node.text("name"));
  TRY_ASSIGN(kernel.origin, read_origin(node));
  TRY_ASSIGN(kernel.group, read_member_file(node, "group"));
  TRY_ASSIGN(kernel.files, read_files(node, shipped));
  if (kernel.files.contains(kernel.group)) {
    return fail(node.error("the group file is made where it is laid down, not shipped"));
  }
  TRY_ASSIGN(const Node parts, node.at("key_parts"));
  TRY_ASSIGN(kernel.key_parts, parts.text_map());
  return kernel;
}

Result<TritonHost> read_triton_host(const Node& node, const TritonContents* shipped) {
  TritonHost host;
  TRY_ASSIGN(const Node source, node.at("source"));
  TRY_ASSIGN(host.source, source.text());
  if (!host.source.empty()) {
    TRY(read_bare_digest(source));
  }
  TRY_ASSIGN(host.name, node.text("name"));
  TRY_ASSIGN(host.file, read_member_file(node, "file"));
  TRY_ASSIGN(const Node digest, node.at("sha256"));
  TRY_ASSIGN(host.digest, read_bare_digest(digest));
  if (shipped != nullptr && !shipped->contains(host.digest)) {
    return fail(digest.error("lies in no pack"));
  }
  TRY_ASSIGN(const Node keys, node.at("keys"));
  TRY_ASSIGN(const std::vector<Node> elements, keys.elements());
  if (elements.size() > k_max_files_of_entry) {
    return fail(keys.error("has too many members"));
  }
  for (const Node& element : elements) {
    TRY_ASSIGN(std::string key, read_key(element));
    if (!host.keys.empty() && host.keys.back() >= key) {
      return fail(element.error("keys must ascend"));
    }
    host.keys.push_back(std::move(key));
  }
  if (host.source.empty() && host.keys.empty()) {
    return fail(node.error("has neither a source nor a key: nobody could find it"));
  }
  TRY_ASSIGN(host.glibc_floor, node.text("glibc_floor"));
  TRY_ASSIGN(host.origin, read_origin(node));
  return host;
}

Result<TritonAutotune> read_triton_autotune(const Node& node, const TritonContents* shipped) {
  TritonAutotune autotune;
  TRY_ASSIGN(autotune.device_class, node.text("device_class"));
  if (const auto parsed = DeviceClass::parse(autotune.device_class); !parsed) {
    return fail(node.error(parsed.error().message));
  }
  TRY_ASSIGN(autotune.key, read_member_key(node));
  TRY_ASSIGN(autotune.files, read_files(node, shipped));
  TRY_ASSIGN(autotune.origin, read_origin(node));
  return autotune;
}

}  // namespace cubinary::core
