// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/digest.hpp"
#include "core/base/result.hpp"

namespace cubinary::core {

/// An ECDSA P-256 public key. Copies share one immutable key; thread-safe.
class PublicKey {
 public:
  /// PEM SubjectPublicKeyInfo; anything but P-256 is refused.
  [[nodiscard]] static Result<PublicKey> from_pem(std::string_view pem);
  [[nodiscard]] static Result<PublicKey> load(const std::filesystem::path& path);
  [[nodiscard]] std::string to_pem() const;
  /// Lower-case hex SHA-256 of the DER SubjectPublicKeyInfo: DSSE's `keyid`, and what people
  /// compare.
  [[nodiscard]] const std::string& key_id() const;

  struct Impl;
  explicit PublicKey(std::shared_ptr<const Impl> impl);
  [[nodiscard]] const Impl& impl() const { return *m_impl; }

 private:
  std::shared_ptr<const Impl> m_impl;
};

/// An ECDSA P-256 private key. Never leaves the machine that signs.
class PrivateKey {
 public:
  [[nodiscard]] static Result<PrivateKey> generate();
  [[nodiscard]] static Result<PrivateKey> from_pem(std::string_view pem);
  /// Refuses a file others may read (mode & 077), naming the chmod that helps.
  [[nodiscard]] static Result<PrivateKey> load(const std::filesystem::path& path);
  [[nodiscard]] std::string to_pem() const;  ///< PKCS#8, unencrypted
  [[nodiscard]] PublicKey public_key() const;

  struct Impl;
  explicit PrivateKey(std::shared_ptr<const Impl> impl);
  [[nodiscard]] const Impl& impl() const { return *m_impl; }

 private:
  std::shared_ptr<const Impl> m_impl;
};

/// What a release signature states (in-toto Statement v1; predicate type
/// `https://cubinary.dev/release/v1`).
struct ReleaseStatement {
  std::string name;                               ///< release name
  Digest index;                                   ///< subject: digest of the image index
  std::uint64_t serial = 0;                       ///< grows by one a release; clients never go back
  std::int64_t created = 0;                       ///< Unix seconds, UTC
  std::int64_t expires = 0;                       ///< Unix seconds; 0: never
  std::map<std::string, std::string> provenance;  ///< builder facts: toolkit, cubinary version, …
};

inline constexpr std::string_view k_statement_payload_type = "application/vnd.in-toto+json";

/// The statement's canonical JSON (compact, keys sorted).
[[nodiscard]] std::string statement_to_json(const ReleaseStatement& statement);
/// Strict: unknown statement or predicate types, more than one subject, missing fields are
/// `corrupt`.
[[nodiscard]] Result<ReleaseStatement> statement_from_json(std::string_view json);

/// DSSE v1: signs PAE("DSSEv1", type, payload) with ECDSA P-256 SHA-256 (DER, base64) and returns
/// the envelope's compact JSON.
[[nodiscard]] Result<std::string> dsse_sign(std::string_view payload_type, std::string_view payload,
                                            std::span<const PrivateKey> keys);

struct VerifiedPayload {
  std::string payload;
  std::string payload_type;
  std::string key_id;  ///< the pinned key that matched
};
/// Accepts when at least one signature verifies under one of `keys`. No keys, no signature, or none
/// that verifies is `signature`, and says which key ids the envelope names and which are pinned.
[[nodiscard]] Result<VerifiedPayload> dsse_verify(std::string_view envelope,
                                                  std::span<const PublicKey> keys);

}  // namespace cubinary::core
