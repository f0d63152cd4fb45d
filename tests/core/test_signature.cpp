// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch_test_macros.hpp>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/base64.hpp"
#include "core/base/file.hpp"
#include "core/base/json.hpp"
#include "core/wire/signature.hpp"
#include "tests/core/wire_fixture.hpp"

using namespace cubinary::core;
using test::golden;

namespace {

ReleaseStatement sample_statement() {
  return {"r1",       sha256(golden("index.json")),
          7,          1764500000,
          1780000000, {{"cubinary", "0.1.0"}, {"toolkit", "13.0"}}};
}

std::vector<PublicKey> golden_keys() {
  return {PublicKey::from_pem(golden("key.pub")).value()};
}

// The envelope with one member changed.
std::string with(std::string_view envelope, const std::string& key, const json::Value& value) {
  json::Object object = *json::parse(envelope).value().get_if<json::Object>();
  object[key] = value;
  return json::to_text(object);
}

Error verify_error(std::string_view envelope, std::span<const PublicKey> keys) {
  auto verified = dsse_verify(envelope, keys);
  REQUIRE_FALSE(verified);
  return std::move(verified).error();
}

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("the golden envelope verifies and holds the golden statement") {
  const std::vector<PublicKey> keys = golden_keys();
  const VerifiedPayload payload = dsse_verify(golden("envelope.json"), keys).value();
  CHECK(payload.payload_type == k_statement_payload_type);
  CHECK(payload.payload == golden("statement.json"));
  CHECK(payload.key_id == keys[0].key_id());
  const ReleaseStatement statement = statement_from_json(payload.payload).value();
  CHECK(statement.name == "r1");
  CHECK(statement.index == sha256(golden("index.json")));
  CHECK(statement.serial == 7);
  CHECK(statement.created == 1764500000);
  CHECK(statement.expires == 1780000000);
  CHECK(statement.provenance.at("toolkit") == "13.0");
}

TEST_CASE("a statement has the bytes of its golden file") {
  CHECK(statement_to_json(sample_statement()) == golden("statement.json"));
}

TEST_CASE("statements are read strictly") {
  const std::string text = golden("statement.json");
  const auto refused = [&](std::string_view from, std::string_view to) {
    std::string changed = text;
    const std::size_t at = changed.find(from);
    REQUIRE(at != std::string::npos);
    const auto read = statement_from_json(changed.replace(at, from.size(), to));
    REQUIRE_FALSE(read);
    CHECK(read.error().code == ErrorCode::corrupt);
    return read.error().message;
  };
  CHECK(contains(refused("Statement/v1", "Statement/v2"), "_type"));
  CHECK(contains(refused("release/v1", "release/v2"), "predicateType"));
  CHECK(contains(refused("\"serial\":7", "\"serial\":-7"), "predicate.serial"));
  CHECK(contains(refused("\"expires\":1780000000,", ""), "\"expires\" is missing"));
  CHECK(contains(refused("\"name\":\"r1\",\"prov", "\"name\":\"r2\",\"prov"), "predicate.name"));
  CHECK(contains(refused("\"sha256\":\"", "\"sha256\":\"0"), "subject[0].digest"));
  CHECK(contains(refused("\"subject\":[", "\"subject\":[{},"), "exactly one subject"));
}

TEST_CASE("what was signed verifies, with any pinned key of several") {
  const PrivateKey a = PrivateKey::generate().value();
  const PrivateKey b = PrivateKey::generate().value();
  const PublicKey stranger = PrivateKey::generate().value().public_key();
  const std::string envelope = dsse_sign("text/x", "payload\0x", std::vector{a, b}).value();
  for (const std::vector<PublicKey>& pinned :
       {std::vector{a.public_key()}, std::vector{stranger, b.public_key()}}) {
    const VerifiedPayload verified = dsse_verify(envelope, pinned).value();
    CHECK(verified.payload == "payload\0x");
    CHECK(verified.payload_type == "text/x");
    CHECK(verified.key_id == pinned.back().key_id());
  }
  const Error error = verify_error(envelope, std::vector{stranger});
  CHECK(error.code == ErrorCode::signature);
  CHECK(contains(error.message, a.public_key().key_id()));
  CHECK(contains(error.message, stranger.key_id()));
  CHECK(verify_error(envelope, {}).code == ErrorCode::signature);
  CHECK_FALSE(dsse_sign("text/x", "payload", {}));
}

TEST_CASE("a changed payload, type or signature is refused") {
  const std::vector<PublicKey> keys = golden_keys();
  const std::string envelope = golden("envelope.json");
  std::string payload = golden("statement.json");
  payload.replace(payload.find("\"serial\":7"), 10, "\"serial\":8");
  const Error changed =
      verify_error(with(envelope, "payload", base64_encode(as_bytes(payload))), keys);
  CHECK(changed.code == ErrorCode::signature);
  CHECK(contains(changed.message, "changed after signing"));
  CHECK(verify_error(with(envelope, "payloadType", "application/json"), keys).code ==
        ErrorCode::signature);
  CHECK(verify_error(with(envelope, "signatures", json::Array()), keys).code ==
        ErrorCode::signature);
  const auto one_signature = [](std::string sig) {
    return json::Array{json::Object{{"keyid", ""}, {"sig", std::move(sig)}}};
  };
  CHECK(verify_error(with(envelope, "signatures", one_signature("AAAA")), keys).code ==
        ErrorCode::signature);
  CHECK(verify_error(with(envelope, "signatures", one_signature("")), keys).code ==
        ErrorCode::signature);
  CHECK(verify_error(with(envelope, "signatures", one_signature("A")), keys).code ==
        ErrorCode::corrupt);
  CHECK(verify_error("{}", keys).code == ErrorCode::corrupt);
  CHECK(verify_error("", keys).code == ErrorCode::corrupt);
}

TEST_CASE("no flipped bit of a signed envelope verifies as another payload") {
  const std::vector<PublicKey> keys = golden_keys();
  const std::string envelope = golden("envelope.json");
  const std::string payload = golden("statement.json");
  int accepted = 0;
  for (std::size_t bit = 0; bit < 8 * envelope.size(); bit += 3) {
    std::string broken = envelope;
    broken[bit / 8] = static_cast<char>(broken[bit / 8] ^ (1 << (bit % 8)));
    if (const auto verified = dsse_verify(broken, keys)) {
      // Only the unsigned key id may differ.
      CHECK(verified->payload == payload);
      ++accepted;
    }
  }
  CHECK(accepted < 300);
}

TEST_CASE("the URL-safe alphabet and a missing key id are read") {
  const PrivateKey key = PrivateKey::generate().value();
  const std::vector<PublicKey> keys = {key.public_key()};
  std::string payload;
  for (int i = 0; i < 64; ++i) {
    payload += "\xfb\xff\xbe";
  }
  const std::string envelope = dsse_sign("t", payload, std::vector{key}).value();
  json::Object object = *json::parse(envelope).value().get_if<json::Object>();
  const auto url_safe = [](std::string text) {
    for (char& c : text) {
      c = c == '+' ? '-' : c == '/' ? '_' : c;
    }
    return text;
  };
  const json::Object signature =
      *object["signatures"].get_if<json::Array>()->front().get_if<json::Object>();
  object["payload"] = url_safe(*object["payload"].get_if<std::string>());
  object["signatures"] =
      json::Array{json::Object{{"sig", url_safe(*signature.at("sig").get_if<std::string>())}}};
  CHECK(dsse_verify(json::to_text(object), keys).value().payload == payload);
}

TEST_CASE("keys survive PEM, and their id is the digest of the key info") {
  const PrivateKey key = PrivateKey::generate().value();
  const PublicKey copy = PublicKey::from_pem(key.public_key().to_pem()).value();
  CHECK(copy.key_id() == key.public_key().key_id());
  CHECK(PrivateKey::from_pem(key.to_pem()).value().public_key().key_id() == copy.key_id());
  // The id again, from the PEM's own base64.
  const std::string pem = copy.to_pem();
  std::string body = pem.substr(pem.find('\n') + 1);
  body.resize(body.find("-----"));
  std::erase(body, '\n');
  CHECK(sha256(base64_decode(body).value()).hex() == copy.key_id());
}

TEST_CASE("what is no P-256 key of the right kind is refused by name") {
  const PrivateKey key = PrivateKey::generate().value();
  CHECK(contains(PublicKey::from_pem(key.to_pem()).error().message, "private key"));
  CHECK(contains(PrivateKey::from_pem(key.public_key().to_pem()).error().message, "public key"));
  CHECK(contains(PublicKey::from_pem("").error().message, "BEGIN PUBLIC KEY"));
  CHECK(contains(PublicKey::from_pem(golden("key-p384.pub")).error().message, "P-256"));
  CHECK(contains(PublicKey::from_pem(golden("key-ed25519.pub")).error().message, "P-256"));
  CHECK(contains(
      PrivateKey::from_pem("-----BEGIN ENCRYPTED PRIVATE KEY-----\nAA==\n").error().message,
      "passphrase"));
  CHECK_FALSE(PublicKey::from_pem(std::string(100'000, 'x')));
}

TEST_CASE("a private key others may read is refused") {
  std::string name = (std::filesystem::temp_directory_path() / "cubinary-key-XXXXXX").string();
  REQUIRE(::mkdtemp(name.data()) != nullptr);
  const std::filesystem::path folder = name;
  const std::filesystem::path path = folder / "key";
  const PrivateKey key = PrivateKey::generate().value();
  REQUIRE(write_file_atomic(path, as_bytes(key.to_pem()), 0600));
  REQUIRE(write_file_atomic(folder / "key.pub", as_bytes(key.public_key().to_pem())));
  CHECK(PrivateKey::load(path).value().public_key().key_id() ==
        PublicKey::load(folder / "key.pub").value().key_id());
  REQUIRE(::chmod(path.c_str(), 0640) == 0);
  const auto open = PrivateKey::load(path);
  REQUIRE_FALSE(open);
  CHECK(open.error().code == ErrorCode::permission);
  CHECK(contains(open.error().message, "chmod 600 " + path.string()));
  CHECK(PublicKey::load(folder / "none").error().code == ErrorCode::not_found);
  CHECK(contains(PublicKey::load(path).error().message, path.string()));
  std::filesystem::remove_all(folder);
}
