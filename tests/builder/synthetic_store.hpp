// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "store/candidates.hpp"
#include "store/store.hpp"

/// Stores filled without a compiler: real manifests, really expanded, whose cubins are made-up
/// bytes. Everything throws std::runtime_error, since a fixture that fails is a broken test.
namespace cubinary::tests {

/// A folder that is removed with everything in it.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  [[nodiscard]] const std::filesystem::path& path() const { return m_path; }

 private:
  std::filesystem::path m_path;
};

/// `scale`: T in f32 and f16, VEC in 1 2 4 8 (code; at most 16 bytes; prefers 8, then 4; default
/// 1), WARPS (launch).
[[nodiscard]] std::string scale_manifest();
/// `attend`: T in f16, compile axis d in 64 and 128, STAGES in 1 and 2 (code; default 2).
[[nodiscard]] std::string attend_manifest();

[[nodiscard]] store::Store create_store(const std::filesystem::path& path);

/// The bytes standing in for a candidate's cubin: the same for the same candidate, 2 to 6 KB.
[[nodiscard]] core::Bytes made_up_cubin(const store::Candidate& candidate);

struct FillOptions {
  bool reversed = false;  ///< put the candidates in the opposite order
  /// Called for each candidate before it is put; may make it a failure. Returning false leaves it
  /// out.
  std::function<bool(store::Candidate&)> adjust;
};
/// Puts the kernel of `manifest` and all its candidates for each target, and makes them current.
void fill(store::Store& store, std::string_view manifest, const std::vector<std::string>& targets,
          const FillOptions& options = {});

/// Puts one good measurement of the current candidate of `scale` with this T and VEC on `target`.
void measure_scale(store::Store& store, const std::string& target, const std::string& type,
                   std::int64_t vec, std::int64_t n, double median_us);

/// The value, or a runtime_error with the message.
template <typename T>
T must(core::Result<T> result);
void must(core::Result<void> result);

[[noreturn]] void give_up(const core::Error& error);

template <typename T>
T must(core::Result<T> result) {
  if (!result) {
    give_up(result.error());
  }
  return std::move(*result);
}

}  // namespace cubinary::tests
