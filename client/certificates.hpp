// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include <openssl/x509_vfy.h>

namespace cubinary::client {

struct FreeCertificateStore {
  void operator()(X509_STORE* store) const { X509_STORE_free(store); }
};
using CertificateStore = std::unique_ptr<X509_STORE, FreeCertificateStore>;

/// Where this machine keeps the certificates it trusts: SSL_CERT_FILE, else the distribution's
/// file; "" when there is none.
[[nodiscard]] std::string certificate_bundle();

/// The certificates of a bundle (PEM), for any number of connections: the file is read once a
/// process, and anew when it is another; a certificate is decoded when a server's chain asks for
/// it. Null when none can be read. Thread-safe.
[[nodiscard]] CertificateStore trusted_certificates(const std::string& bundle);

}  // namespace cubinary::client
