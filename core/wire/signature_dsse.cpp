// SPDX-License-Identifier: Apache-2.0
#include <array>

#include <openssl/err.h>

#include "core/base/base64.hpp"
#include "core/base/document.hpp"
#include "core/base/json.hpp"
#include "core/wire/oci.hpp"
#include "core/wire/signature_impl.hpp"

namespace cubinary::core {
namespace {

using json::Array;
using json::Node;
using json::Object;

// A P-256 signature in DER.
constexpr std::size_t k_max_signature_bytes = 72;
// More in one envelope only cost the reader time.
constexpr std::size_t k_max_signatures = 16;

struct FreeDigest {
  void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
};
using DigestHandle = std::unique_ptr<EVP_MD_CTX, FreeDigest>;

// DSSE's pre-authentication encoding: what is signed.
std::string pre_authentication(std::string_view type, std::string_view payload) {
  std::string text = "DSSEv1 " + std::to_string(type.size()) + " ";
  text += type;
  text += " " + std::to_string(payload.size()) + " ";
  text += payload;
  return text;
}

const unsigned char* raw(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

Result<Bytes> sign(const PrivateKey& key, std::string_view message) {
  const DigestHandle context(EVP_MD_CTX_new());
  std::array<unsigned char, 2 * k_max_signature_bytes> signature{};
  std::size_t size = signature.size();
  if (context == nullptr ||
      EVP_DigestSignInit_ex(context.get(), nullptr, "SHA2-256", nullptr, nullptr,
                            key.impl().key.get(), nullptr) != 1 ||
      EVP_DigestSign(context.get(), signature.data(), &size, raw(message), message.size()) != 1) {
    ERR_clear_error();
    return fail(ErrorCode::internal, "OpenSSL cannot sign with this key");
  }
  const ByteView bytes = std::as_bytes(std::span(signature).first(size));
  return Bytes(bytes.begin(), bytes.end());
}

bool verifies(const PublicKey& key, std::string_view message, ByteView signature) {
  const DigestHandle context(EVP_MD_CTX_new());
  const bool ok =
      context != nullptr &&
      EVP_DigestVerifyInit_ex(context.get(), nullptr, "SHA2-256", nullptr, nullptr,
                              key.impl().key.get(), nullptr) == 1 &&
      EVP_DigestVerify(context.get(), reinterpret_cast<const unsigned char*>(signature.data()),
                       signature.size(), raw(message), message.size()) == 1;
  ERR_clear_error();
  return ok;
}

struct Signature {
  std::string key_id;
  Bytes bytes;
};
struct Envelope {
  std::string payload_type;
  std::string payload;
  std::vector<Signature> signatures;
};

Result<Bytes> base64_member(const Node& node, std::string_view key) {
  TRY_ASSIGN(const Node member, node.at(key));
  TRY_ASSIGN(const std::string text, member.text());
  auto bytes = base64_decode(text);
  if (!bytes) {
    return fail(member.error(bytes.error().message));
  }
  return bytes;
}

Result<Envelope> parse_envelope(std::string_view text) {
  constexpr std::string_view k_what = "the signature envelope";
  TRY_ASSIGN(const json::Value document, oci::parse_document(text, k_what));
  const Node top(document, k_what);
  Envelope envelope;
  TRY_ASSIGN(envelope.payload_type, top.text("payloadType"));
  TRY_ASSIGN(const Bytes payload, base64_member(top, "payload"));
  envelope.payload = to_text(payload);
  TRY_ASSIGN(const Node signatures, top.at("signatures"));
  TRY_ASSIGN(const std::vector<Node> nodes, signatures.elements());
  if (nodes.size() > k_max_signatures) {
    return fail(signatures.error("at most " + std::to_string(k_max_signatures) + " are read"));
  }
  for (const Node& node : nodes) {
    Signature signature;
    TRY_ASSIGN(signature.key_id, node.text_or("keyid", ""));
    TRY_ASSIGN(signature.bytes, base64_member(node, "sig"));
    envelope.signatures.push_back(std::move(signature));
  }
  return envelope;
}

std::string listing(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) {
    text += (text.empty() ? "" : ", ") + (name.empty() ? "(none)" : name);
  }
  return text;
}

Error not_verified(const Envelope& envelope, std::span<const PublicKey> keys) {
  std::vector<std::string> named;
  for (const Signature& signature : envelope.signatures) {
    constexpr std::size_t k_shown = 64;
    named.push_back(signature.key_id.substr(0, k_shown));
  }
  std::vector<std::string> pinned;
  bool known = false;
  for (const PublicKey& key : keys) {
    pinned.push_back(key.key_id());
    for (const std::string& name : named) {
      known = known || name == key.key_id();
    }
  }
  return Error{ErrorCode::signature,
               std::string(known ? "the signature of a pinned key does not fit the signed content: "
                                   "it was changed after signing"
                                 : "no pinned key made any of the signatures") +
                   " (signed with " + listing(named) + "; pinned " + listing(pinned) + ")"};
}

}  // namespace

Result<std::string> dsse_sign(std::string_view payload_type, std::string_view payload,
                              std::span<const PrivateKey> keys) {
  if (keys.empty()) {
    return fail(ErrorCode::usage, "signing needs at least one private key");
  }
  const std::string message = pre_authentication(payload_type, payload);
  Array signatures;
  for (const PrivateKey& key : keys) {
    TRY_ASSIGN(const Bytes signature, sign(key, message));
    signatures.emplace_back(
        Object{{"keyid", key.public_key().key_id()}, {"sig", base64_encode(signature)}});
  }
  return json::to_text(Object{{"payload", base64_encode(as_bytes(payload))},
                              {"payloadType", payload_type},
                              {"signatures", std::move(signatures)}});
}

Result<VerifiedPayload> dsse_verify(std::string_view text, std::span<const PublicKey> keys) {
  if (keys.empty()) {
    return fail(ErrorCode::signature,
                "no key is pinned, so no signature can be checked: pass the public key (--key)");
  }
  TRY_ASSIGN(Envelope envelope, parse_envelope(text));
  if (envelope.signatures.empty()) {
    return fail(ErrorCode::signature, "the signature envelope holds no signature");
  }
  const std::string message = pre_authentication(envelope.payload_type, envelope.payload);
  // `keyid` is only a hint and not signed: every key is tried.
  for (const Signature& signature : envelope.signatures) {
    for (const PublicKey& key : keys) {
      if (verifies(key, message, signature.bytes)) {
        return VerifiedPayload{std::move(envelope.payload), std::move(envelope.payload_type),
                               key.key_id()};
      }
    }
  }
  return fail(not_verified(envelope, keys));
}

}  // namespace cubinary::core
