// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include "client/certificates.hpp"
#include "core/base/file.hpp"
#include "tests/scratch.hpp"

using namespace cubinary;

namespace {

template <auto free>
struct Free {
  template <typename T>
  void operator()(T* object) const {
    free(object);
  }
};
using Key = std::shared_ptr<EVP_PKEY>;
using Certificate = std::shared_ptr<X509>;

struct Authority {
  Key key;
  Certificate certificate;
};

/// `encoding`: MBSTRING_UTF8 or V_ASN1_PRINTABLESTRING. `version` counts from 0.
Certificate certify(const Key& subject_key, const std::string& subject, int encoding,
                    const Authority* by, long version) {
  Certificate made(X509_new(), X509_free);
  X509_set_version(made.get(), version);
  static long serial = 0;
  ASN1_INTEGER_set(X509_get_serialNumber(made.get()), ++serial);
  X509_gmtime_adj(X509_getm_notBefore(made.get()), -3600);
  X509_gmtime_adj(X509_getm_notAfter(made.get()), 3600);
  X509_set_pubkey(made.get(), subject_key.get());
  X509_NAME* name = X509_get_subject_name(made.get());
  X509_NAME_add_entry_by_txt(name, "CN", encoding,
                             reinterpret_cast<const unsigned char*>(subject.c_str()), -1, -1, 0);
  X509_set_issuer_name(made.get(), by ? X509_get_subject_name(by->certificate.get()) : name);
  if (version == 2) {
    X509V3_CTX context;
    X509V3_set_ctx(&context, by ? by->certificate.get() : made.get(), made.get(), nullptr, nullptr,
                   0);
    const auto add = [&](int kind, const char* value) {
      const std::unique_ptr<X509_EXTENSION, Free<X509_EXTENSION_free>> extension(
          X509V3_EXT_conf_nid(nullptr, &context, kind, value));
      REQUIRE(extension);
      X509_add_ext(made.get(), extension.get(), -1);
    };
    if (by) {
      add(NID_authority_key_identifier, "keyid");
    } else {
      add(NID_basic_constraints, "critical,CA:TRUE");
      add(NID_subject_key_identifier, "hash");
    }
  }
  REQUIRE(X509_sign(made.get(), by ? by->key.get() : subject_key.get(), EVP_sha256()) > 0);
  return made;
}

Key new_key() {
  return {EVP_EC_gen("P-256"), EVP_PKEY_free};
}

Authority authority(const std::string& name, int encoding = MBSTRING_UTF8, long version = 2) {
  const Key key = new_key();
  return {key, certify(key, name, encoding, nullptr, version)};
}

std::string pem(const Certificate& certificate) {
  const std::unique_ptr<BIO, Free<BIO_free>> out(BIO_new(BIO_s_mem()));
  PEM_write_bio_X509(out.get(), certificate.get());
  char* text = nullptr;
  const long size = BIO_get_mem_data(out.get(), &text);
  return {text, static_cast<std::size_t>(size)};
}

bool verifies(X509_STORE* store, const Certificate& certificate) {
  const std::unique_ptr<X509_STORE_CTX, Free<X509_STORE_CTX_free>> context(X509_STORE_CTX_new());
  X509_STORE_CTX_init(context.get(), store, certificate.get(), nullptr);
  const bool good = X509_verify_cert(context.get()) == 1;
  ERR_clear_error();
  return good;
}

struct Fixture {
  test::Scratch scratch;
  std::string path = (scratch / "bundle.pem").string();

  client::CertificateStore read(const std::string& text) const {
    REQUIRE(core::write_file_atomic(path, core::as_bytes(text)));
    return client::trusted_certificates(path);
  }
};

}  // namespace

TEST_CASE("a chain verifies when its root is in the bundle, and only then") {
  const Fixture f;
  // Two of one name, as when a root is renewed; a name in another encoding; version 1, which has no
  // version field.
  const std::array trusted = {authority("One"), authority("Two"), authority("Two"),
                              authority("Three", MBSTRING_UTF8),
                              authority("Four", MBSTRING_UTF8, 0)};
  const Authority stranger = authority("One");
  std::string text = "A line that is no certificate\n";
  for (const Authority& one : trusted) {
    text += pem(one.certificate);
  }
  const auto store = f.read(text);
  REQUIRE(store);
  const Key key = new_key();
  for (int again = 0; again < 2; ++again) {
    for (std::size_t i = 0; i < 4; ++i) {
      INFO(i);
      CHECK(verifies(store.get(), certify(key, "leaf", MBSTRING_UTF8, &trusted[i], 2)));
    }
    CHECK(verifies(store.get(), trusted[4].certificate));
    CHECK_FALSE(verifies(store.get(), certify(key, "leaf", MBSTRING_UTF8, &stranger, 2)));
    CHECK_FALSE(verifies(store.get(), authority("Nobody").certificate));
  }
  // The same name in other letters is the same name to OpenSSL, and so here.
  Authority renamed = {trusted[3].key,
                       certify(trusted[3].key, "three", V_ASN1_PRINTABLESTRING, nullptr, 2)};
  CHECK(verifies(store.get(), certify(key, "leaf", MBSTRING_UTF8, &renamed, 2)));
}

