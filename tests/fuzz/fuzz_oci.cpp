// SPDX-License-Identifier: Apache-2.0
// index_from_json and manifest_from_json: what is accepted writes back stably.
#include <cstdint>
#include <cstdlib>

#include "core/wire/oci.hpp"

using namespace cubinary::core;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto index = oci::index_from_json(text)) {
    const std::string written = oci::to_json(*index);
    const auto again = oci::index_from_json(written);
    if (!again || oci::to_json(*again) != written) {
      std::abort();
    }
  }
  if (const auto manifest = oci::manifest_from_json(text)) {
    const std::string written = oci::to_json(*manifest);
    const auto again = oci::manifest_from_json(written);
    if (!again || oci::to_json(*again) != written) {
      std::abort();
    }
  }
  (void)oci::is_repository(text);
  (void)oci::is_tag(text);
  return 0;
}
