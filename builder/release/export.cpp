// SPDX-License-Identifier: Apache-2.0
#include "builder/release/export.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <set>
#include <system_error>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "builder/release/release.hpp"
#include "builder/release/revoke.hpp"
#include "core/base/digest.hpp"
#include "core/base/file.hpp"
#include "core/base/json.hpp"
#include "core/wire/oci.hpp"

namespace cubinary::builder {
namespace {

namespace fs = std::filesystem;
namespace json = core::json;
namespace oci = core::oci;
using core::ErrorCode;
using core::fail;
using core::Result;

constexpr std::string_view k_layout = R"({"imageLayoutVersion":"1.0.0"})";
constexpr std::string_view k_ref_name = "org.opencontainers.image.ref.name";

/// Length of a blob's temporary name: `.`, 64 digits, `.`, six random characters.
constexpr std::size_t k_temporary_length = 1 + 2 * core::Digest::k_size + 7;

tl::unexpected<core::Error> fail_errno(const std::string& what, int number = errno) {
  return fail(core::errno_error(what, number));
}

/// A file being written beside its final place; gone again unless `commit` is reached.
class PendingFile {
 public:
  static Result<PendingFile> open(const fs::path& path) {
    PendingFile file;
    file.m_path = path;
    file.m_temporary = path.parent_path() / ("." + path.filename().string() + ".XXXXXX");
    file.m_fd = core::UniqueFd(::mkostemp(file.m_temporary.data(), O_CLOEXEC));
    if (!file.m_fd) {
      const int number = errno;
      file.m_temporary.clear();
      return fail_errno("cannot write " + path.string(), number);
    }
    return file;
  }
  PendingFile(PendingFile&& other) noexcept
      : m_path(std::move(other.m_path)),
        m_temporary(std::exchange(other.m_temporary, {})),
        m_fd(std::move(other.m_fd)) {}
  PendingFile& operator=(PendingFile&&) = delete;
  ~PendingFile() {
    if (!m_temporary.empty()) {
      ::unlink(m_temporary.c_str());
    }
  }

  Result<void> write(core::ByteView bytes) {
    while (!bytes.empty()) {
      const ssize_t count = ::write(m_fd.get(), bytes.data(), bytes.size());
      if (count < 0) {
        if (errno == EINTR) {
          continue;
        }
        return fail_errno("cannot write " + m_path.string());
      }
      bytes = bytes.subspan(static_cast<std::size_t>(count));
    }
    return {};
  }
  Result<void> commit() {
    // mkostemp makes files for their owner only; a layout is for everyone who may enter the folder.
    if (::fchmod(m_fd.get(), 0644) != 0 || ::fsync(m_fd.get()) != 0 ||
        ::rename(m_temporary.c_str(), m_path.c_str()) != 0) {
      return fail_errno("cannot write " + m_path.string());
    }
    m_temporary.clear();
    return {};
  }

 private:
  PendingFile() = default;
  fs::path m_path;
  std::string m_temporary;
  core::UniqueFd m_fd;
};

Result<void> make_folder(const fs::path& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) {
    return fail_errno("cannot make folder " + path.string(), error.value());
  }
  return {};
}

/// Makes the renames inside `path` last.
Result<void> sync_folder(const fs::path& path) {
  const core::UniqueFd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd || ::fsync(fd.get()) != 0) {
    return fail_errno("cannot write " + path.string());
  }
  return {};
}

/// Holds an exclusive lock on the folder itself, so that nothing is left in it.
Result<core::UniqueFd> lock_folder(const fs::path& path) {
  core::UniqueFd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd) {
    return fail_errno("cannot open folder " + path.string());
  }
  while (::flock(fd.get(), LOCK_EX) != 0) {
    if (errno != EINTR) {
      return fail_errno("cannot lock folder " + path.string());
    }
  }
  return fd;
}

/// Refuses a folder that is in use for something else.
Result<void> check_folder(const fs::path& directory) {
  std::error_code error;
  if (fs::exists(directory / "oci-layout", error)) {
    return {};
  }
  const bool empty = fs::is_empty(directory, error);
  if (error) {
    return fail_errno("cannot read folder " + directory.string(), error.value());
  }
  if (!empty) {
    return fail(ErrorCode::exists, directory.string() +
                                       " is neither empty nor an OCI image layout: export into a "
                                       "folder of its own");
  }
  return {};
}

/// Removes what an interrupted export left in the locked folder.
void remove_stale(const fs::path& folder) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with('.') && name.size() == k_temporary_length) {
      fs::remove(entry.path(), error);
    }
  }
}

/// Whether the file is there and holds exactly the blob.
bool holds_blob(const fs::path& path, const store::BlobInfo& blob) {
  const core::UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat info{};
  if (!fd || ::fstat(fd.get(), &info) != 0 || !S_ISREG(info.st_mode) ||
      static_cast<std::uint64_t>(info.st_size) != blob.size) {
    return false;
  }
  core::Hasher hasher;
  std::array<std::byte, 65536> buffer;
  while (true) {
    const ssize_t count = ::read(fd.get(), buffer.data(), buffer.size());
    if (count < 0) {
      return false;
    }
    if (count == 0) {
      return hasher.finish() == blob.digest;
    }
    hasher.update(core::ByteView(buffer.data(), static_cast<std::size_t>(count)));
  }
}

