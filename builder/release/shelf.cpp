// SPDX-License-Identifier: Apache-2.0
#include "builder/release/shelf.hpp"

#include <cerrno>
#include <string>

#include <fcntl.h>
#include <unistd.h>

#include "store/releases.hpp"

namespace cubinary::builder {

using core::Result;

Result<Shelf> Shelf::open(const std::filesystem::path& folder) {
  const std::filesystem::path place = folder.empty() ? "." : folder;
  Shelf shelf;
  shelf.m_file = core::UniqueFd(::open(place.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (!shelf.m_file) {
    // Not every file system knows files without a name.
    std::string name = (place / ".cubinary-release-XXXXXX").string();
    shelf.m_file = core::UniqueFd(::mkostemp(name.data(), O_CLOEXEC));
    if (!shelf.m_file) {
      return core::fail(core::errno_error("cannot make a file in " + place.string(), errno));
    }
    ::unlink(name.c_str());
  }
  return shelf;
}

Result<core::oci::Descriptor> Shelf::add(std::string_view media_type, core::ByteView bytes) {
  core::oci::Descriptor descriptor{std::string(media_type), core::sha256(bytes), bytes.size(), {}};
  if (!m_digests.insert(descriptor.digest).second) {
    return descriptor;
  }
  const Item item{descriptor.media_type, m_end, bytes.size()};
  while (!bytes.empty()) {
    const ssize_t count =
        ::pwrite(m_file.get(), bytes.data(), bytes.size(), static_cast<off_t>(m_end));
    if (count <= 0) {
      return core::fail(core::errno_error("cannot write the release beside the store",
                                          count == 0 ? ENOSPC : errno));
    }
    m_end += static_cast<std::uint64_t>(count);
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
  m_items.push_back(item);
  return descriptor;
}

Result<void> Shelf::put(store::Writer& writer) const {
  for (const Item& item : m_items) {
    core::Bytes bytes(item.size);
    for (std::uint64_t done = 0; done < item.size;) {
      const ssize_t count = ::pread(m_file.get(), bytes.data() + done, item.size - done,
                                    static_cast<off_t>(item.offset + done));
      if (count <= 0) {
        return core::fail(core::errno_error("cannot read the release beside the store",
                                            count == 0 ? EIO : errno));
      }
      done += static_cast<std::uint64_t>(count);
    }
    TRY(store::put_blob(writer, item.media_type, bytes));
  }
  return {};
}

}  // namespace cubinary::builder
