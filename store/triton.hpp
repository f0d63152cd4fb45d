// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.hpp"
#include "core/wire/triton_catalogue.hpp"
#include "store/store.hpp"

namespace cubinary::store {

/// What putting an entry did.
enum class PutResult : std::uint8_t { added, replaced, unchanged };

// The artifacts of an entry's files are there already or in the same transaction; `not_found` else.
// An entry under the same key is replaced: what was captured last counts.

[[nodiscard]] core::Result<PutResult> put_triton_kernel(Writer& writer, std::string_view target,
                                                        const core::TritonKernel& kernel,
                                                        std::int64_t now);
/// Keys known before for the same module stay known.
[[nodiscard]] core::Result<PutResult> put_triton_host(Writer& writer, const core::TritonHost& host,
                                                      std::int64_t now);
[[nodiscard]] core::Result<PutResult> put_triton_autotune(Writer& writer,
                                                          const core::TritonAutotune& autotune,
                                                          std::int64_t now);
/// `record` is one JSON object, kept as it is.
[[nodiscard]] core::Result<PutResult> put_triton_record(Writer& writer, std::string_view record,
                                                        std::int64_t now);

struct StoredTritonKernel {
  std::string target;
  core::TritonKernel kernel;
};
/// All kernel entries, ascending by key.
[[nodiscard]] core::Result<std::vector<StoredTritonKernel>> list_triton_kernels(
    const Reader& reader);
/// All host modules, in the catalogue's order.
[[nodiscard]] core::Result<std::vector<core::TritonHost>> list_triton_host(const Reader& reader);
/// All autotune results, ascending by device class and key.
[[nodiscard]] core::Result<std::vector<core::TritonAutotune>> list_triton_autotune(
    const Reader& reader);
/// All records, in the order they came in.
[[nodiscard]] core::Result<std::vector<std::string>> list_triton_records(const Reader& reader);

}  // namespace cubinary::store
