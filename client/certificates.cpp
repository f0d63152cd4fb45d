// SPDX-License-Identifier: Apache-2.0
// OpenSSL 3 takes most of a million instructions to decode one certificate, a distribution trusts a
// hundred and fifty of them, and a connection needs one: decoding them all would take longer than
// everything else before the first byte.
#include "client/certificates.hpp"

#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <openssl/asn1.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <sys/stat.h>

namespace cubinary::client {
namespace {

template <auto free>
struct Free {
  template <typename T>
  void operator()(T* object) const {
    free(object);
  }
};
using Name = std::unique_ptr<X509_NAME, Free<X509_NAME_free>>;

struct Encoded {
  Name subject;
  std::vector<unsigned char> der;
};
using Bundle = std::vector<Encoded>;

/// Reads a value's head; the content then begins at `at`. Its length, none where the encoding is
/// not a certificate's.
std::optional<long> open_value(const unsigned char*& at, const unsigned char* end) {
  long length = 0;
  int tag = 0;
  int kind = 0;
  const int read = ASN1_get_object(&at, &length, &tag, &kind, end - at);
  // Bit 7: an error; bit 0: of indefinite length.
  return (read & 0x81) == 0 && length <= end - at ? std::optional(length) : std::nullopt;
}

/// The subject of a certificate that is not decoded; null when it is not where it should be.
Name subject_of(const std::vector<unsigned char>& der) {
  const unsigned char* at = der.data();
  const unsigned char* const end = at + der.size();
  if (!open_value(at, end) || !open_value(at, end)) {  // the certificate, what is signed of it
    return nullptr;
  }
  constexpr unsigned char k_version = 0xA0;
  // Version, where there is one; serial number, algorithm, issuer, validity.
  for (int skipped = at != end && *at == k_version ? 0 : 1; skipped < 5; ++skipped) {
    const auto length = open_value(at, end);
    if (!length) {
      return nullptr;
    }
    at += *length;
  }
  return Name(d2i_X509_NAME(nullptr, &at, end - at));
}

/// None when the file cannot be read, or holds other things than plain certificates.
std::optional<Bundle> read_bundle(const std::string& path) {
  const std::unique_ptr<BIO, Free<BIO_free>> file(BIO_new_file(path.c_str(), "r"));
  Bundle bundle;
  char* name = nullptr;
  char* header = nullptr;
  unsigned char* data = nullptr;
  long size = 0;
  while (file && PEM_read_bio(file.get(), &name, &header, &data, &size) == 1) {
    const bool plain = std::string_view(name) == PEM_STRING_X509 && *header == '\0';
    Encoded encoded{nullptr, {data, data + size}};
    OPENSSL_free(name);
    OPENSSL_free(header);
    OPENSSL_free(data);
    encoded.subject = plain ? subject_of(encoded.der) : nullptr;
    if (!encoded.subject) {
      return std::nullopt;
    }
    bundle.push_back(std::move(encoded));
  }
  const bool whole = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
  return whole && !bundle.empty() ? std::optional(std::move(bundle)) : std::nullopt;
}

/// OpenSSL asks for a subject that its store does not hold yet. All of that name go into the store,
/// and `found` refers to one there: on loan, as OpenSSL's own lookups answer.
int find_by_subject(X509_LOOKUP* lookup, X509_LOOKUP_TYPE type, const X509_NAME* name,
                    X509_OBJECT* found) {
  if (type != X509_LU_X509) {
    return 0;
  }
  X509_STORE* const store = X509_LOOKUP_get_store(lookup);
  bool any = false;
  for (const Encoded& encoded : *static_cast<const Bundle*>(X509_LOOKUP_get_method_data(lookup))) {
    if (X509_NAME_cmp(encoded.subject.get(), name) == 0) {
      const unsigned char* at = encoded.der.data();
      const std::unique_ptr<X509, Free<X509_free>> certificate(
          d2i_X509(nullptr, &at, static_cast<long>(encoded.der.size())));
      // Another connection may have put it there meanwhile, which is a success too.
      any = (certificate && X509_STORE_add_cert(store, certificate.get()) == 1) || any;
    }
  }
  if (!any) {
    return 0;
  }
  X509_STORE_lock(store);
  X509_OBJECT* const held = X509_OBJECT_retrieve_by_subject(X509_STORE_get0_objects(store), type,
                                                            const_cast<X509_NAME*>(name));
  X509_STORE_unlock(store);
  X509* const certificate = held == nullptr ? nullptr : X509_OBJECT_get0_X509(held);
  if (certificate == nullptr || X509_OBJECT_set1_X509(found, certificate) != 1) {
    return 0;
  }
  X509_free(certificate);  // nobody frees `found`
  return 1;
}

void free_bundle(X509_LOOKUP* lookup) {
  delete static_cast<Bundle*>(X509_LOOKUP_get_method_data(lookup));
}

X509_LOOKUP_METHOD* lookup_method() {
  static X509_LOOKUP_METHOD* const method = [] {
    X509_LOOKUP_METHOD* made = X509_LOOKUP_meth_new("certificates decoded when asked for");
    X509_LOOKUP_meth_set_get_by_subject(made, find_by_subject);
    X509_LOOKUP_meth_set_free(made, free_bundle);
    return made;
  }();
  return method;
}

CertificateStore read_store(const std::string& path) {
  CertificateStore store(X509_STORE_new());
  if (auto bundle = read_bundle(path)) {
    X509_LOOKUP* lookup = X509_STORE_add_lookup(store.get(), lookup_method());
    if (lookup != nullptr) {
      X509_LOOKUP_set_method_data(lookup, new Bundle(*std::move(bundle)));
      ERR_clear_error();
      return store;
    }
  }
  const bool read = store && X509_STORE_load_file(store.get(), path.c_str()) == 1;
  ERR_clear_error();
  return read ? std::move(store) : nullptr;
}

}  // namespace

std::string certificate_bundle() {
  if (const char* named = std::getenv("SSL_CERT_FILE"); named != nullptr && *named != '\0') {
    return named;
  }
  // A statically linked OpenSSL knows one distribution's folder only.
  for (const char* path : {"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt",
                           "/etc/ssl/ca-bundle.pem", "/etc/ssl/cert.pem"}) {
    std::error_code ignored;
    if (std::filesystem::exists(path, ignored)) {
      return path;
    }
  }
  return {};
}

CertificateStore trusted_certificates(const std::string& bundle) {
  struct Kept {
    std::string path;
    timespec modified{};
    off_t size = 0;
    CertificateStore store;
  };
  // Leaked on purpose: connections may outlive static objects.
  static std::mutex* const mutex = new std::mutex;
  static Kept* const kept = new Kept;
  struct stat info{};
  if (::stat(bundle.c_str(), &info) != 0) {
    return nullptr;
  }
  const std::lock_guard lock(*mutex);
  const bool known = kept->store && kept->path == bundle && kept->size == info.st_size &&
                     kept->modified.tv_sec == info.st_mtim.tv_sec &&
                     kept->modified.tv_nsec == info.st_mtim.tv_nsec;
  if (!known) {
    CertificateStore read = read_store(bundle);
    if (!read) {
      return nullptr;
    }
    *kept = {bundle, info.st_mtim, info.st_size, std::move(read)};
  }
  X509_STORE_up_ref(kept->store.get());
  return CertificateStore(kept->store.get());
}

}  // namespace cubinary::client