Result<void> write_blob(const ExportSource& source, const store::BlobInfo& blob,
                        const fs::path& path) {
  TRY_ASSIGN(PendingFile file, PendingFile::open(path));
  core::Hasher hasher;
  Result<void> written;
  const auto sink = [&](core::ByteView piece) {
    hasher.update(piece);
    written = file.write(piece);
    return written.has_value();
  };
  const auto streamed = source.stream(blob, sink);
  TRY(written);
  TRY(streamed);
  if (hasher.finish() != blob.digest) {
    return fail(ErrorCode::corrupt, "blob " + blob.digest.text() +
                                        " in the store does not match its digest: run `cubinary "
                                        "store fsck`");
  }
  return file.commit();
}

/// The descriptors of an existing index.json that stay: all but those tagged as one of `tags`.
/// Fields we do not know are kept, because other tools write layouts too.
Result<json::Array> other_descriptors(const fs::path& path, const std::set<std::string>& tags) {
  std::error_code error;
  if (!fs::exists(path, error)) {
    return json::Array();
  }
  TRY_ASSIGN(const std::string text, core::read_text_file(path, oci::k_max_document_bytes));
  auto parsed = json::parse(text);
  if (!parsed) {
    return fail(parsed.error().with_context(path.string()));
  }
  const json::Node top(*parsed, path.string());
  TRY_ASSIGN(const json::Node manifests, top.at("manifests"));
  TRY_ASSIGN(const auto nodes, manifests.elements());
  json::Array kept;
  for (const json::Node& node : nodes) {
    TRY_ASSIGN(const json::Node annotations, node.find("annotations"));
    std::string tag;
    if (annotations.exists()) {
      TRY_ASSIGN(tag, annotations.text_or(k_ref_name, ""));
    }
    if (!tags.contains(tag)) {
      kept.push_back(node.value());
    }
  }
  return kept;
}

Result<void> write_index(const fs::path& path, const std::vector<std::string>& tags,
                         const ExportSource& source) {
  const store::Release& release = source.release;
  const std::vector<store::BlobInfo>& blobs = source.blobs;
  TRY_ASSIGN(json::Array manifests,
             other_descriptors(path, std::set<std::string>(tags.begin(), tags.end())));
  for (const std::string& tag : tags) {
    const bool revocations = tag == core::k_revocations_tag;
    const bool signature = revocations || tag == oci::signature_tag(release.index);
    const core::Digest digest = revocations ? *source.revocations
                                : signature ? *release.signature_manifest
                                            : release.index;
    const auto blob = std::find_if(blobs.begin(), blobs.end(),
                                   [&](const auto& info) { return info.digest == digest; });
    if (blob == blobs.end()) {
      return fail(ErrorCode::corrupt, "release " + release.name + " has lost its " +
                                          (signature ? "signature" : "index") +
                                          ": run `cubinary store fsck`");
    }
    manifests.emplace_back(
        json::Object{{"mediaType", signature ? oci::k_manifest_type : oci::k_index_type},
                     {"digest", digest.text()},
                     {"size", blob->size},
                     {"annotations", json::Object{{std::string(k_ref_name), tag}}}});
  }
  const std::string text = json::to_text(json::Object{
      {"schemaVersion", 2}, {"mediaType", oci::k_index_type}, {"manifests", manifests}});
  return core::write_file_atomic(path, core::as_bytes(text));
}

}  // namespace

Result<ExportedRelease> export_release(const store::Reader& reader, std::string_view name,
                                       const fs::path& directory) {
  ExportSource source;
  TRY_ASSIGN(source.release, require_release(reader, name));
  TRY_ASSIGN(source.blobs, store::release_blobs(reader, source.release.id));
  TRY_ASSIGN(source.channels, channels_of(reader, source.release));
  TRY_ASSIGN(const auto revocations, revocation_blobs(reader));
  if (!revocations.empty()) {
    source.revocations = revocations.front().digest;
    source.blobs.insert(source.blobs.end(), revocations.begin(), revocations.end());
  }
  source.stream = [&reader](const store::BlobInfo& blob,
                            const std::function<bool(core::ByteView)>& sink) {
    return store::stream_blob(reader, blob.digest, 0, blob.size, sink);
  };
  return export_release(source, directory);
}

Result<ExportedRelease> export_release(const ExportSource& source, const fs::path& directory) {
  ExportedRelease result;
  result.release = source.release;
  result.tags.push_back(result.release.name);
  result.tags.insert(result.tags.end(), source.channels.begin(), source.channels.end());
  if (result.release.signature_manifest) {
    result.tags.push_back(oci::signature_tag(result.release.index));
  }
  if (source.revocations) {
    result.tags.emplace_back(core::k_revocations_tag);
  }

  const fs::path folder = directory / "blobs" / "sha256";
  TRY(make_folder(directory));
  TRY_ASSIGN(const core::UniqueFd lock, lock_folder(directory));
  TRY(check_folder(directory));
  // First, so that an export that was interrupted finds a folder it may continue in.
  TRY(core::write_file_atomic(directory / "oci-layout", core::as_bytes(k_layout)));
  TRY(make_folder(folder));
  remove_stale(folder);
  for (const store::BlobInfo& blob : source.blobs) {
    const fs::path path = folder / blob.digest.hex();
    if (!holds_blob(path, blob)) {
      TRY(write_blob(source, blob, path));
      ++result.blobs_written;
    }
    ++result.blobs;
    result.bytes += blob.size;
  }
  TRY(sync_folder(folder));
  TRY(write_index(directory / "index.json", result.tags, source));
  return result;
}

}  // namespace cubinary::builder
