// SPDX-License-Identifier: Apache-2.0
// triton_catalogue_from_json: what is accepted writes back stably and names nothing outside a
// cache.
#include <cstdint>
#include <cstdlib>
#include <set>

#include "core/wire/triton_catalogue.hpp"

using namespace cubinary::core;

namespace {

void require(bool holds) {
  if (!holds) {
    std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto catalogue = triton_catalogue_from_json({reinterpret_cast<const char*>(data), size});
  if (!catalogue) {
    return 0;
  }
  const std::string written = triton_catalogue_to_json(*catalogue);
  const auto again = triton_catalogue_from_json(written);
  require(again && triton_catalogue_to_json(*again) == written);
  std::set<Digest> shipped;
  for (const TritonPack& pack : catalogue->packs) {
    for (const TritonPack::File& file : pack.files) {
      require(file.size <= pack.raw_size && shipped.insert(file.digest).second);
    }
  }
  for (const TritonKernel& kernel : catalogue->kernels) {
    require(is_triton_key(kernel.key) && is_triton_file(kernel.group));
    for (const auto& [name, digest] : kernel.files) {
      require(is_triton_file(name) && shipped.contains(digest));
    }
  }
  for (const TritonHost& host : catalogue->host) {
    require(is_triton_file(host.file) && shipped.contains(host.digest));
  }
  return 0;
}
