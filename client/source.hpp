// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/bytes.hpp"
#include "core/base/digest.hpp"
#include "core/base/result.hpp"
#include "core/wire/oci.hpp"

namespace cubinary::client {

/// When all work of a call must be done, retries included.
using Deadline = std::chrono::steady_clock::time_point;
[[nodiscard]] Deadline deadline_after(double seconds);

/// Where releases come from, as a user writes it.
struct SourceName {
  enum class Kind : std::uint8_t { layout, registry };
  Kind kind = Kind::layout;
  std::filesystem::path directory;      ///< layout
  std::string origin;                   ///< registry: `https://host:port`, no trailing slash
  std::string repository = "cubinary";  ///< what the release is filed under; also a layout's
  std::string tag;                      ///< empty: the only release there

  /// `DIR[:TAG]`, `http[s]://HOST[:PORT][/REPOSITORY][:TAG]` or
  /// `oci://HOST[:PORT]/REPOSITORY[:TAG]` (https). A text that is an existing folder is that
  /// folder, colons and all. Errors: `usage`.
  [[nodiscard]] static core::Result<SourceName> parse(std::string_view text);
  /// For messages, without the tag.
  [[nodiscard]] std::string place() const;
};

/// A manifest or index as received; `digest` is computed over `bytes`.
struct Document {
  core::Bytes bytes;
  core::Digest digest;
};

struct Tag {
  std::string name;
  std::optional<core::Digest> digest;  ///< where the source tells it for free
};

/// A place to read releases from. What `blob` and a digest reference return has been checked
/// against the digest; what a tag returns has not been checked against anything. Thread-safe.
class Source {
 public:
  virtual ~Source() = default;
  /// Every tag, signature tags included.
  [[nodiscard]] virtual core::Result<std::vector<Tag>> tags(Deadline deadline) = 0;
  /// By tag or `sha256:<hex>`; at most oci::k_max_document_bytes. `not_found` when it is not there.
  [[nodiscard]] virtual core::Result<Document> manifest(std::string_view reference,
                                                        Deadline deadline) = 0;
  /// Exactly `size` bytes that have this digest.
  [[nodiscard]] virtual core::Result<core::Bytes> blob(const core::Digest& digest,
                                                       std::uint64_t size, Deadline deadline) = 0;
  /// Manifests that have `subject` as their subject; empty where the source cannot tell.
  [[nodiscard]] virtual core::Result<std::vector<core::oci::Descriptor>> referrers(
      const core::Digest& subject, Deadline deadline) = 0;
};

struct SourceOptions {
  /// Bearer token, or USER:PASSWORD; sent to the source's own origin and its token service only.
  std::string token;
  /// First wait before a retry; doubles each time.
  std::chrono::milliseconds backoff{100};
  /// Failures in a row without a byte of progress before giving up.
  int attempts = 5;
};

/// Opens nothing yet but a layout's folder, which must hold an `oci-layout` file (`not_found`
/// else).
[[nodiscard]] core::Result<std::unique_ptr<Source>> open_source(const SourceName& name,
                                                                const SourceOptions& options);

}  // namespace cubinary::client
