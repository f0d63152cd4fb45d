// SPDX-License-Identifier: Apache-2.0
#include "builder/release/envelope.hpp"

#include "core/base/base64.hpp"
#include "core/base/bytes.hpp"
#include "core/base/json.hpp"
#include "core/wire/signature.hpp"

namespace cubinary::builder {

namespace json = core::json;
using core::fail;
using core::Result;

Result<OpenedEnvelope> open_envelope(std::string_view envelope) {
  TRY_ASSIGN(const json::Value value, json::parse(envelope));
  const json::Node top(value, "the signature's envelope");
  TRY_ASSIGN(const std::string type, top.text("payloadType"));
  if (type != core::k_statement_payload_type) {
    return fail(top.error("payloadType must be " + std::string(core::k_statement_payload_type)));
  }
  TRY_ASSIGN(const std::string encoded, top.text("payload"));
  const auto payload = core::base64_decode(encoded);
  if (!payload) {
    return fail(top.error("payload is no base64"));
  }
  OpenedEnvelope opened{std::string(core::as_text(*payload)), {}};
  TRY_ASSIGN(const json::Node signatures, top.at("signatures"));
  TRY_ASSIGN(const auto nodes, signatures.elements());
  for (const json::Node& node : nodes) {
    TRY_ASSIGN(std::string key, node.text("keyid"));
    TRY_ASSIGN(const std::string signature, node.text("sig"));
    if (signature.empty()) {
      return fail(node.error("sig is empty"));
    }
    opened.key_ids.push_back(std::move(key));
  }
  if (opened.key_ids.empty()) {
    return fail(signatures.error("holds no signature"));
  }
  return opened;
}

}  // namespace cubinary::builder
