// SPDX-License-Identifier: Apache-2.0
#include "core/base/document.hpp"

#include <string>

#include "core/wire/oci.hpp"

namespace cubinary::core::oci {

Result<json::Value> parse_document(std::string_view text, std::string_view what) {
  if (text.size() > k_max_document_bytes) {
    return fail(ErrorCode::too_large, std::string(what) + " has " + std::to_string(text.size()) +
                                          " bytes; at most " +
                                          std::to_string(k_max_document_bytes) + " are read");
  }
  auto value = json::parse(text);
  if (!value) {
    return fail(value.error().with_context(what));
  }
  return value;
}

}  // namespace cubinary::core::oci
