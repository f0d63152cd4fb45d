// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.hpp"
#include "core/model/target.hpp"
#include "core/wire/oci.hpp"
#include "core/wire/triton_catalogue.hpp"
#include "store/store.hpp"
#include "store/triton_json.hpp"

namespace cubinary::builder {

/// What of Triton goes into one target of a release.
struct TritonSelection {
  std::vector<core::TritonKernel> kernels;
  std::vector<core::TritonHost> host;
  std::vector<core::TritonAutotune> autotune;
};

/// Every kernel entry in the store whose name matches `glob` (empty: all), by target, with the host
/// modules of the same Triton, Python and machine, and the autotune results of the target's GPUs.
[[nodiscard]] core::Result<std::map<std::string, TritonSelection>> select_triton(
    const store::Reader& reader, const std::string& glob);
/// The same of entries that came from elsewhere.
[[nodiscard]] core::Result<std::map<std::string, TritonSelection>> select_triton(
    store::TritonEntries entries, const std::string& glob);

/// The names of all kernels Triton captures hold, for messages; ascending.
[[nodiscard]] core::Result<std::set<std::string>> triton_kernel_names(const store::Reader& reader);

/// One target's Triton layers, frozen.
struct TritonLayers {
  std::vector<core::oci::Descriptor> layers;  ///< the catalogue, then the packs
  std::set<core::Digest> artifacts;           ///< all that is shipped
  core::ToolkitVersion toolkit;               ///< of the newest ptxas, its major version
  int minimum_driver = 0;
  std::uint64_t raw_bytes = 0;
  std::uint64_t pack_bytes = 0;
};
/// Puts bytes of a media type and describes them.
using PutBlob =
    std::function<core::Result<core::oci::Descriptor>(std::string_view, core::ByteView)>;

/// Packs the selection, a frame for each kernel name, Triton and Python, compressing on all cores,
/// and writes the Triton catalogue. The same selection gives the same bytes.
[[nodiscard]] core::Result<TritonLayers> freeze_triton(const store::Reader& reader,
                                                       TritonSelection selection,
                                                       const std::string& release,
                                                       const core::Target& target,
                                                       const PutBlob& put);

}  // namespace cubinary::builder
