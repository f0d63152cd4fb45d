// SPDX-License-Identifier: Apache-2.0
#include "builder/key/inputs.hpp"

#include <algorithm>
#include <set>
#include <system_error>
#include <unordered_map>

#include <sys/stat.h>

#include "core/base/file.hpp"

namespace cubinary::builder {

namespace fs = std::filesystem;
using core::ErrorCode;
using core::fail;
using core::Result;

namespace {

constexpr std::uint64_t k_max_source_bytes = 64U << 20U;

constexpr std::string_view k_blank = " \t\v\f";

/// The text with continued lines joined.
std::string splice(std::string_view text) {
  std::string joined;
  joined.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const std::string_view rest = text.substr(at);
    if (rest.starts_with("\\\n")) {
      at += 2;
    } else if (rest.starts_with("\\\r\n")) {
      at += 3;
    } else {
      joined.push_back(text[at++]);
    }
  }
  return joined;
}

std::string_view line_from(std::string_view text, std::size_t at) {
  return text.substr(at, text.find_first_of("\r\n", at) - at);
}

/// Without blanks and comments at the start.
std::string_view trim_front(std::string_view line) {
  for (;;) {
    line.remove_prefix(std::min(line.find_first_not_of(k_blank), line.size()));
    const std::size_t end = line.starts_with("/*") ? line.find("*/", 2) : std::string_view::npos;
    if (end == std::string_view::npos) {
      return line;
    }
    line.remove_prefix(end + 2);
  }
}

/// Without blanks and comments at the end.
std::string_view trim_back(std::string_view line) {
  for (;;) {
    line = line.substr(0, line.find_last_not_of(k_blank) + 1);
    const std::size_t open = line.ends_with("*/") ? line.rfind("/*") : std::string_view::npos;
    if (open == std::string_view::npos) {
      return line;
    }
    line = line.substr(0, open);
  }
}

/// Whether what stands on the line before `include` makes it a directive. A comment that began on
/// an earlier line may end here.
bool is_directive(std::string_view before) {
  before = trim_back(before);
  if (before.ends_with("#")) {
    before.remove_suffix(1);
  } else if (before.ends_with("%:")) {
    before.remove_suffix(2);
  } else {
    return false;
  }
  before = trim_back(before);
  return before.empty() || before.ends_with("*/");
}

/// Reads `"name"` or `<name>` at the start of `text`.
bool read_header_name(std::string_view text, IncludeScan::Directive& directive) {
  if (text.empty() || (text[0] != '"' && text[0] != '<')) {
    return false;
  }
  directive.quoted = text[0] == '"';
  const std::size_t end = text.find(directive.quoted ? '"' : '>', 1);
  if (end == std::string_view::npos) {
    return false;
  }
  directive.name = text.substr(1, end - 1);
  return !directive.name.empty();
}

FileStamp stamp(const fs::path& path) {
  struct stat info{};
  if (stat(path.c_str(), &info) != 0) {
    return {path, -1, -1};
  }
  return {path, info.st_size, info.st_mtim.tv_sec * 1'000'000'000 + info.st_mtim.tv_nsec};
}

std::string join(std::string_view folder, std::string_view name) {
  return (fs::path(folder) / name).lexically_normal().generic_string();
}

}  // namespace

IncludeScan scan_includes(std::string_view text) {
  constexpr std::string_view k_byte_order_mark = "\xEF\xBB\xBF";
  if (text.starts_with(k_byte_order_mark)) {
    text.remove_prefix(k_byte_order_mark.size());
  }
  std::string spliced;
  if (text.find("\\\n") != std::string_view::npos ||
      text.find("\\\r\n") != std::string_view::npos) {
    spliced = splice(text);
    text = spliced;
  }
  constexpr std::string_view k_include = "include";
  constexpr std::string_view k_has = "__has_";
  IncludeScan scan;
  for (std::size_t at = text.find(k_include); at != std::string_view::npos;
       at = text.find(k_include, at + 1)) {
    const std::size_t line = at == 0 ? 0 : text.find_last_of("\r\n", at - 1) + 1;
    const std::string_view before = text.substr(line, at - line);
    std::string_view after = line_from(text, at + k_include.size());
    if (after.starts_with("_next")) {
      after.remove_prefix(5);
    }
    after = trim_front(after);
    IncludeScan::Directive directive;
    if (is_directive(before)) {
      if (read_header_name(after, directive)) {
        scan.directives.push_back(std::move(directive));
      } else if (!after.empty()) {
        scan.computed = true;
      }
    } else if (before.ends_with(k_has) && after.starts_with("(")) {
      // What exists decides what is compiled, so __has_include counts as an include.
      if (read_header_name(trim_front(after.substr(1)), directive)) {
        scan.directives.push_back(std::move(directive));
      }
    }
  }
  return scan;
}

std::optional<fs::path> changed_since(const Inputs& inputs) {
  for (const FileStamp& then : inputs.stamps) {
    if (stamp(then.path) != then) {
      return then.path;
    }
  }
  return std::nullopt;
}

struct InputScanner::Impl {
  struct File {
    FileStamp stamp;
    core::Digest digest;
    IncludeScan scan;
  };
  /// By path; null for a file that is not there.
  std::unordered_map<std::string, std::unique_ptr<File>> files;
  /// Scans done before, by everything they depend on.
  std::map<std::vector<std::string>, Inputs> done;

