// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "core/base/result.hpp"
#include "core/launch/launch.hpp"
#include "core/model/device_class.hpp"

struct CUstream_st;

namespace cubinary::core {

/// The driver interface as far as the client uses it, spelled here so that no CUDA header is
/// needed.
namespace cuda {
using Status = int;
using Device = int;
using Context = struct ContextOpaque*;
using Module = struct ModuleOpaque*;
using Function = struct FunctionOpaque*;
using Stream = CUstream_st*;
using DevicePointer = unsigned long long;

inline constexpr Status k_success = 0;
inline constexpr Status k_deinitialized = 4;
inline constexpr int k_attribute_capability_major = 75;
inline constexpr int k_attribute_capability_minor = 76;
inline constexpr int k_attribute_sm_count = 16;
inline constexpr int k_attribute_l2_bytes = 38;
inline constexpr int k_attribute_bus_bits = 37;
inline constexpr int k_attribute_smem_optin = 97;
inline constexpr int k_function_max_threads = 0;
inline constexpr int k_function_dynamic_smem = 8;
inline constexpr int k_function_nonportable_cluster = 14;
inline constexpr int k_capture_mode_relaxed = 2;
inline constexpr unsigned k_launch_cooperative = 2;
inline constexpr unsigned k_launch_cluster = 4;

struct LaunchAttribute {
  unsigned id;
  char padding[4];
  union {
    char bytes[64];
    unsigned cluster[3];
    int cooperative;
  } value;
};
struct LaunchConfig {
  unsigned grid[3];
  unsigned block[3];
  unsigned smem;
  Stream stream;
  LaunchAttribute* attributes;
  unsigned attribute_count;
};
}  // namespace cuda

/// libcuda, opened once a process with dlopen. Immutable; its functions may be called from any
/// thread.
class Driver {
 public:
  /// The process's driver; opens and initialises it at the first call. CUBINARY_LIBCUDA names
  /// another file than libcuda.so.1. Errors are `driver`: no library, a symbol it lacks, or
  /// cuInit's answer; a failure is tried anew at the next call.
  [[nodiscard]] static Result<const Driver*> get();

  /// A further function of the library by its symbol; null when this driver has none.
  [[nodiscard]] void* find(const char* symbol) const;

  /// Success, or a `cuda` error that names the call, CUDA's own name of the status and `what`.
  [[nodiscard]] Result<void> check(cuda::Status status, std::string_view call) const;

  // Required.
  cuda::Status (*init)(unsigned) = nullptr;
  cuda::Status (*driver_version)(int*) = nullptr;
  cuda::Status (*device_count)(int*) = nullptr;
  cuda::Status (*device_get)(cuda::Device*, int) = nullptr;
  cuda::Status (*device_name)(char*, int, cuda::Device) = nullptr;
  cuda::Status (*device_attribute)(int*, int, cuda::Device) = nullptr;
  cuda::Status (*device_memory)(std::size_t*, cuda::Device) = nullptr;
  cuda::Status (*primary_retain)(cuda::Context*, cuda::Device) = nullptr;
  cuda::Status (*primary_release)(cuda::Device) = nullptr;
  cuda::Status (*context_current)(cuda::Context*) = nullptr;
  cuda::Status (*context_push)(cuda::Context) = nullptr;
  cuda::Status (*context_pop)(cuda::Context*) = nullptr;
  cuda::Status (*context_device)(cuda::Device*) = nullptr;
  cuda::Status (*module_load)(cuda::Module*, const void*) = nullptr;
  cuda::Status (*module_unload)(cuda::Module) = nullptr;
  cuda::Status (*module_function)(cuda::Function*, cuda::Module, const char*) = nullptr;
  cuda::Status (*function_get)(int*, int, cuda::Function) = nullptr;
  cuda::Status (*function_set)(cuda::Function, int, int) = nullptr;
  cuda::Status (*launch)(cuda::Function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                         unsigned, cuda::Stream, void**, void**) = nullptr;
  cuda::Status (*stream_capturing)(cuda::Stream, int*) = nullptr;
  cuda::Status (*memset_async)(cuda::DevicePointer, unsigned char, std::size_t,
                               cuda::Stream) = nullptr;
  cuda::Status (*error_name)(cuda::Status, const char**) = nullptr;
  cuda::Status (*error_string)(cuda::Status, const char**) = nullptr;

  // Null in older drivers.
  cuda::Status (*function_load)(cuda::Function) = nullptr;                   ///< CUDA 12.4
  cuda::Status (*context_id)(cuda::Context, unsigned long long*) = nullptr;  ///< CUDA 12.0
  cuda::Status (*exchange_capture_mode)(int*) = nullptr;
  cuda::Status (*launch_ex)(const cuda::LaunchConfig*, cuda::Function, void**,
                            void**) = nullptr;  ///< CUDA 11.8

  /// `major * 1000 + minor * 10`, as the driver says.
  int cuda_version = 0;

 private:
  Driver() = default;
  static Result<std::unique_ptr<Driver>> open();
  void* m_library = nullptr;
};

/// What one device is.
struct DeviceFactsRead {
  DeviceClass device_class;
  DeviceFacts facts;
  std::string name;
};
[[nodiscard]] Result<DeviceFactsRead> read_device(const Driver& driver, cuda::Device device);

}  // namespace cubinary::core
