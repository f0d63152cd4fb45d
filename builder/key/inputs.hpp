// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/digest.hpp"
#include "core/base/result.hpp"

namespace cubinary::builder {

/// What a file looked like when it was hashed.
struct FileStamp {
  std::filesystem::path path;
  std::int64_t size = 0;
  std::int64_t modified_ns = 0;
  friend bool operator==(const FileStamp&, const FileStamp&) = default;
};

/// Everything a compilation may read, by content. Names are relative to the folder they were found
/// under (`source/`, `include0/`, `toolkit0/`), never a path of this machine, so that a moved
/// checkout has the same inputs.
struct Inputs {
  std::vector<std::string> sources;           ///< main files, as the manifest names them
  std::map<std::string, core::Digest> files;  ///< name → digest, sources included
  std::vector<std::string> absent;            ///< headers named somewhere that no folder has
  core::Digest digest;                        ///< of all the above
  std::vector<FileStamp> stamps;              ///< of the files, no part of the digest
};

/// A file that no longer looks as it did when it was hashed: what was compiled since may not be
/// what the inputs say. Nothing when all are as they were.
[[nodiscard]] std::optional<std::filesystem::path> changed_since(const Inputs& inputs);

struct InputFolders {
  std::filesystem::path source;                 ///< the manifest's folder
  std::vector<std::filesystem::path> includes;  ///< its include folders, in order
  std::vector<std::filesystem::path> toolkit;   ///< the toolkit's include folders, in order
};

/// The include directives of a source text, whatever conditionals surround them.
struct IncludeScan {
  struct Directive {
    std::string name;
    bool quoted = false;
  };
  std::vector<Directive> directives;
  bool computed = false;  ///< `#include MACRO`: what it names cannot be told without preprocessing
};
[[nodiscard]] IncludeScan scan_includes(std::string_view text);

/// Finds the inputs of sources. Remembers every file it read: thousands of candidates of a few
/// kernels read each header once. A superset of what the compiler reads: branches not taken count,
/// and a computed include brings in every file of the manifest's folders. One thread at a time.
class InputScanner {
 public:
  InputScanner();
  ~InputScanner();
  InputScanner(InputScanner&&) noexcept;
  InputScanner& operator=(InputScanner&&) noexcept;

  /// Errors: `manifest` when a source itself is missing; `io`, `permission`, `too_large`.
  [[nodiscard]] core::Result<Inputs> scan(const InputFolders& folders,
                                          const std::vector<std::string>& sources);

 private:
  struct Impl;
  std::unique_ptr<Impl> m_impl;
};

}  // namespace cubinary::builder
