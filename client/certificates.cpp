// SPDX-License-Identifier: Apache-2.0
// OpenSSL 3 takes most of a million instructions to decode one certificate, a distribution trusts a
// hundred and fifty of them, and a connection needs one: decoding them all, or even their names,
// would take longer than everything else before the first byte.
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
#include <openssl/x509.h>
#include <sys/stat.h>

#include "core/base/base64.hpp"
#include "core/base/file.hpp"

namespace cubinary::client {
namespace {

template <auto free>
struct Free {
  template <typename T>
  void operator()(T* object) const {
    free(object);
  }
};
using Certificate = std::unique_ptr<X509, Free<X509_free>>;

/// Of a trusted certificate as long as nobody asked for it.
struct Encoded {
  std::string subject;  ///< folded
  core::Bytes der;
};
using Bundle = std::vector<Encoded>;

constexpr std::uint64_t k_max_bundle = 64U << 20U;

/// DER, read value by value.
class Der {
 public:
  explicit Der(core::ByteView bytes)
      : m_at(reinterpret_cast<const unsigned char*>(bytes.data())), m_end(m_at + bytes.size()) {}

  [[nodiscard]] bool empty() const { return m_at == m_end; }
  [[nodiscard]] unsigned char next() const { return empty() ? 0 : *m_at; }
  /// The content of the next value, which is then behind us; none where the encoding is not a
  /// certificate's. `tag`: what it is.
  std::optional<core::ByteView> take(int* tag = nullptr) {
    long length = 0;
    int number = 0;
    int kind = 0;
    const int read = ASN1_get_object(&m_at, &length, &number, &kind, m_end - m_at);
    if (tag != nullptr) {
      *tag = number;
    }
    // Bit 7: an error; bit 0: of indefinite length.
    if ((read & 0x81) != 0 || length > m_end - m_at) {
      return std::nullopt;
    }
    const core::ByteView content =
        core::as_bytes({reinterpret_cast<const char*>(m_at), static_cast<std::size_t>(length)});
    m_at += length;
    return content;
  }

 private:
  const unsigned char* m_at;
  const unsigned char* m_end;
};

/// What names that are equal to OpenSSL have in common, whatever kinds of text they are written in:
/// the attributes' kinds, and of their values the ASCII letters and digits, in lower case.
std::optional<std::string> folded(core::ByteView name) {
  std::string result;
  for (Der sets(name); !sets.empty();) {
    const auto set = sets.take();
    for (Der attributes(set.value_or(core::ByteView())); !attributes.empty();) {
      const auto attribute = attributes.take();
      if (!attribute) {
        return std::nullopt;
      }
      Der parts(*attribute);
      const auto kind = parts.take();
      int tag = 0;
      const auto value = parts.take(&tag);
      if (!kind || !value) {
        return std::nullopt;
      }
      result += core::as_text(*kind);
      // Characters of two or four bytes are ASCII where only the last is not zero.
      const std::size_t width = tag == V_ASN1_BMPSTRING ? 2 : tag == V_ASN1_UNIVERSALSTRING ? 4 : 1;
      std::string_view text = core::as_text(*value);
      for (; text.size() >= width; text.remove_prefix(width)) {
        const char c = text[width - 1];
        const bool upper = c >= 'A' && c <= 'Z';
        const bool counts = upper || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
        if (counts && text.substr(0, width - 1).find_first_not_of('\0') == text.npos) {
          result += static_cast<char>(upper ? c - 'A' + 'a' : c);
        }
      }
    }
    if (!set) {
      return std::nullopt;
    }
  }
  return result;
}

/// The folded subject of a certificate that is not decoded; none when it is not where it should be.
std::optional<std::string> subject_of(core::ByteView der) {
  const auto certificate = Der(der).take();
  const auto content = certificate ? Der(*certificate).take() : std::nullopt;  // what is signed
  if (!content) {
    return std::nullopt;
  }
  Der fields(*content);
  constexpr unsigned char k_version = 0xA0;
  // Version, where there is one; serial number, algorithm, issuer, validity.
  for (int skipped = fields.next() == k_version ? 0 : 1; skipped < 5; ++skipped) {
    if (!fields.take()) {
      return std::nullopt;
    }
  }
  const auto subject = fields.take();
  return subject ? folded(*subject) : std::nullopt;
}

/// None when the file cannot be read, or holds other things than plain certificates.
std::optional<Bundle> read_bundle(const std::string& path) {
  constexpr std::string_view k_begin = "-----BEGIN ";
  constexpr std::string_view k_plain = "-----BEGIN CERTIFICATE-----\n";
  constexpr std::string_view k_end = "-----END CERTIFICATE-----";
  const auto file = core::read_text_file(path, k_max_bundle);
  if (!file) {
    return std::nullopt;
  }
  std::string text = *file;
  std::erase(text, '\r');
  Bundle bundle;
  const std::string_view rest = text;
  for (std::size_t at = rest.find(k_begin); at != rest.npos; at = rest.find(k_begin, at)) {
    const std::size_t begin = at + k_plain.size();
    const std::size_t end = rest.find(k_end, at);
    const bool plain = (at == 0 || rest[at - 1] == '\n') && rest.substr(at).starts_with(k_plain);
    if (!plain || end == rest.npos) {
      return std::nullopt;
    }
    std::string digits(rest.substr(begin, end - begin));
    std::erase(digits, '\n');
    auto der = core::base64_decode(digits);
    auto subject = der ? subject_of(*der) : std::nullopt;
    if (!subject) {
      return std::nullopt;
    }
    bundle.push_back({*std::move(subject), *std::move(der)});
    at = end;
  }
  return bundle.empty() ? std::nullopt : std::optional(std::move(bundle));
}

/// OpenSSL asks for a subject that its store does not hold yet. All of that name go into the store,
/// and `found` refers to one there: on loan, as OpenSSL's own lookups answer.
int find_by_subject(X509_LOOKUP* lookup, X509_LOOKUP_TYPE type, const X509_NAME* name,
                    X509_OBJECT* found) {
  const unsigned char* written = nullptr;
  std::size_t size = 0;
  if (type != X509_LU_X509 || X509_NAME_get0_der(name, &written, &size) != 1) {
    return 0;
  }
  const auto content = Der(core::as_bytes({reinterpret_cast<const char*>(written), size})).take();
  const auto wanted = content ? folded(*content) : std::nullopt;
  if (!wanted) {
    return 0;
  }
  X509_STORE* const store = X509_LOOKUP_get_store(lookup);
  bool any = false;
  for (const Encoded& encoded : *static_cast<const Bundle*>(X509_LOOKUP_get_method_data(lookup))) {
    if (encoded.subject != *wanted) {
      continue;
    }
    const auto* at = reinterpret_cast<const unsigned char*>(encoded.der.data());
    const Certificate certificate(d2i_X509(nullptr, &at, static_cast<long>(encoded.der.size())));
    if (certificate && X509_NAME_cmp(X509_get_subject_name(certificate.get()), name) == 0) {
      // Another connection may have put it there meanwhile, which is a success too.
      any = X509_STORE_add_cert(store, certificate.get()) == 1 || any;
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
