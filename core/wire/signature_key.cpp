// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cerrno>
#include <span>

#include <openssl/bio.h>
#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <sys/stat.h>

#include "core/base/base64.hpp"
#include "core/base/file.hpp"
#include "core/wire/signature_impl.hpp"

namespace cubinary::core {
namespace {

constexpr std::size_t k_max_pem_bytes = 16U << 10U;
constexpr std::string_view k_curve = "prime256v1";

struct FreeBio {
  void operator()(BIO* bio) const { BIO_free(bio); }
};
using Bio = std::unique_ptr<BIO, FreeBio>;
struct FreeKeyContext {
  void operator()(EVP_PKEY_CTX* context) const { EVP_PKEY_CTX_free(context); }
};

// Without it OpenSSL asks for a passphrase on the terminal.
int no_passphrase(char*, int, int, void*) {
  return -1;
}

Error key_error(std::string_view what) {
  ERR_clear_error();
  return Error{ErrorCode::usage, std::string(what)};
}

bool is_p256(const EVP_PKEY* key) {
  std::array<char, 64> group{};
  std::size_t length = 0;
  return EVP_PKEY_is_a(key, "EC") == 1 &&
         EVP_PKEY_get_group_name(key, group.data(), group.size(), &length) == 1 &&
         std::string_view(group.data(), length) == k_curve;
}

Bio memory_bio(std::string_view text) {
  return Bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

std::string bio_text(BIO* bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  return size > 0 ? std::string(data, static_cast<std::size_t>(size)) : std::string();
}

std::string key_id_of(EVP_PKEY* key) {
  unsigned char* der = nullptr;
  const int size = i2d_PUBKEY(key, &der);
  if (size <= 0) {
    throw std::bad_alloc();
  }
  const Digest digest =
      sha256(ByteView(reinterpret_cast<const std::byte*>(der), static_cast<std::size_t>(size)));
  OPENSSL_free(der);
  return digest.hex();
}

Result<std::string> read_key_file(const std::filesystem::path& path) {
  auto text = read_text_file(path, k_max_pem_bytes);
  if (!text && text.error().code == ErrorCode::too_large) {
    return fail(ErrorCode::usage, path.string() + " is too large to be a key");
  }
  return text;
}

/// DER of a P-256 SubjectPublicKeyInfo is these bytes and then the point, uncompressed.
constexpr std::array<unsigned char, 26> k_p256_prefix = {
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2A, 0x86, 0x48, 0xCE, 0x3D, 0x02, 0x01,
    0x06, 0x08, 0x2A, 0x86, 0x48, 0xCE, 0x3D, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00};
constexpr std::size_t k_p256_point = 65;

/// The DER between the lines of a PEM file that holds nothing else; empty when it is not that
/// simple.
Bytes plain_pem(std::string_view pem) {
  constexpr std::string_view k_begin = "-----BEGIN PUBLIC KEY-----";
  constexpr std::string_view k_end = "-----END PUBLIC KEY-----";
  const auto end = pem.find(k_end);
  if (!pem.starts_with(k_begin) || end == std::string_view::npos) {
    return {};
  }
  std::string text(pem.substr(k_begin.size(), end - k_begin.size()));
  std::erase_if(text, [](char c) { return c == '\n' || c == '\r'; });
  auto der = base64_decode(text);
  return der ? *std::move(der) : Bytes();
}

/// The usual form of the usual key, without OpenSSL's search through all its decoders: that takes
/// several milliseconds of a process's start. Null: leave it to OpenSSL.
KeyHandle plain_p256(ByteView der) {
  if (der.size() != k_p256_prefix.size() + k_p256_point ||
      der[k_p256_prefix.size()] != std::byte{4} ||
      !std::ranges::equal(der.first(k_p256_prefix.size()),
                          std::as_bytes(std::span(k_p256_prefix)))) {
    return nullptr;
  }
  Bytes point(der.begin() + k_p256_prefix.size(), der.end());
  std::string group(k_curve);
  std::array<OSSL_PARAM, 3> parameters = {
      OSSL_PARAM_construct_utf8_string(OSSL_PKEY_PARAM_GROUP_NAME, group.data(), 0),
      OSSL_PARAM_construct_octet_string(OSSL_PKEY_PARAM_PUB_KEY, point.data(), point.size()),
      OSSL_PARAM_construct_end()};
  const std::unique_ptr<EVP_PKEY_CTX, FreeKeyContext> context(
      EVP_PKEY_CTX_new_from_name(nullptr, "EC", nullptr));
  EVP_PKEY* key = nullptr;
  if (context == nullptr || EVP_PKEY_fromdata_init(context.get()) != 1 ||
      EVP_PKEY_fromdata(context.get(), &key, EVP_PKEY_PUBLIC_KEY, parameters.data()) != 1) {
    ERR_clear_error();
    return nullptr;
  }
  return KeyHandle(key);
}

}  // namespace

static std::shared_ptr<const PublicKey::Impl> make_public_key(KeyHandle key) {
  auto impl = std::make_shared<PublicKey::Impl>();
  impl->key_id = key_id_of(key.get());
  impl->key = std::move(key);
  return impl;
}

PublicKey::PublicKey(std::shared_ptr<const Impl> impl) : m_impl(std::move(impl)) {
}

Result<PublicKey> PublicKey::from_pem(std::string_view pem) {
  if (pem.find("PRIVATE KEY-----") != std::string_view::npos) {
    return fail(key_error("this is a private key; give the public one (its name ends in .pub)"));
  }
  if (pem.size() > k_max_pem_bytes) {
    return fail(key_error("the text is too large to be a public key"));
  }
  const Bytes der = plain_pem(pem);
  if (KeyHandle plain = plain_p256(der)) {
    auto impl = std::make_shared<Impl>();
    impl->key = std::move(plain);
    impl->key_id = sha256(der).hex();
    return PublicKey(std::move(impl));
  }
  const Bio bio = memory_bio(pem);
  KeyHandle key(PEM_read_bio_PUBKEY(bio.get(), nullptr, no_passphrase, nullptr));
  if (key == nullptr) {
    return fail(key_error("no PEM public key (-----BEGIN PUBLIC KEY-----) found"));
  }
  if (!is_p256(key.get())) {
    return fail(key_error("the public key is not ECDSA P-256, the only kind in use here"));
  }
  return PublicKey(make_public_key(std::move(key)));
}

Result<PublicKey> PublicKey::load(const std::filesystem::path& path) {
  TRY_ASSIGN(const std::string pem, read_key_file(path));
  auto key = from_pem(pem);
  if (!key) {
    return fail(key.error().with_context(path.string()));
  }
  return key;
}

std::string PublicKey::to_pem() const {
  const Bio bio(BIO_new(BIO_s_mem()));
  if (bio == nullptr || PEM_write_bio_PUBKEY(bio.get(), m_impl->key.get()) != 1) {
    throw std::bad_alloc();
  }
  return bio_text(bio.get());
}

const std::string& PublicKey::key_id() const {
  return m_impl->key_id;
}

PrivateKey::PrivateKey(std::shared_ptr<const Impl> impl) : m_impl(std::move(impl)) {
}

Result<PrivateKey> PrivateKey::generate() {
  KeyHandle key(EVP_EC_gen(std::string(k_curve).c_str()));
  if (key == nullptr) {
    ERR_clear_error();
    return fail(ErrorCode::environment, "OpenSSL cannot make an ECDSA P-256 key here");
  }
  auto impl = std::make_shared<Impl>();
  impl->key = std::move(key);
  return PrivateKey(std::move(impl));
}

Result<PrivateKey> PrivateKey::from_pem(std::string_view pem) {
  if (pem.find("BEGIN PUBLIC KEY-----") != std::string_view::npos) {
    return fail(key_error("this is a public key; signing needs the private one"));
  }
  if (pem.find("ENCRYPTED") != std::string_view::npos) {
    return fail(
        key_error("the private key is protected by a passphrase; decrypt it first "
                  "(openssl pkcs8 -in KEY -out PLAIN, then chmod 600 PLAIN)"));
  }
  if (pem.size() > k_max_pem_bytes) {
    return fail(key_error("the text is too large to be a private key"));
  }
  const Bio bio = memory_bio(pem);
  KeyHandle key(PEM_read_bio_PrivateKey(bio.get(), nullptr, no_passphrase, nullptr));
  if (key == nullptr) {
    return fail(key_error("no PEM private key (-----BEGIN PRIVATE KEY-----) found"));
  }
  if (!is_p256(key.get())) {
    return fail(key_error("the private key is not ECDSA P-256, the only kind in use here"));
  }
  auto impl = std::make_shared<Impl>();
  impl->key = std::move(key);
  return PrivateKey(std::move(impl));
}

Result<PrivateKey> PrivateKey::load(const std::filesystem::path& path) {
  struct stat info{};
  if (::stat(path.c_str(), &info) != 0) {
    return fail(errno_error("cannot read the key " + path.string(), errno));
  }
  if (S_ISREG(info.st_mode) && (info.st_mode & 077U) != 0) {
    return fail(ErrorCode::permission, "the private key " + path.string() +
                                           " is open to other users: chmod 600 " + path.string());
  }
  TRY_ASSIGN(const std::string pem, read_key_file(path));
  auto key = from_pem(pem);
  if (!key) {
    return fail(key.error().with_context(path.string()));
  }
  return key;
}

std::string PrivateKey::to_pem() const {
  const Bio bio(BIO_new(BIO_s_mem()));
  if (bio == nullptr || PEM_write_bio_PKCS8PrivateKey(bio.get(), m_impl->key.get(), nullptr,
                                                      nullptr, 0, no_passphrase, nullptr) != 1) {
    throw std::bad_alloc();
  }
  return bio_text(bio.get());
}

PublicKey PrivateKey::public_key() const {
  unsigned char* der = nullptr;
  const int size = i2d_PUBKEY(m_impl->key.get(), &der);
  const unsigned char* cursor = der;
  KeyHandle key(size > 0 ? d2i_PUBKEY(nullptr, &cursor, size) : nullptr);
  OPENSSL_free(der);
  if (key == nullptr) {
    throw std::bad_alloc();
  }
  return PublicKey(make_public_key(std::move(key)));
}

}  // namespace cubinary::core
