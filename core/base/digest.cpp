// SPDX-License-Identifier: Apache-2.0
#include "core/base/digest.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <stdexcept>

#include <openssl/evp.h>

namespace cubinary::core {
namespace {

constexpr std::string_view k_prefix = "sha256:";

int hex_value(char digit) {
  if (digit >= '0' && digit <= '9') {
    return digit - '0';
  }
  if (digit >= 'a' && digit <= 'f') {
    return digit - 'a' + 10;
  }
  return -1;
}

// Fetched once: an implicit fetch takes a lock and a look-up on every init.
const EVP_MD* sha256_method() {
  static EVP_MD* const method = EVP_MD_fetch(nullptr, "SHA2-256", nullptr);
  if (method == nullptr) {
    throw std::runtime_error("OpenSSL provides no SHA-256");
  }
  return method;
}

void require(int openssl_result) {
  if (openssl_result != 1) {
    throw std::runtime_error("OpenSSL failed to compute SHA-256");
  }
}

}  // namespace

Result<Digest> Digest::parse(std::string_view text) {
  std::string_view digits = text;
  if (digits.starts_with(k_prefix)) {
    digits.remove_prefix(k_prefix.size());
  }
  std::array<std::byte, k_size> raw{};
  bool ok = digits.size() == 2 * k_size;
  for (std::size_t i = 0; ok && i < k_size; ++i) {
    const int high = hex_value(digits[2 * i]);
    const int low = hex_value(digits[2 * i + 1]);
    ok = high >= 0 && low >= 0;
    raw[i] = static_cast<std::byte>(high * 16 + low);
  }
  if (!ok) {
    constexpr std::size_t k_shown = 80;
    return fail(ErrorCode::usage, "\"" + std::string(text.substr(0, k_shown)) +
                                      "\" is no SHA-256 digest: it is written "
                                      "sha256: and 64 lower-case hexadecimal digits");
  }
  return Digest(raw);
}

Result<Digest> Digest::from_raw(ByteView raw) {
  if (raw.size() != k_size) {
    return fail(ErrorCode::corrupt,
                "a SHA-256 digest has 32 bytes, not " + std::to_string(raw.size()));
  }
  Digest digest;
  std::copy(raw.begin(), raw.end(), digest.m_raw.begin());
  return digest;
}

std::string Digest::hex() const {
  constexpr std::string_view k_digits = "0123456789abcdef";
  std::string text;
  text.reserve(2 * k_size);
  for (const std::byte value : m_raw) {
    text += k_digits[std::to_integer<std::size_t>(value >> 4)];
    text += k_digits[std::to_integer<std::size_t>(value & std::byte{15})];
  }
  return text;
}

struct Hasher::Impl {
  Impl() : context(EVP_MD_CTX_new()) {
    if (context == nullptr) {
      throw std::bad_alloc();
    }
  }
  ~Impl() { EVP_MD_CTX_free(context); }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  void start() { require(EVP_DigestInit_ex2(context, sha256_method(), nullptr)); }

  EVP_MD_CTX* context;
};

Hasher::Hasher() : m_impl(std::make_unique<Impl>()) {
  m_impl->start();
}
Hasher::~Hasher() = default;
Hasher::Hasher(Hasher&&) noexcept = default;
Hasher& Hasher::operator=(Hasher&&) noexcept = default;

Hasher& Hasher::update(ByteView bytes) {
  require(EVP_DigestUpdate(m_impl->context, bytes.data(), bytes.size()));
  return *this;
}

Hasher& Hasher::field(std::string_view text) {
  std::array<std::byte, 8> length{};
  for (std::size_t i = 0; i < length.size(); ++i) {
    length[i] = static_cast<std::byte>(static_cast<std::uint64_t>(text.size()) >> (8 * i));
  }
  return update(length).update(text);
}

Digest Hasher::finish() {
  std::array<std::byte, Digest::k_size> raw{};
  unsigned size = 0;
  require(EVP_DigestFinal_ex(m_impl->context, reinterpret_cast<unsigned char*>(raw.data()), &size));
  m_impl->start();
  return Digest(raw);
}

Digest sha256(ByteView bytes) {
  return Hasher().update(bytes).finish();
}

}  // namespace cubinary::core

std::size_t std::hash<cubinary::core::Digest>::operator()(
    const cubinary::core::Digest& digest) const noexcept {
  std::size_t value = 0;
  std::memcpy(&value, digest.raw().data(), sizeof(value));
  return value;
}
