// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include <openssl/evp.h>

#include "core/wire/signature.hpp"

/// The inside of the keys, for core/signature*.cpp only.
namespace cubinary::core {

struct FreeKey {
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
};
using KeyHandle = std::unique_ptr<EVP_PKEY, FreeKey>;

struct PublicKey::Impl {
  KeyHandle key;
  std::string key_id;
};

struct PrivateKey::Impl {
  KeyHandle key;
};

}  // namespace cubinary::core
