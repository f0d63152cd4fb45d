// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <utility>

#include "core/base/bytes.hpp"
#include "core/base/digest.hpp"
#include "core/base/result.hpp"
#include "store/candidates.hpp"
#include "store/store.hpp"
#include "tests/scratch.hpp"

namespace cubinary::store {

using test::Scratch;

/// The value, or an exception with the error's message.
template <typename T>
T must(core::Result<T> result) {
  if (!result) {
    throw std::runtime_error(result.error().message);
  }
  if constexpr (!std::is_void_v<T>) {
    return std::move(*result);
  }
}

/// The error's code; throws when there is none.
template <typename T>
core::ErrorCode code_of(const core::Result<T>& result) {
  if (result) {
    throw std::runtime_error("success where an error was due");
  }
  return result.error().code;
}

inline Store open_new(const std::filesystem::path& path) {
  return must(Store::open(path, {Access::write, true, "test"}));
}
inline Store open_read(const std::filesystem::path& path) {
  return must(Store::open(path, {}));
}

/// Bytes that resemble a cubin of a family: mostly common to all, some words of their own.
inline core::Bytes made_up_cubin(unsigned number, std::size_t size = 6000) {
  core::Bytes bytes;
  unsigned common = 12345;
  unsigned own = number * 2654435761U + 1;
  while (bytes.size() < size) {
    common = common * 1664525U + 1013904223U;
    own = own * 22695477U + 1U;
    const bool differs = bytes.size() % 512 < 16;
    bytes.push_back(static_cast<std::byte>((differs ? own : common) >> 27U));
  }
  return bytes;
}

inline Kernel made_up_kernel(const std::string& name) {
  Kernel kernel;
  kernel.name = name;
  kernel.interface = core::sha256("interface of " + name);
  kernel.manifest = "name = \"" + name + "\"\n";
  kernel.manifest_digest = core::sha256(kernel.manifest);
  kernel.manifest_path = "/kernels/" + name + "/kernel.toml";
  kernel.inputs = "{}";
  return kernel;
}

/// An ok candidate number `number` of `kernel`; its artifact is made_up_cubin(number).
inline Candidate made_up_candidate(const std::string& kernel, unsigned number,
                                   const std::string& target = "sm_90") {
  Candidate candidate;
  candidate.kernel = kernel;
  candidate.build_key = core::sha256(kernel + target + std::to_string(number));
  candidate.types = {{"T", number % 2 == 0 ? "f32" : "f16"}};
  candidate.config = {{"VEC", std::int64_t{1} << (number % 4)},
                      {"ID", static_cast<std::int64_t>(number)}};
  candidate.target = target;
  candidate.toolchain = {"nvrtc", {13, 0}, "nvrtc 13.0.48"};
  candidate.artifact = core::sha256(made_up_cubin(number));
  candidate.compile_ms = 12.5;
  candidate.cpu_ms = 11.25;
  candidate.symbols = {{"_Z7rmsnorm" + std::to_string(number), 1024, 32, 128, 0}};
  return candidate;
}

/// Puts kernel, artifact and candidate in one transaction.
inline CandidateId put_made_up(Store& store, const std::string& kernel, unsigned number,
                               const std::string& target = "sm_90") {
  CandidateId id = 0;
  must(store.write([&](Writer& writer) -> core::Result<void> {
    TRY(put_kernel(writer, made_up_kernel(kernel)));
    TRY_ASSIGN(const PreparedArtifact artifact, prepare_artifact(made_up_cubin(number), nullptr));
    TRY(put_artifact(writer, artifact));
    TRY_ASSIGN(id, put_candidate(writer, made_up_candidate(kernel, number, target)));
    return {};
  }));
  return id;
}

}  // namespace cubinary::store