TEST_CASE("names are told apart as OpenSSL does") {
  // Letters outside ASCII in several encodings, blanks, and names that differ in what is left out
  // of a first look.
  const Fixture f;
  const Authority wide = authority("Stra\u00dfe  1 CA");
  const Authority dotted = authority("A.B CA");
  const auto store = f.read(pem(wide.certificate) + pem(dotted.certificate));
  REQUIRE(store);
  const Key key = new_key();
  const auto leaf_under = [&](const Authority& by, const std::string& name, int encoding) {
    const Authority alias = {by.key, certify(by.key, name, encoding, nullptr, 2)};
    return verifies(store.get(), certify(key, "leaf", MBSTRING_UTF8, &alias, 2));
  };
  CHECK(leaf_under(wide, "stra\u00dfe 1 ca", MBSTRING_UTF8));
  CHECK(leaf_under(wide,
                   "Stra\xdf"
                   "e 1 CA",
                   MBSTRING_ASC));  // Latin-1, as T.61 or BMP text
  CHECK(leaf_under(dotted, "a.b  ca", V_ASN1_PRINTABLESTRING));
  // U+4E41 and U+5A61 have letters for halves; OpenSSL's old choice for them is two bytes each.
  const std::string two_bytes = "Root \u4e41\u5a61";
  const Authority utf8 = authority(two_bytes);
  ASN1_STRING_set_default_mask_asc("default");
  const Authority bmp = {utf8.key, certify(utf8.key, two_bytes, MBSTRING_UTF8, nullptr, 2)};
  ASN1_STRING_set_default_mask_asc("utf8only");
  const auto kind = [](const Authority& one) {
    const X509_NAME* name = X509_get_subject_name(one.certificate.get());
    return ASN1_STRING_type(X509_NAME_ENTRY_get_data(X509_NAME_get_entry(name, 0)));
  };
  CHECK(kind(utf8) == V_ASN1_UTF8STRING);
  CHECK(kind(bmp) == V_ASN1_BMPSTRING);
  CHECK(
      verifies(f.read(pem(utf8.certificate)).get(), certify(key, "leaf", MBSTRING_UTF8, &bmp, 2)));
  CHECK(
      verifies(f.read(pem(bmp.certificate)).get(), certify(key, "leaf", MBSTRING_UTF8, &utf8, 2)));
  CHECK_FALSE(leaf_under(dotted, "AB CA", MBSTRING_UTF8));
  CHECK_FALSE(leaf_under(wide, "Strae 1 CA", MBSTRING_UTF8));
}

TEST_CASE("connections that verify at once find the same certificates") {
  const Fixture f;
  const Authority root = authority("Root");
  const Key key = new_key();
  const Certificate leaf = certify(key, "leaf", MBSTRING_UTF8, &root, 2);
  const std::string text = pem(authority("Other").certificate) + pem(root.certificate);
  for (int round = 0; round < 20; ++round) {
    const auto store = f.read(text + std::string(static_cast<std::size_t>(round), '\n'));
    std::atomic<int> good{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        const auto mine = client::trusted_certificates(f.path);
        good += verifies(mine.get(), leaf) ? 1 : 0;
      });
    }
    for (auto& thread : threads) {
      thread.join();
    }
    CHECK(good == 4);
  }
}

TEST_CASE("a bundle is read anew when it is another, and one that is none gives nothing") {
  const Fixture f;
  const Authority one = authority("One");
  const Authority two = authority("Two");
  const auto first = f.read(pem(one.certificate));
  CHECK(verifies(first.get(), one.certificate));
  CHECK(client::trusted_certificates(f.path).get() == first.get());
  const auto second = f.read(pem(two.certificate) + "\n");
  CHECK(verifies(second.get(), two.certificate));
  CHECK_FALSE(verifies(second.get(), one.certificate));
  CHECK(verifies(first.get(), one.certificate));  // a connection keeps what it began with

  CHECK_FALSE(f.read(""));
  CHECK_FALSE(f.read("nothing of the kind\n"));
  CHECK_FALSE(client::trusted_certificates(f.path + ".none"));
  std::string damaged = pem(one.certificate);
  damaged[damaged.size() / 2] = '!';
  CHECK_FALSE(f.read(damaged));
  // What is no plain list of certificates is left to OpenSSL: a key beside them, lines that end in
  // a carriage return, explanations around.
  const std::string good = pem(one.certificate);
  std::string windows;
  for (const char c : good) {
    windows += c == '\n' ? std::string("\r\n") : std::string(1, c);
  }
  for (const std::string& text :
       {windows, "# -----BEGIN in a comment\n" + good, good + good,
        "-----BEGIN X509 CERTIFICATE-----" + good.substr(27, good.size() - 27 - 26) +
            "-----END X509 CERTIFICATE-----\n"}) {
    const auto store = f.read(text);
    REQUIRE(store);
    CHECK(verifies(store.get(), one.certificate));
  }
  CHECK(ERR_peek_error() == 0);
}
