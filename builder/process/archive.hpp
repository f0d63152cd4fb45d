// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/base/bytes.hpp"

namespace cubinary::builder {

// Messages between a coordinator and its worker processes. Both ends are one program, so there is
// neither version nor schema: a type lists its fields once, in a function found by its argument,
//
//   template <typename Archive>
//   void fields(Archive& archive, Of<Archive, Message>& m) { archive(m.name, m.count); }
//
// and both archives walk them in that order. A number is 8 bytes, little endian.

template <typename Archive, typename T>
using Of = std::conditional_t<Archive::k_writes, const T, T>;

class ArchiveWriter {
 public:
  static constexpr bool k_writes = true;

  template <typename... Ts>
  void operator()(const Ts&... values) {
    (put(values), ...);
  }
  [[nodiscard]] core::Bytes take() { return std::move(m_bytes); }

 private:
  void number(std::uint64_t value) {
    for (int i = 0; i < 8; ++i) {
      m_bytes.push_back(static_cast<std::byte>(value >> (8 * i)));
    }
  }
  template <typename T>
    requires(std::integral<T> || std::is_enum_v<T>)
  void put(T value) {
    number(static_cast<std::uint64_t>(value));
  }
  void put(double value) { number(std::bit_cast<std::uint64_t>(value)); }
  void put(const std::string& text) { bytes(core::as_bytes(text)); }
  void put(const core::Bytes& list) { bytes(list); }
  void bytes(core::ByteView view) {
    number(view.size());
    m_bytes.insert(m_bytes.end(), view.begin(), view.end());
  }
  template <typename A, typename B>
  void put(const std::pair<A, B>& pair) {
    put(pair.first);
    put(pair.second);
  }
  template <typename T>
  void put(const std::vector<T>& list) {
    number(list.size());
    for (const T& each : list) {
      put(each);
    }
  }
  template <typename T, std::size_t N>
  void put(const std::array<T, N>& list) {
    for (const T& each : list) {
      put(each);
    }
  }
  template <typename T>
    requires std::is_class_v<T>
  void put(const T& value) {
    fields(*this, value);
  }

  core::Bytes m_bytes;
};

/// Reads what an ArchiveWriter wrote. Never reads beyond the bytes; after the first field that does
/// not fit, values stay as they were and `complete` is false.
class ArchiveReader {
 public:
  static constexpr bool k_writes = false;
  explicit ArchiveReader(core::ByteView bytes) : m_rest(bytes) {}

  template <typename... Ts>
  void operator()(Ts&... values) {
    (get(values), ...);
  }
  /// Every field was there and nothing is left.
  [[nodiscard]] bool complete() const { return m_ok && m_rest.empty(); }

 private:
  std::uint64_t number() {
    m_ok = m_ok && m_rest.size() >= 8;
    if (!m_ok) {
      return 0;
    }
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < 8; ++i) {
      value |= std::to_integer<std::uint64_t>(m_rest[i]) << (8 * i);
    }
    m_rest = m_rest.subspan(8);
    return value;
  }
  template <typename T>
    requires(std::integral<T> || std::is_enum_v<T>)
  void get(T& value) {
    const std::uint64_t raw = number();
    const T read = static_cast<T>(raw);
    m_ok = m_ok && static_cast<std::uint64_t>(read) == raw;
    if (m_ok) {
      value = read;
    }
  }
  void get(double& value) { value = std::bit_cast<double>(number()); }
  core::ByteView bytes() {
    const std::uint64_t size = number();
    m_ok = m_ok && size <= m_rest.size();
    if (!m_ok) {
      return {};
    }
    const core::ByteView view = m_rest.first(size);
    m_rest = m_rest.subspan(size);
    return view;
  }
  void get(std::string& text) { text = core::to_text(bytes()); }
  void get(core::Bytes& list) {
    const core::ByteView view = bytes();
    list.assign(view.begin(), view.end());
  }
  template <typename A, typename B>
  void get(std::pair<A, B>& pair) {
    get(pair.first);
    get(pair.second);
  }
  template <typename T>
  void get(std::vector<T>& list) {
    list.clear();
    for (std::uint64_t left = number(); m_ok && left > 0; --left) {
      get(list.emplace_back());
    }
  }
  template <typename T, std::size_t N>
  void get(std::array<T, N>& list) {
    for (T& each : list) {
      get(each);
    }
  }
  template <typename T>
    requires std::is_class_v<T>
  void get(T& value) {
    fields(*this, value);
  }

  core::ByteView m_rest;
  bool m_ok = true;
};

/// A message as bytes.
template <typename T>
[[nodiscard]] core::Bytes pack(const T& message) {
  ArchiveWriter archive;
  archive(message);
  return archive.take();
}
/// False when the bytes are not exactly one such message.
template <typename T>
[[nodiscard]] bool unpack(core::ByteView bytes, T& message) {
  ArchiveReader archive(bytes);
  archive(message);
  return archive.complete();
}

}  // namespace cubinary::builder
