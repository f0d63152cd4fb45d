// SPDX-License-Identifier: Apache-2.0
// DSSE envelopes, statements, keys and base64: nothing unsigned verifies, what is read writes back.
#include <cstdint>
#include <cstdlib>

#include "core/base/base64.hpp"
#include "core/wire/signature.hpp"

using namespace cubinary::core;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  // A key made now signed nothing that a fuzzer could find.
  static const std::vector<PublicKey> keys = {PrivateKey::generate().value().public_key()};
  if (dsse_verify(text, keys)) {
    std::abort();
  }
  if (const auto statement = statement_from_json(text)) {
    const std::string written = statement_to_json(*statement);
    const auto again = statement_from_json(written);
    if (!again || statement_to_json(*again) != written) {
      std::abort();
    }
  }
  if (const auto bytes = base64_decode(text)) {
    if (base64_decode(base64_encode(*bytes)).value() != *bytes) {
      std::abort();
    }
  }
  (void)PublicKey::from_pem(text);
  return 0;
}
