// SPDX-License-Identifier: Apache-2.0
#include "builder/triton/entry.hpp"

#include <algorithm>
#include <optional>
#include <system_error>
#include <utility>

#include "builder/inspect/inspect.hpp"
#include "builder/triton/host_module.hpp"
#include "builder/triton/key.hpp"
#include "core/base/file.hpp"
#include "core/base/json.hpp"

namespace cubinary::builder {
namespace {

namespace fs = std::filesystem;
namespace json = core::json;
using core::ErrorCode;
using core::fail;
using core::Result;

constexpr std::uint64_t k_max_json = 4U << 20U;
constexpr std::uint64_t k_max_file = 256U << 20U;
constexpr std::string_view k_group_prefix = "__grp__";

/// What a kernel's own metadata says; members it lacks are empty.
struct Metadata {
  std::string hash;
  std::string name;
  std::string triton;
  std::string backend;
  std::int64_t arch = 0;
};

/// Triton's own file, so anything may be in it: what cannot be read counts as not said.
Metadata metadata_of(std::string_view text) {
  Metadata metadata;
  const auto value = json::parse(text);
  if (!value || value->get_if<json::Object>() == nullptr) {
    return metadata;
  }
  const json::Node top(*value, "metadata");
  metadata.hash = top.text_or("hash", "").value_or("");
  metadata.name = top.text_or("name", "").value_or("");
  metadata.triton = top.text_or("triton_version", "").value_or("");
  const auto target = top.find("target");
  if (target && target->exists() && target->value().get_if<json::Object>() != nullptr) {
    metadata.backend = target->text_or("backend", "").value_or("");
    metadata.arch = target->integer_or("arch", 0, 10000, 0).value_or(0);
  }
  return metadata;
}

Result<json::Value> read_json(const fs::path& path) {
  TRY_ASSIGN(const std::string text, core::read_text_file(path, k_max_json));
  auto value = json::parse(text);
  if (!value) {
    return fail(value.error().with_context(path.filename().string()));
  }
  return value;
}

/// The folder's one file with this prefix or ending.
Result<std::string> only_file(const fs::path& folder, std::string_view prefix,
                              std::string_view ending) {
  std::error_code error;
  std::string found;
  for (fs::directory_iterator at(folder, error); !error && at != fs::directory_iterator();
       at.increment(error)) {
    std::string name = at->path().filename().string();
    if (!core::is_triton_file(name) || !name.starts_with(prefix) || !name.ends_with(ending)) {
      continue;
    }
    if (!found.empty()) {
      return fail(ErrorCode::corrupt, "holds both " + found + " and " + name);
    }
    found = std::move(name);
  }
  if (error) {
    return fail(core::errno_error("cannot read folder " + folder.string(), error.value()));
  }
  if (found.empty()) {
    return fail(ErrorCode::corrupt,
                "holds no " + std::string(prefix) + "*" + std::string(ending) + ": not finished");
  }
  return found;
}

/// Reads a file into the item and gives its digest.
Result<core::Digest> take(TritonItem& item, const fs::path& path) {
  TRY_ASSIGN(core::Bytes bytes, core::read_file(path, k_max_file));
  const core::Digest digest = core::sha256(bytes);
  item.contents.emplace(digest, std::move(bytes));
  return digest;
}

/// Reads the group and all it names.
Result<void> take_group(TritonItem& item, core::TritonKernel& kernel, const fs::path& folder) {
  TRY_ASSIGN(kernel.group, only_file(folder, k_group_prefix, ".json"));
  TRY_ASSIGN(const json::Value value, read_json(folder / kernel.group));
  const json::Node top(value, kernel.group);
  TRY_ASSIGN(const json::Node paths, top.at("child_paths"));
  TRY_ASSIGN(const auto members, paths.members());
  for (const json::Node& member : members) {
    const std::string name(member.key());
    if (!core::is_triton_file(name)) {
      return fail(ErrorCode::corrupt, kernel.group + " names \"" + name + "\", which is no file");
    }
    auto digest = take(item, folder / name);
    if (!digest && digest.error().code == ErrorCode::not_found) {
      return fail(ErrorCode::corrupt,
                  "its group names " + name + ", which is not there: a partial group");
    }
    TRY_ASSIGN(const core::Digest content, std::move(digest));
    kernel.files.emplace(name, content);
  }
  return {};
}

Result<void> check_cubin(const TritonItem& item, const CapturedKernel& captured,
                         const Metadata& metadata) {
  const core::TritonKernel& kernel = captured.kernel;
  const auto is_cubin = [](const auto& file) { return file.first.ends_with(".cubin"); };
  const auto cubin = std::ranges::find_if(kernel.files, is_cubin);
  if (cubin == kernel.files.end()) {
    return fail(ErrorCode::corrupt, "its group holds no cubin: a partial group");
  }
  TRY_ASSIGN(const core::Target target, core::Target::parse(captured.target));
  TRY_ASSIGN(const CubinInfo info, inspect_cubin(item.contents.at(cubin->second)));
  TRY_ASSIGN(const core::Target made_for, core::Target::parse(info.target));
  // Triton names the silicon and picks the suffix itself.
  if (made_for.capability() != target.capability()) {
    return fail(ErrorCode::bad_cubin,
                cubin->first + " is for " + info.target + ", the entry for " + captured.target);
  }
  if (!metadata.name.empty() && info.find(metadata.name) == nullptr) {
    return fail(ErrorCode::bad_cubin, cubin->first + " holds no kernel \"" + metadata.name +
                                          "\", which its metadata names");
  }
  return {};
}

/// What holds for a kernel entry wherever it was found.
Result<void> check_kernel(const TritonItem& item, const CapturedKernel& captured,
                          const Metadata& metadata) {
  const core::TritonKernel& kernel = captured.kernel;
  if (!core::is_triton_key(kernel.key)) {
    return fail(ErrorCode::corrupt, "its folder's name is no key of a Triton cache");
  }
  if (!kernel.origin.triton.empty() && !is_supported_triton(kernel.origin.triton)) {
    return fail(ErrorCode::unsupported, "made by Triton " + kernel.origin.triton +
                                            "; 3.4 or later is needed, since older ones cannot "
                                            "be kept from calling a C compiler");
  }
  if (!metadata.hash.empty()) {
    const auto digest = core::Digest::parse(metadata.hash);
    if (!digest || triton_folder_name(*digest) != kernel.key) {
      return fail(ErrorCode::corrupt,
                  "its metadata belongs under another key: files were mixed up");
    }
  }
  return check_cubin(item, captured, metadata);
}

Metadata metadata_in(const TritonItem& item, const core::TritonKernel& kernel) {
  const auto file = kernel.files.find(kernel.group.substr(k_group_prefix.size()));
  return file == kernel.files.end() ? Metadata()
                                    : metadata_of(core::as_text(item.contents.at(file->second)));
}

Result<core::TritonOrigin> origin_of(const json::Node& top) {
  core::TritonOrigin origin;
  TRY_ASSIGN(origin.triton, top.text("triton"));
  TRY_ASSIGN(origin.python_abi, top.text_or("python_abi", ""));
  TRY_ASSIGN(origin.machine, top.text_or("machine", ""));
  for (const std::string* text : {&origin.python_abi, &origin.machine}) {
    if (!text->empty() && !core::is_triton_key(*text)) {
      return fail(top.error("\"" + *text + "\" is no Python ABI or machine"));
    }
  }
  return origin;
}

/// Checks a module's bytes against what is said of it, and fills in what they tell.
Result<void> check_module(core::TritonHost& host, core::ByteView bytes) {
  auto info = inspect_host_module(bytes);
  if (!info) {
    return fail(info.error().with_context(host.file));
  }
  if (!host.origin.machine.empty() && host.origin.machine != info->machine) {
    return fail(ErrorCode::unsupported,
                host.file + " is made for " + info->machine + ", not " + host.origin.machine);
  }
  const std::string abi = abi_of_module(host.file);
  if (!abi.empty() && !host.origin.python_abi.empty() && abi != host.origin.python_abi) {
    return fail(ErrorCode::unsupported,
                host.file + " is made for Python " + abi + ", not " + host.origin.python_abi);
  }
  host.origin.machine = info->machine;
  host.origin.python_abi = abi.empty() ? host.origin.python_abi : abi;
  host.glibc_floor = info->glibc_floor;
  return {};
}

}  // namespace

Result<TritonItem> read_captured_kernel(const fs::path& folder) {
  CapturedKernel captured;
  captured.kernel.key = folder.filename().string();
  TRY_ASSIGN(const json::Value value, read_json(folder / "cubinary.json"));
  const json::Node top(value, "cubinary.json");
  TRY_ASSIGN(captured.kernel.name, top.text("name"));
  TRY_ASSIGN(captured.target, top.text("target"));
  TRY_ASSIGN(captured.kernel.origin, origin_of(top));
  TRY_ASSIGN(const json::Node parts, top.find("key_parts"));
  if (parts.exists()) {
    TRY_ASSIGN(captured.kernel.key_parts, parts.text_map());
  }
  TritonItem item;
  TRY(take_group(item, captured.kernel, folder));
  TRY(check_kernel(item, captured, metadata_in(item, captured.kernel)));
  item.what = std::move(captured);
  return item;
}

Result<TritonItem> read_cached_kernel(const fs::path& folder, const std::string& python_abi,
                                      const std::string& machine) {
  CapturedKernel captured;
  captured.kernel.key = folder.filename().string();
  TritonItem item;
  TRY(take_group(item, captured.kernel, folder));
  const Metadata metadata = metadata_in(item, captured.kernel);
  if (metadata.arch == 0 || metadata.backend != "cuda") {
    return fail(ErrorCode::unsupported, "its metadata names no CUDA target");
  }
  captured.target = "sm_" + std::to_string(metadata.arch);
  captured.kernel.name = metadata.name;
  captured.kernel.origin = {metadata.triton, python_abi, machine};
  TRY(check_kernel(item, captured, metadata));
  item.what = std::move(captured);
  return item;
}

Result<TritonItem> read_captured_host(const fs::path& folder) {
  core::TritonHost host;
  host.source = folder.filename().string();
  TRY_ASSIGN(const json::Value value, read_json(folder / "meta.json"));
  const json::Node top(value, "meta.json");
  TRY_ASSIGN(host.name, top.text("name"));
  TRY_ASSIGN(host.file, top.text("file"));
  TRY_ASSIGN(host.origin, origin_of(top));
  if (!core::is_triton_file(host.file)) {
    return fail(ErrorCode::corrupt, "\"" + host.file + "\" is no file name");
  }
  TRY_ASSIGN(const std::string source, core::read_text_file(folder / "source.c", k_max_file));
  if (core::sha256(source).hex() != host.source) {
    return fail(ErrorCode::corrupt, "its source.c does not have the digest it is named by");
  }
  TritonItem item;
  TRY_ASSIGN(host.digest, take(item, folder / host.file));
  TRY(check_module(host, item.contents.at(host.digest)));

  TRY_ASSIGN(const json::Node keys, top.find("keys"));
  if (keys.exists()) {
    TRY_ASSIGN(const auto elements, keys.elements());
    for (const json::Node& element : elements) {
      TRY_ASSIGN(std::string key, element.text());
      if (!core::is_triton_key(key)) {
        return fail(element.error("\"" + key + "\" is no key of a Triton cache"));
      }
      host.keys.push_back(std::move(key));
    }
  }
  if (has_plain_host_keys(host.origin.triton)) {
    const auto plain = triton_host_keys(source, host.origin.machine);
    host.keys.insert(host.keys.end(), plain.begin(), plain.end());
  }
  std::ranges::sort(host.keys);
  const auto repeated = std::ranges::unique(host.keys);
  host.keys.erase(repeated.begin(), repeated.end());
  item.what = std::move(host);
  return item;
}

Result<TritonItem> read_cached_host(const fs::path& folder, const core::TritonOrigin& origin) {
  core::TritonHost host;
  TRY_ASSIGN(host.file, only_file(folder, "", ".so"));
  host.name = host.file.substr(0, host.file.find('.'));
  host.keys = {folder.filename().string()};
  if (!core::is_triton_key(host.keys.front())) {
    return fail(ErrorCode::corrupt, "its folder's name is no key of a Triton cache");
  }
  host.origin = origin;
  TritonItem item;
  TRY_ASSIGN(host.digest, take(item, folder / host.file));
  TRY(check_module(host, item.contents.at(host.digest)));
  item.what = std::move(host);
  return item;
}

Result<TritonItem> read_autotune(const fs::path& folder, const std::string& device_class,
                                 const core::TritonOrigin& origin) {
  core::TritonAutotune autotune{device_class, folder.filename().string(), {}, origin};
  if (!core::is_triton_key(autotune.key)) {
    return fail(ErrorCode::corrupt, "its folder's name is no key of a Triton cache");
  }
  std::error_code error;
  if (fs::exists(folder / "cubinary.json", error)) {
    TRY_ASSIGN(const json::Value value, read_json(folder / "cubinary.json"));
    const json::Node top(value, "cubinary.json");
    TRY_ASSIGN(autotune.origin, origin_of(top));
  }
  TritonItem item;
  for (fs::directory_iterator at(folder, error); !error && at != fs::directory_iterator();
       at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (core::is_triton_file(name) && name.ends_with(".autotune.json")) {
      TRY_ASSIGN(const core::Digest digest, take(item, at->path()));
      const std::string_view text = core::as_text(item.contents.at(digest));
      if (!text.starts_with('{') || text.find_last_of('}') == std::string_view::npos) {
        return fail(ErrorCode::corrupt, name + " is no JSON object: not finished");
      }
      autotune.files.emplace(name, digest);
    }
  }
  if (error) {
    return fail(core::errno_error("cannot read folder " + folder.string(), error.value()));
  }
  if (autotune.files.empty()) {
    return fail(ErrorCode::corrupt, "holds no autotune result");
  }
  item.what = std::move(autotune);
  return item;
}

std::string triton_version_in(const fs::path& metadata) {
  const auto text = core::read_text_file(metadata, k_max_json);
  return text ? metadata_of(*text).triton : std::string();
}

}  // namespace cubinary::builder