  struct Root {
    std::string label;
    fs::path path;
  };
  struct Found {
    std::string name;
    const File* file = nullptr;
    std::size_t root = 0;
    std::string relative;  ///< to its root
  };

  Result<const File*> load(const fs::path& path) {
    const auto [slot, added] = files.try_emplace(path.native());
    if (!added) {
      return slot->second.get();
    }
    std::error_code ignored;
    if (!fs::is_regular_file(path, ignored)) {
      return nullptr;
    }
    FileStamp before = stamp(path);
    auto text = core::read_text_file(path, k_max_source_bytes);
    if (!text) {
      files.erase(slot);
      return fail(std::move(text).error());
    }
    slot->second =
        std::make_unique<File>(File{std::move(before), core::sha256(*text), scan_includes(*text)});
    return slot->second.get();
  }

  Result<Found> look(const std::vector<Root>& roots, std::size_t root, std::string relative) {
    TRY_ASSIGN(const File* file, load(roots[root].path / relative));
    return Found{roots[root].label + "/" + relative, file, root, std::move(relative)};
  }

  Result<Found> resolve(const std::vector<Root>& roots, const Found& from,
                        const IncludeScan::Directive& directive) {
    if (directive.quoted) {
      const std::string folder = fs::path(from.relative).parent_path().generic_string();
      TRY_ASSIGN(Found beside, look(roots, from.root, join(folder, directive.name)));
      if (beside.file != nullptr) {
        return beside;
      }
    }
    for (std::size_t root = 0; root < roots.size(); ++root) {
      TRY_ASSIGN(Found found, look(roots, root, join("", directive.name)));
      if (found.file != nullptr) {
        return found;
      }
    }
    return Found{};
  }

  Result<void> add_all(const std::vector<Root>& roots, std::size_t first, std::size_t last,
                       std::vector<Found>& queue) {
    for (std::size_t root = first; root < last; ++root) {
      std::error_code error;
      for (fs::recursive_directory_iterator
               it(roots[root].path, fs::directory_options::skip_permission_denied, error),
           end;
           !error && it != end; it.increment(error)) {
        std::error_code ignored;
        if (it->is_regular_file(ignored)) {
          TRY_ASSIGN(
              Found found,
              look(roots, root, it->path().lexically_relative(roots[root].path).generic_string()));
          queue.push_back(std::move(found));
        }
      }
    }
    return {};
  }
};

InputScanner::InputScanner() : m_impl(std::make_unique<Impl>()) {
}
InputScanner::~InputScanner() = default;
InputScanner::InputScanner(InputScanner&&) noexcept = default;
InputScanner& InputScanner::operator=(InputScanner&&) noexcept = default;

Result<Inputs> InputScanner::scan(const InputFolders& folders,
                                  const std::vector<std::string>& sources) {
  std::vector<Impl::Root> roots{{"source", folders.source}};
  for (std::size_t i = 0; i < folders.includes.size(); ++i) {
    roots.push_back({"include" + std::to_string(i), folders.includes[i]});
  }
  const std::size_t own_roots = roots.size();
  for (std::size_t i = 0; i < folders.toolkit.size(); ++i) {
    roots.push_back({"toolkit" + std::to_string(i), folders.toolkit[i]});
  }
  std::vector<std::string> memo = sources;
  for (const Impl::Root& root : roots) {
    memo.push_back(root.label + "=" + root.path.native());
  }
  if (const auto known = m_impl->done.find(memo); known != m_impl->done.end()) {
    return known->second;
  }

  Inputs inputs;
  inputs.sources = sources;
  std::set<std::string> absent;
  std::vector<Impl::Found> queue;
  for (const std::string& source : sources) {
    TRY_ASSIGN(Impl::Found found, m_impl->look(roots, 0, join("", source)));
    if (found.file == nullptr) {
      return fail(ErrorCode::manifest, "source " + (folders.source / source).string() +
                                           " is missing: the manifest names it, so add it or "
                                           "correct `source`");
    }
    queue.push_back(std::move(found));
  }
  bool added_all = false;
  while (!queue.empty()) {
    const Impl::Found current = std::move(queue.back());
    queue.pop_back();
    if (current.file == nullptr ||
        !inputs.files.emplace(current.name, current.file->digest).second) {
      continue;
    }
    inputs.stamps.push_back(current.file->stamp);
    for (const IncludeScan::Directive& directive : current.file->scan.directives) {
      TRY_ASSIGN(Impl::Found found, m_impl->resolve(roots, current, directive));
      if (found.file == nullptr) {
        absent.insert(directive.name);
      } else if (!inputs.files.contains(found.name)) {
        queue.push_back(std::move(found));
      }
    }
    // In the toolkit only its own macros name its own headers, and its identity is in the key.
    if (current.file->scan.computed && current.root < own_roots && !added_all) {
      added_all = true;
      TRY(m_impl->add_all(roots, 0, own_roots, queue));
    }
  }
  inputs.absent.assign(absent.begin(), absent.end());

  core::Hasher hasher;
  hasher.field("cubinary inputs 1");
  for (const std::string& source : inputs.sources) {
    hasher.field(source);
  }
  hasher.field("files");
  for (const auto& [name, digest] : inputs.files) {
    hasher.field(name).update(digest.raw());
  }
  hasher.field("absent");
  for (const std::string& name : inputs.absent) {
    hasher.field(name);
  }
  inputs.digest = hasher.finish();
  m_impl->done.emplace(std::move(memo), inputs);
  return inputs;
}

}  // namespace cubinary::builder
