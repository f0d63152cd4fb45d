// SPDX-License-Identifier: Apache-2.0
#include "builder/triton/folder.hpp"

#include <algorithm>
#include <array>
#include <set>
#include <system_error>
#include <utility>

#include "builder/triton/entry.hpp"
#include "builder/triton/key.hpp"
#include "core/base/file.hpp"
#include "core/model/device_class.hpp"

namespace cubinary::builder {
namespace {

namespace fs = std::filesystem;
using core::ErrorCode;
using core::fail;
using core::Result;

constexpr std::uint64_t k_max_record_file = 1ULL << 30U;
constexpr std::size_t k_max_record = 16U << 20U;

/// Names in `folder`, ascending, without hidden and temporary ones; none when it is not there.
Result<std::vector<std::string>> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  fs::directory_iterator at(folder, error);
  if (error == std::errc::no_such_file_or_directory) {
    return names;
  }
  for (; !error && at != fs::directory_iterator(); at.increment(error)) {
    std::string name = at->path().filename().string();
    if (core::is_triton_file(name)) {
      names.push_back(std::move(name));
    }
  }
  if (error) {
    return fail(core::errno_error("cannot read folder " + folder.string(), error.value()));
  }
  std::ranges::sort(names);
  return names;
}

bool is_folder(const fs::path& path) {
  std::error_code error;
  return fs::is_directory(path, error);
}

/// Goes through one folder and hands on what it finds.
class Walk {
 public:
  Walk(fs::path folder, const TritonFolderOptions& options,
       const std::function<Result<void>(TritonItem)>& visit, const TritonNote& note)
      : m_folder(std::move(folder)), m_options(options), m_visit(visit), m_note(note) {}

  Result<void> capture() {
    TRY(each(m_folder / "entries", [&](const fs::path& path) {
      return finished(path, "cubinary.json") ? hand_on(read_captured_kernel(path), path)
                                             : Result<void>();
    }));
    TRY(each(m_folder / "host", [&](const fs::path& path) {
      return finished(path, "meta.json") ? hand_on(read_captured_host(path), path) : Result<void>();
    }));
    TRY_ASSIGN(const auto classes, names_in(m_folder / "autotune"));
    for (const std::string& device_class : classes) {
      if (!core::DeviceClass::parse(device_class)) {
        m_note("autotune/" + device_class + ": this names no device class, passed over");
        continue;
      }
      TRY(each(m_folder / "autotune" / device_class, [&](const fs::path& path) {
        return hand_on(read_autotune(path, device_class, {"", m_options.python_abi, ""}), path);
      }));
    }
    return records();
  }

  /// Two passes: what one entry says of Triton and Python holds for the whole cache.
  Result<void> cache() {
    TRY_ASSIGN(const core::TritonOrigin origin, origin_of_cache());
    std::size_t unclassed = 0;
    TRY(each(m_folder,
             [&](const fs::path& path) { return cached_entry(path, origin, unclassed); }));
    if (unclassed > 0) {
      m_note(std::to_string(unclassed) +
             " autotune results passed over: their keys name no GPU, so say with --device-class "
             "which one they were measured on");
    }
    return {};
  }

 private:
  template <typename Visit>
  Result<void> each(const fs::path& folder, const Visit& visit) {
    TRY_ASSIGN(const auto names, names_in(folder));
    for (const std::string& name : names) {
      if (is_folder(folder / name)) {
        TRY(visit(folder / name));
      }
    }
    return {};
  }

  Result<void> cached_entry(const fs::path& path, const core::TritonOrigin& origin,
                            std::size_t& unclassed) {
    TRY_ASSIGN(const auto files, names_in(path));
    const auto any = [&](const auto& test) { return std::ranges::any_of(files, test); };
    const bool results = any([](const auto& name) { return name.ends_with(".autotune.json"); });
    if (any([](const auto& name) { return name.starts_with("__grp__"); })) {
      TRY(hand_on(read_cached_kernel(path, origin.python_abi, origin.machine), path));
    } else if (any([](const auto& name) { return name.ends_with(".so"); })) {
      TRY(hand_on(read_cached_host(path, origin), path));
    } else if (!results && !files.empty()) {
      m_note("entry " + path.filename().string() + ": no group file, passed over as unfinished");
    }
    if (results && m_options.device_class.empty()) {
      ++unclassed;
    } else if (results) {
      TRY(hand_on(read_autotune(path, m_options.device_class, origin), path));
    }
    return {};
  }

