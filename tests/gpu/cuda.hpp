// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

// The part of the CUDA driver API that the GPU suite and the GPU benchmarks use, opened with dlopen
// so that they build and start where there is no CUDA at all.

struct CUctx_st;
struct CUstream_st;
struct CUevent_st;
struct CUmod_st;
struct CUfunc_st;
struct CUgraph_st;
struct CUgraphExec_st;

namespace cubinary::gpu {

using DevicePointer = std::uint64_t;

/// A driver call that failed. Only programs that run to an end use this, so it is an exception.
struct CudaError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// libcuda's functions; nothing is called before `open` succeeded.
struct Driver {
  int (*init)(unsigned) = nullptr;
  int (*driver_version)(int*) = nullptr;
  int (*device_count)(int*) = nullptr;
  int (*device_get)(int*, int) = nullptr;
  int (*device_name)(char*, int, int) = nullptr;
  int (*device_attribute)(int*, int, int) = nullptr;
  int (*primary_retain)(CUctx_st**, int) = nullptr;
  int (*context_set)(CUctx_st*) = nullptr;
  int (*context_synchronize)() = nullptr;
  int (*error_name)(int, const char**) = nullptr;
  int (*mem_alloc)(DevicePointer*, std::size_t) = nullptr;
  int (*mem_free)(DevicePointer) = nullptr;
  int (*copy_in)(DevicePointer, const void*, std::size_t) = nullptr;
  int (*copy_out)(void*, DevicePointer, std::size_t) = nullptr;
  int (*copy_device)(DevicePointer, DevicePointer, std::size_t, CUstream_st*) = nullptr;
  int (*set_bytes)(DevicePointer, unsigned char, std::size_t) = nullptr;
  int (*stream_create)(CUstream_st**, unsigned) = nullptr;
  int (*stream_destroy)(CUstream_st*) = nullptr;
  int (*stream_synchronize)(CUstream_st*) = nullptr;
  int (*begin_capture)(CUstream_st*, int) = nullptr;
  int (*end_capture)(CUstream_st*, CUgraph_st**) = nullptr;
  int (*graph_nodes)(CUgraph_st*, void*, std::size_t*) = nullptr;
  int (*graph_instantiate)(CUgraphExec_st**, CUgraph_st*, unsigned long long) = nullptr;
  int (*graph_launch)(CUgraphExec_st*, CUstream_st*) = nullptr;
  int (*graph_exec_destroy)(CUgraphExec_st*) = nullptr;
  int (*graph_destroy)(CUgraph_st*) = nullptr;
  int (*event_create)(CUevent_st**, unsigned) = nullptr;
  int (*event_destroy)(CUevent_st*) = nullptr;
  int (*event_record)(CUevent_st*, CUstream_st*) = nullptr;
  int (*event_synchronize)(CUevent_st*) = nullptr;
  int (*event_elapsed)(float*, CUevent_st*, CUevent_st*) = nullptr;
  int (*module_load)(CUmod_st**, const void*) = nullptr;
  int (*module_unload)(CUmod_st*) = nullptr;
  int (*module_functions)(CUfunc_st**, unsigned, CUmod_st*) = nullptr;
  int (*function_load)(CUfunc_st*) = nullptr;
  int (*launch_kernel)(CUfunc_st*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                       unsigned, CUstream_st*, void**, void**) = nullptr;

  /// Opens libcuda, initialises it and makes device 0's primary context current. An empty string,
  /// or why there is no GPU to test on.
  [[nodiscard]] std::string open();
  /// Throws CudaError, naming `what`, unless `status` is 0.
  void check(int status, const char* what) const;

  int device = 0;
  std::string name;  ///< of the device
  int sm_count = 0;
  int capability = 0;  ///< X * 10 + Y
  int version = 0;     ///< of the driver API, 13000
};

/// The one driver of this program.
[[nodiscard]] Driver& driver();

/// Device memory, freed at the end.
class DeviceBuffer {
 public:
  explicit DeviceBuffer(std::size_t bytes);
  ~DeviceBuffer();
  DeviceBuffer(DeviceBuffer&& other) noexcept
      : m_pointer(std::exchange(other.m_pointer, 0)), m_bytes(other.m_bytes) {}
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(DeviceBuffer&&) = delete;

  [[nodiscard]] DevicePointer pointer() const { return m_pointer; }
  [[nodiscard]] std::size_t bytes() const { return m_bytes; }
  /// Sets every byte.
  void fill(unsigned char byte);
  void write(std::size_t offset, std::span<const std::byte> bytes);
  [[nodiscard]] std::vector<std::byte> read() const;

 private:
  DevicePointer m_pointer = 0;
  std::size_t m_bytes = 0;
};

/// A stream that does not synchronise with the default one.
class Stream {
 public:
  Stream();
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  [[nodiscard]] CUstream_st* get() const { return m_stream; }
  void synchronize() const;

 private:
  CUstream_st* m_stream = nullptr;
};

/// Microseconds of device time between two marks on a stream.
class Timer {
 public:
  Timer();
  ~Timer();
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;
  void start(const Stream& stream);
  /// Waits for the work since `start`.
  [[nodiscard]] double stop(const Stream& stream);

 private:
  CUevent_st* m_start = nullptr;
  CUevent_st* m_stop = nullptr;
};

}  // namespace cubinary::gpu
