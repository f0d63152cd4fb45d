// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "core/base/result.hpp"
#include "core/driver/driver.hpp"

namespace cubinary::core {

namespace cuda {
using Event = struct EventOpaque*;

inline constexpr Status k_out_of_memory = 2;
inline constexpr int k_attribute_clock_khz = 13;
inline constexpr int k_attribute_max_threads_per_sm = 39;
inline constexpr int k_attribute_cooperative = 95;
inline constexpr unsigned k_stream_non_blocking = 1;
inline constexpr unsigned k_host_mapped = 2;

struct Uuid {
  unsigned char bytes[16];
};
}  // namespace cuda

/// What a measuring process needs of libcuda beyond Driver: memory, streams, events. Immutable.
struct DeviceFunctions {
  /// `driver` when the library lacks one of them.
  [[nodiscard]] static Result<DeviceFunctions> bind(const Driver& driver);

  cuda::Status (*device_uuid)(cuda::Uuid*, cuda::Device) = nullptr;
  cuda::Status (*memory_info)(std::size_t* free, std::size_t* total) = nullptr;
  cuda::Status (*allocate)(cuda::DevicePointer*, std::size_t) = nullptr;
  cuda::Status (*release)(cuda::DevicePointer) = nullptr;
  cuda::Status (*allocate_host)(void**, std::size_t, unsigned flags) = nullptr;
  cuda::Status (*release_host)(void*) = nullptr;
  cuda::Status (*host_address)(cuda::DevicePointer*, void*, unsigned) = nullptr;
  cuda::Status (*copy_to_device)(cuda::DevicePointer, const void*, std::size_t) = nullptr;
  cuda::Status (*copy_to_host)(void*, cuda::DevicePointer, std::size_t) = nullptr;
  cuda::Status (*copy_async)(cuda::DevicePointer, cuda::DevicePointer, std::size_t,
                             cuda::Stream) = nullptr;
  cuda::Status (*stream_create)(cuda::Stream*, unsigned flags) = nullptr;
  cuda::Status (*stream_destroy)(cuda::Stream) = nullptr;
  cuda::Status (*stream_synchronize)(cuda::Stream) = nullptr;
  cuda::Status (*event_create)(cuda::Event*, unsigned flags) = nullptr;
  cuda::Status (*event_destroy)(cuda::Event) = nullptr;
  cuda::Status (*event_record)(cuda::Event, cuda::Stream) = nullptr;
  cuda::Status (*event_elapsed)(float* milliseconds, cuda::Event, cuda::Event) = nullptr;
  cuda::Status (*resident_blocks)(int* per_sm, cuda::Function, int threads,
                                  std::size_t smem) = nullptr;
};

}  // namespace cubinary::core