  bool finished(const fs::path& path, const char* last_file) {
    std::error_code error;
    const bool there = fs::exists(path / last_file, error);
    if (!there) {
      m_note(path.filename().string() + ": not finished (no " + last_file + "), passed over");
    }
    return there;
  }

  /// What cannot be used is told and passed over: one entry must not cost the others.
  template <typename T>
  Result<void> hand_on(Result<T> item, const fs::path& path) {
    if (item) {
      return m_visit(*std::move(item));
    }
    m_note(path.filename().string() + ": " + item.error().message);
    return {};
  }

  Result<core::TritonOrigin> origin_of_cache() {
    std::set<std::string> abis;
    std::set<std::string> versions;
    std::set<std::string> machines;
    const auto look = [&](const fs::path& path) -> Result<void> {
      TRY_ASSIGN(const auto files, names_in(path));
      for (const std::string& name : files) {
        if (name.ends_with(".so")) {
          abis.insert(abi_of_module(name));
          if (const auto module = read_cached_host(path, {})) {
            machines.insert(std::get<core::TritonHost>(module->what).origin.machine);
          }
        } else if (name.ends_with(".json") && !name.starts_with("__grp__")) {
          versions.insert(triton_version_in(path / name));
        }
      }
      return {};
    };
    TRY(each(m_folder, look));
    abis.erase("");
    versions.erase("");
    const auto only = [](const std::set<std::string>& set) {
      return set.size() == 1 ? *set.begin() : std::string();
    };
    core::TritonOrigin origin{only(versions), m_options.python_abi, only(machines)};
    if (origin.python_abi.empty()) {
      origin.python_abi = only(abis);
    }
    if (origin.python_abi.empty()) {
      m_note(
          "the cache does not say which Python it is for: its entries are offered to any "
          "(--python-abi cp312 says it)");
    }
    return origin;
  }

  Result<void> records() {
    TRY_ASSIGN(const auto names, names_in(m_folder / "records"));
    for (const std::string& name : names) {
      const fs::path path = m_folder / "records" / name;
      if (!name.ends_with(".jsonl") || is_folder(path)) {
        continue;
      }
      TRY_ASSIGN(const std::string text, core::read_text_file(path, k_max_record_file));
      std::size_t broken = 0;
      std::size_t begin = 0;
      for (std::size_t end = text.find('\n'); end != std::string::npos;
           begin = end + 1, end = text.find('\n', begin)) {
        std::string line = text.substr(begin, end - begin);
        if (line.size() > k_max_record || !line.starts_with('{') || !line.ends_with('}')) {
          broken += line.empty() ? 0 : 1;
          continue;
        }
        TRY(m_visit({std::move(line), {}}));
      }
      broken += begin < text.size() ? 1 : 0;
      if (broken > 0) {
        m_note("records/" + name + ": " + std::to_string(broken) +
               " lines that are no whole record, passed over");
      }
    }
    return {};
  }

  fs::path m_folder;
  const TritonFolderOptions& m_options;
  const std::function<Result<void>(TritonItem)>& m_visit;
  const TritonNote& m_note;
};

}  // namespace

bool is_capture_folder(const fs::path& folder) {
  return std::ranges::any_of(std::array{"capture.json", "entries", "host", "autotune", "records"},
                             [&](const char* name) {
                               std::error_code error;
                               return fs::exists(folder / name, error);
                             });
}

Result<void> read_triton_folder(const fs::path& folder, const TritonFolderOptions& options,
                                const std::function<Result<void>(TritonItem)>& visit,
                                const TritonNote& note) {
  if (!is_folder(folder)) {
    return fail(ErrorCode::not_found, "no folder " + folder.string() +
                                          ": name a capture folder or a Triton cache "
                                          "(TRITON_CACHE_DIR, else ~/.triton/cache)");
  }
  Walk walk(folder, options, visit, note);
  return is_capture_folder(folder) ? walk.capture() : walk.cache();
}

}  // namespace cubinary::builder
