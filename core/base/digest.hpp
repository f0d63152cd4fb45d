// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "core/base/bytes.hpp"
#include "core/base/result.hpp"

namespace cubinary::core {

/// A SHA-256 digest: the name of immutable bytes.
class Digest {
 public:
  static constexpr std::size_t k_size = 32;

  /// All zero; never the digest of anything we store.
  Digest() = default;
  explicit Digest(const std::array<std::byte, k_size>& raw) : m_raw(raw) {}

  /// Parses `sha256:<64 lower-case hex>` or the bare 64 hex digits.
  [[nodiscard]] static Result<Digest> parse(std::string_view text);
  /// Takes exactly 32 raw bytes.
  [[nodiscard]] static Result<Digest> from_raw(ByteView raw);

  [[nodiscard]] ByteView raw() const { return m_raw; }
  [[nodiscard]] std::string hex() const;
  /// `sha256:<hex>`, the OCI form.
  [[nodiscard]] std::string text() const { return "sha256:" + hex(); }
  [[nodiscard]] bool is_zero() const { return *this == Digest(); }

  friend bool operator==(const Digest&, const Digest&) = default;
  friend auto operator<=>(const Digest&, const Digest&) = default;

 private:
  std::array<std::byte, k_size> m_raw{};
};

/// Incremental SHA-256 (OpenSSL EVP). Not thread-safe; one object a thread.
class Hasher {
 public:
  Hasher();
  ~Hasher();
  Hasher(Hasher&&) noexcept;
  Hasher& operator=(Hasher&&) noexcept;

  Hasher& update(ByteView bytes);
  Hasher& update(std::string_view text) { return update(as_bytes(text)); }
  /// Adds the length (8 bytes, little endian) and then the text, so that fields cannot run
  /// together.
  Hasher& field(std::string_view text);
  /// Ends the computation; the object may then be reused from the start.
  [[nodiscard]] Digest finish();

 private:
  struct Impl;
  std::unique_ptr<Impl> m_impl;
};

[[nodiscard]] Digest sha256(ByteView bytes);
[[nodiscard]] inline Digest sha256(std::string_view text) {
  return sha256(as_bytes(text));
}

}  // namespace cubinary::core

template <>
struct std::hash<cubinary::core::Digest> {
  std::size_t operator()(const cubinary::core::Digest& digest) const noexcept;
};
