// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unordered_set>

#include "core/base/json.hpp"
#include "core/wire/triton_catalogue.hpp"

/// The elements of a Triton catalogue by themselves, as a server takes and lists them too.
namespace cubinary::core {

[[nodiscard]] json::Object to_json(const TritonKernel& kernel);
[[nodiscard]] json::Object to_json(const TritonHost& host);
[[nodiscard]] json::Object to_json(const TritonAutotune& autotune);

/// The files there are.
using TritonContents = std::unordered_set<Digest>;

// Names and keys are single path components and digests well-formed; every file is one of
// `shipped`, unless that is null. Errors are `corrupt` and say where.
[[nodiscard]] Result<TritonKernel> read_triton_kernel(const json::Node& node,
                                                      const TritonContents* shipped);
[[nodiscard]] Result<TritonHost> read_triton_host(const json::Node& node,
                                                  const TritonContents* shipped);
[[nodiscard]] Result<TritonAutotune> read_triton_autotune(const json::Node& node,
                                                          const TritonContents* shipped);

/// 64 lower-case hexadecimal digits, without `sha256:`.
[[nodiscard]] Result<Digest> read_bare_digest(const json::Node& node);

}  // namespace cubinary::core
