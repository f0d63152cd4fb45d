// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "client/include/cubinary.h"

namespace cubinary::gpu {

/// Axes or alignments by name.
using NamedValues = std::vector<std::pair<std::string, std::int64_t>>;

/// An opened release, closed at the end.
class Release {
 public:
  Release() = default;
  ~Release() { cubinary_close(m_context); }
  Release(Release&& other) noexcept : m_context(std::exchange(other.m_context, nullptr)) {}
  Release& operator=(Release&& other) noexcept {
    std::swap(m_context, other.m_context);
    return *this;
  }
  Release(const Release&) = delete;
  Release& operator=(const Release&) = delete;

  /// From CUBINARY_TEST_SOURCE with the key CUBINARY_TEST_KEY; `cache` as in cubinary_options.
  [[nodiscard]] cubinary_status open(const std::string& cache);
  [[nodiscard]] cubinary_context* get() const { return m_context; }

 private:
  cubinary_context* m_context = nullptr;
};

/// A resolved kernel, freed at the end.
class Kernel {
 public:
  Kernel() = default;
  ~Kernel() { cubinary_kernel_free(m_kernel); }
  Kernel(Kernel&& other) noexcept : m_kernel(std::exchange(other.m_kernel, nullptr)) {}
  Kernel& operator=(Kernel&& other) noexcept {
    std::swap(m_kernel, other.m_kernel);
    return *this;
  }
  Kernel(const Kernel&) = delete;
  Kernel& operator=(const Kernel&) = delete;

  [[nodiscard]] cubinary_status resolve(const Release& release, const std::string& name,
                                        const std::string& interface_digest,
                                        const std::string& dtype, const NamedValues& axes,
                                        const NamedValues& alignments);
  [[nodiscard]] cubinary_kernel* get() const { return m_kernel; }
  [[nodiscard]] cubinary_kernel_info info() const;

 private:
  cubinary_kernel* m_kernel = nullptr;
};

/// The calling thread's last message, after `what` and the status.
[[nodiscard]] std::string failure(const std::string& what, cubinary_status status);

}  // namespace cubinary::gpu
