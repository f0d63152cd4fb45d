// SPDX-License-Identifier: Apache-2.0
#include "tests/gpu/cuda.hpp"

#include <array>

#include <dlfcn.h>

namespace cubinary::gpu {

namespace {

template <typename Function>
bool find(void* library, Function& function, const char* name) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

constexpr int k_attribute_sm_count = 16;
constexpr int k_attribute_major = 75;
constexpr int k_attribute_minor = 76;

}  // namespace

Driver& driver() {
  static Driver instance;
  return instance;
}

std::string Driver::open() {
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return "no libcuda.so.1 (no NVIDIA driver on this machine)";
  }
  const bool complete =
      find(library, init, "cuInit") && find(library, driver_version, "cuDriverGetVersion") &&
      find(library, device_count, "cuDeviceGetCount") && find(library, device_get, "cuDeviceGet") &&
      find(library, device_name, "cuDeviceGetName") &&
      find(library, device_attribute, "cuDeviceGetAttribute") &&
      find(library, primary_retain, "cuDevicePrimaryCtxRetain") &&
      find(library, context_set, "cuCtxSetCurrent") &&
      find(library, context_synchronize, "cuCtxSynchronize") &&
      find(library, error_name, "cuGetErrorName") && find(library, mem_alloc, "cuMemAlloc_v2") &&
      find(library, mem_free, "cuMemFree_v2") && find(library, copy_in, "cuMemcpyHtoD_v2") &&
      find(library, copy_out, "cuMemcpyDtoH_v2") &&
      find(library, copy_device, "cuMemcpyDtoDAsync_v2") &&
      find(library, set_bytes, "cuMemsetD8_v2") && find(library, stream_create, "cuStreamCreate") &&
      find(library, stream_destroy, "cuStreamDestroy_v2") &&
      find(library, stream_synchronize, "cuStreamSynchronize") &&
      find(library, begin_capture, "cuStreamBeginCapture_v2") &&
      find(library, end_capture, "cuStreamEndCapture") &&
      find(library, graph_nodes, "cuGraphGetNodes") &&
      find(library, graph_instantiate, "cuGraphInstantiateWithFlags") &&
      find(library, graph_launch, "cuGraphLaunch") &&
      find(library, graph_exec_destroy, "cuGraphExecDestroy") &&
      find(library, graph_destroy, "cuGraphDestroy") &&
      find(library, event_create, "cuEventCreate") &&
      find(library, event_destroy, "cuEventDestroy_v2") &&
      find(library, event_record, "cuEventRecord") &&
      find(library, event_synchronize, "cuEventSynchronize") &&
      find(library, event_elapsed, "cuEventElapsedTime") &&
      find(library, module_load, "cuModuleLoadData") &&
      find(library, module_unload, "cuModuleUnload") &&
      find(library, module_functions, "cuModuleEnumerateFunctions") &&
      find(library, function_load, "cuFuncLoad") && find(library, launch_kernel, "cuLaunchKernel");
  if (!complete) {
    return "this libcuda.so.1 is older than the suite needs (driver 550 or later)";
  }
  if (const int status = init(0); status != 0) {
    return "cuInit failed with error " + std::to_string(status);
  }
  int devices = 0;
  if (device_count(&devices) != 0 || devices == 0) {
    return "no CUDA device";
  }
  std::array<char, 256> text{};
  check(device_get(&device, 0), "cuDeviceGet");
  check(device_name(text.data(), static_cast<int>(text.size()), device), "cuDeviceGetName");
  name = text.data();
  check(driver_version(&version), "cuDriverGetVersion");
  check(device_attribute(&sm_count, k_attribute_sm_count, device), "cuDeviceGetAttribute");
  int major = 0;
  int minor = 0;
  check(device_attribute(&major, k_attribute_major, device), "cuDeviceGetAttribute");
  check(device_attribute(&minor, k_attribute_minor, device), "cuDeviceGetAttribute");
  capability = major * 10 + minor;
  CUctx_st* context = nullptr;
  check(primary_retain(&context, device), "cuDevicePrimaryCtxRetain");
  check(context_set(context), "cuCtxSetCurrent");
  return {};
}

void Driver::check(int status, const char* what) const {
  if (status == 0) {
    return;
  }
  const char* text = nullptr;
  if (error_name(status, &text) != 0 || text == nullptr) {
    text = "unknown error";
  }
  throw CudaError(std::string(what) + ": " + text);
}

DeviceBuffer::DeviceBuffer(std::size_t bytes) : m_bytes(bytes) {
  driver().check(driver().mem_alloc(&m_pointer, bytes == 0 ? 1 : bytes), "cuMemAlloc");
}

DeviceBuffer::~DeviceBuffer() {
  if (m_pointer != 0) {
    driver().mem_free(m_pointer);
  }
}

void DeviceBuffer::fill(unsigned char byte) {
  driver().check(driver().set_bytes(m_pointer, byte, m_bytes), "cuMemsetD8");
}

void DeviceBuffer::write(std::size_t offset, std::span<const std::byte> bytes) {
  if (!bytes.empty()) {
    driver().check(driver().copy_in(m_pointer + offset, bytes.data(), bytes.size()),
                   "cuMemcpyHtoD");
  }
}

std::vector<std::byte> DeviceBuffer::read() const {
  std::vector<std::byte> bytes(m_bytes);
  if (!bytes.empty()) {
    driver().check(driver().copy_out(bytes.data(), m_pointer, m_bytes), "cuMemcpyDtoH");
  }
  return bytes;
}

Stream::Stream() {
  constexpr unsigned non_blocking = 1;
  driver().check(driver().stream_create(&m_stream, non_blocking), "cuStreamCreate");
}

Stream::~Stream() {
  driver().stream_destroy(m_stream);
}

void Stream::synchronize() const {
  driver().check(driver().stream_synchronize(m_stream), "cuStreamSynchronize");
}

Timer::Timer() {
  driver().check(driver().event_create(&m_start, 0), "cuEventCreate");
  driver().check(driver().event_create(&m_stop, 0), "cuEventCreate");
}

Timer::~Timer() {
  driver().event_destroy(m_start);
  driver().event_destroy(m_stop);
}

void Timer::start(const Stream& stream) {
  driver().check(driver().event_record(m_start, stream.get()), "cuEventRecord");
}

double Timer::stop(const Stream& stream) {
  driver().check(driver().event_record(m_stop, stream.get()), "cuEventRecord");
  driver().check(driver().event_synchronize(m_stop), "cuEventSynchronize");
  float milliseconds = 0;
  driver().check(driver().event_elapsed(&milliseconds, m_start, m_stop), "cuEventElapsedTime");
  return static_cast<double>(milliseconds) * 1000.0;
}

}  // namespace cubinary::gpu
