// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "builder/tune/message.hpp"
#include "core/base/embedded_file.hpp"
#include "core/base/result.hpp"
#include "core/driver/device_functions.hpp"

namespace cubinary::builder {

namespace cuda = core::cuda;

/// The device a worker measures on: its context, one stream, and the tuner's own kernels
/// (device/*.cu). One thread. After a `cuda` error that is not a refused launch the context is
/// lost.
class Gpu {
 public:
  [[nodiscard]] static core::Result<std::unique_ptr<Gpu>> open(int device);
  /// What `open` would open, without a context on it.
  [[nodiscard]] static core::Result<DeviceSpec> identify(int device);
  ~Gpu();
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  [[nodiscard]] const core::Driver& driver() const { return *m_driver; }
  [[nodiscard]] const core::DeviceFunctions& functions() const { return m_functions; }
  [[nodiscard]] cuda::Stream stream() const { return m_stream; }
  [[nodiscard]] const DeviceSpec& spec() const { return m_spec; }

  [[nodiscard]] core::Result<void> check(cuda::Status status, std::string_view call) const {
    return m_driver->check(status, call);
  }
  [[nodiscard]] core::Result<void> synchronize() const;
  [[nodiscard]] core::Result<std::uint64_t> free_memory() const;
  [[nodiscard]] core::Result<void> set(cuda::DevicePointer to, unsigned char pattern,
                                       std::uint64_t bytes) const;

  /// Launches one of the tuner's own kernels; arguments have the kernel's exact types.
  template <typename... Arguments>
  [[nodiscard]] core::Result<void> run(const char* kernel, std::uint32_t blocks,
                                       std::uint32_t threads, Arguments... arguments) const {
    std::array<void*, sizeof...(arguments)> pointers{&arguments...};
    return run_packed(kernel, blocks, threads, pointers.data());
  }
  /// Whether the device has the kernel (mma_f16 needs sm_80).
  [[nodiscard]] bool has(const char* kernel) const { return m_kernels.contains(kernel); }
  /// Blocks that keep every SM busy.
  [[nodiscard]] std::uint32_t many_blocks() const;

 private:
  Gpu() = default;
  [[nodiscard]] core::Result<void> find(int device);
  [[nodiscard]] core::Result<void> load_kernels(const core::EmbeddedFile& ptx,
                                                const std::vector<const char*>& names);
  [[nodiscard]] core::Result<void> run_packed(const char* kernel, std::uint32_t blocks,
                                              std::uint32_t threads, void** arguments) const;

  const core::Driver* m_driver = nullptr;
  core::DeviceFunctions m_functions;
  cuda::Device m_device = 0;
  cuda::Context m_context = nullptr;
  cuda::Stream m_stream = nullptr;
  DeviceSpec m_spec;
  bool m_has_tensor_cores = false;
  std::map<std::string, cuda::Function, std::less<>> m_kernels;
};

/// Device memory with a guard band on either side, filled with `k_guard`. The data is aligned to
/// 256 bytes and the band behind it begins at its last byte.
class GuardedBuffer {
 public:
  static constexpr std::uint64_t k_band = 4096;
  static constexpr unsigned char k_guard = 0xB7;

  GuardedBuffer() = default;
  [[nodiscard]] static core::Result<GuardedBuffer> make(const Gpu& gpu, std::uint64_t bytes);
  GuardedBuffer(GuardedBuffer&& other) noexcept { swap(other); }
  GuardedBuffer& operator=(GuardedBuffer&& other) noexcept {
    swap(other);
    return *this;
  }
  ~GuardedBuffer();

  [[nodiscard]] cuda::DevicePointer data() const { return m_base + k_band; }
  [[nodiscard]] std::uint64_t bytes() const { return m_bytes; }
  /// Queues the count of changed guard bytes onto *count.
  [[nodiscard]] core::Result<void> count_damage(cuda::DevicePointer count) const;

 private:
  void swap(GuardedBuffer& other) noexcept {
    std::swap(m_gpu, other.m_gpu);
    std::swap(m_base, other.m_base);
    std::swap(m_bytes, other.m_bytes);
    std::swap(m_total, other.m_total);
  }
  const Gpu* m_gpu = nullptr;
  cuda::DevicePointer m_base = 0;
  std::uint64_t m_bytes = 0;
  std::uint64_t m_total = 0;
};

/// Page-locked host memory that the device reads and writes: flags, counters, results.
class SharedMemory {
 public:
  SharedMemory() = default;
  [[nodiscard]] static core::Result<SharedMemory> make(const Gpu& gpu, std::size_t bytes);
  SharedMemory(SharedMemory&& other) noexcept { swap(other); }
  SharedMemory& operator=(SharedMemory&& other) noexcept {
    swap(other);
    return *this;
  }
  ~SharedMemory();

  template <typename T>
  [[nodiscard]] volatile T& at(std::size_t offset) const {
    return *reinterpret_cast<volatile T*>(static_cast<std::byte*>(m_host) + offset);
  }
  [[nodiscard]] cuda::DevicePointer address(std::size_t offset = 0) const {
    return m_device + offset;
  }
  void clear() const;

 private:
  void swap(SharedMemory& other) noexcept {
    std::swap(m_gpu, other.m_gpu);
    std::swap(m_host, other.m_host);
    std::swap(m_device, other.m_device);
    std::swap(m_bytes, other.m_bytes);
  }
  const Gpu* m_gpu = nullptr;
  void* m_host = nullptr;
  cuda::DevicePointer m_device = 0;
  std::size_t m_bytes = 0;
};

}  // namespace cubinary::builder
