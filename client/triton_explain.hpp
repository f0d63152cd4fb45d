// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.hpp"
#include "core/wire/triton_catalogue.hpp"

namespace cubinary::client {

/// What a program asked for and did not find (schema/triton.md section 5).
struct TritonMiss {
  std::string kind;  ///< kernel, host, autotune
  std::string key;
  std::string name;
  core::TritonOrigin origin;
  std::string target;
  std::string device_class;
  std::string source;  ///< of a host module
  std::map<std::string, std::string> key_parts;
};
/// One line of a file of misses. Errors are `corrupt`.
[[nodiscard]] core::Result<TritonMiss> triton_miss_from_json(std::string_view line);

struct TritonDifference {
  std::string part;    ///< as in key_parts, and `triton python_abi machine target`
  std::string wanted;  ///< the program's; empty: not there
  std::string has;     ///< the nearest entry's
  std::string means;   ///< what usually makes it differ, or what to do
};

struct TritonExplanation {
  std::string verdict;                        ///< a sentence
  std::string nearest;                        ///< key of the nearest entry; empty: none
  std::vector<TritonDifference> differences;  ///< what keeps the nearest entry from being it
};

/// Says which part of the key keeps the release's nearest entry from answering. A part that is only
/// the digest of others is named when those do not differ.
[[nodiscard]] TritonExplanation explain_triton_miss(
    const TritonMiss& miss, std::span<const core::TritonCatalogue> catalogues);

}  // namespace cubinary::client
