// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <utility>

#include "core/base/bytes.hpp"

namespace cubinary::client {

/// Immutable bytes that several holders share without copying: a file's content, or a part of an
/// unpacked pack, which stays whole as long as one of its parts is held.
class SharedBytes {
 public:
  SharedBytes() = default;
  explicit SharedBytes(core::Bytes bytes)
      : m_owner(std::make_shared<const core::Bytes>(std::move(bytes))), m_view(*m_owner) {}

  [[nodiscard]] core::ByteView view() const { return m_view; }
  /// `offset + size` must lie inside.
  [[nodiscard]] SharedBytes part(std::size_t offset, std::size_t size) const {
    SharedBytes result(*this);
    result.m_view = m_view.subspan(offset, size);
    return result;
  }

 private:
  std::shared_ptr<const core::Bytes> m_owner;
  core::ByteView m_view;
};

}  // namespace cubinary::client
