// SPDX-License-Identifier: Apache-2.0
#include "core/driver/driver.hpp"

#include <array>
#include <cstdlib>
#include <mutex>

#include <dlfcn.h>

#include "core/driver/process.hpp"

namespace cubinary::core {
namespace {

template <typename F>
bool bind(void* library, const char* symbol, F& function) {
  function = reinterpret_cast<F>(::dlsym(library, symbol));
  return function != nullptr;
}

}  // namespace

Result<std::unique_ptr<Driver>> Driver::open() {
  const char* named = std::getenv("CUBINARY_LIBCUDA");
  const char* path = named != nullptr && *named != '\0' ? named : "libcuda.so.1";
  // Never closed: the driver starts threads, and functions are kept.
  void* library = ::dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* why = ::dlerror();
    return fail(ErrorCode::driver,
                std::string("no CUDA driver: ") + (why == nullptr ? path : why) +
                    "; install the NVIDIA driver, or in a container pass the GPU through "
                    "(CUBINARY_LIBCUDA may name the library)");
  }
  auto driver = std::unique_ptr<Driver>(new Driver());
  Driver& d = *driver;
  d.m_library = library;
  const char* missing = nullptr;
  const auto need = [&](const char* symbol, auto& function) {
    if (!bind(library, symbol, function) && missing == nullptr) {
      missing = symbol;
    }
  };
  need("cuInit", d.init);
  need("cuDriverGetVersion", d.driver_version);
  need("cuDeviceGetCount", d.device_count);
  need("cuDeviceGet", d.device_get);
  need("cuDeviceGetName", d.device_name);
  need("cuDeviceGetAttribute", d.device_attribute);
  need("cuDeviceTotalMem_v2", d.device_memory);
  need("cuDevicePrimaryCtxRetain", d.primary_retain);
  need("cuDevicePrimaryCtxRelease_v2", d.primary_release);
  need("cuCtxGetCurrent", d.context_current);
  need("cuCtxPushCurrent_v2", d.context_push);
  need("cuCtxPopCurrent_v2", d.context_pop);
  need("cuCtxGetDevice", d.context_device);
  need("cuModuleLoadData", d.module_load);
  need("cuModuleUnload", d.module_unload);
  need("cuModuleGetFunction", d.module_function);
  need("cuFuncGetAttribute", d.function_get);
  need("cuFuncSetAttribute", d.function_set);
  need("cuLaunchKernel", d.launch);
  need("cuStreamIsCapturing", d.stream_capturing);
  need("cuMemsetD8Async", d.memset_async);
  need("cuGetErrorName", d.error_name);
  need("cuGetErrorString", d.error_string);
  if (missing != nullptr) {
    return fail(ErrorCode::driver, std::string("the CUDA driver ") + path + " has no function " +
                                       missing + ": it is too old, install branch 525 or newer");
  }
  bind(library, "cuFuncLoad", d.function_load);
  bind(library, "cuCtxGetId", d.context_id);
  bind(library, "cuThreadExchangeStreamCaptureMode", d.exchange_capture_mode);
  bind(library, "cuLaunchKernelEx", d.launch_ex);

  if (const auto ready = d.check(d.init(0), "cuInit"); !ready) {
    return fail(ErrorCode::driver,
                ready.error().message + ": there is a driver library, but no usable GPU behind it");
  }
  TRY(d.check(d.driver_version(&d.cuda_version), "cuDriverGetVersion"));
  return driver;
}

Result<const Driver*> Driver::get() {
  // Leaked on purpose: static destructors of the process may still unload modules.
  static std::mutex* const mutex = new std::mutex;
  static Driver* driver = nullptr;
  static unsigned generation = 0;
  const std::lock_guard lock(*mutex);
  if (driver == nullptr) {
    TRY_ASSIGN(std::unique_ptr<Driver> opened, open());
    driver = opened.release();
    generation = fork_generation();
  }
  if (generation != fork_generation()) {
    return fail(
        ErrorCode::driver,
        "CUDA was initialised before this process was forked, and does not work in the child: fork "
        "before the first use of CUDA, or start the child anew (Python: multiprocessing's "
        "\"spawn\")");
  }
  return driver;
}

void* Driver::find(const char* symbol) const {
  return ::dlsym(m_library, symbol);
}

Result<void> Driver::check(cuda::Status status, std::string_view call) const {
  if (status == cuda::k_success) {
    return {};
  }
  const char* name = nullptr;
  const char* text = nullptr;
  (void)error_name(status, &name);
  (void)error_string(status, &text);
  return fail(ErrorCode::cuda, std::string(call) + ": " +
                                   (name != nullptr ? name : "error " + std::to_string(status)) +
                                   (text != nullptr ? std::string(" (") + text + ")" : ""));
}

Result<DeviceFactsRead> read_device(const Driver& driver, cuda::Device device) {
  const auto attribute = [&](int which) -> Result<int> {
    int value = 0;
    TRY(driver.check(driver.device_attribute(&value, which, device), "cuDeviceGetAttribute"));
    return value;
  };
  TRY_ASSIGN(const int major, attribute(cuda::k_attribute_capability_major));
  TRY_ASSIGN(const int minor, attribute(cuda::k_attribute_capability_minor));
  TRY_ASSIGN(const int sm_count, attribute(cuda::k_attribute_sm_count));
  TRY_ASSIGN(const int l2_bytes, attribute(cuda::k_attribute_l2_bytes));
  TRY_ASSIGN(const int bus_bits, attribute(cuda::k_attribute_bus_bits));
  TRY_ASSIGN(const int smem_optin, attribute(cuda::k_attribute_smem_optin));
  std::size_t memory = 0;
  TRY(driver.check(driver.device_memory(&memory, device), "cuDeviceTotalMem"));
  std::array<char, 256> name{};
  TRY(driver.check(driver.device_name(name.data(), static_cast<int>(name.size()) - 1, device),
                   "cuDeviceGetName"));

  DeviceFactsRead read;
  read.device_class = DeviceClass::from_attributes({major, minor}, sm_count, l2_bytes, bus_bits,
                                                   static_cast<std::int64_t>(memory));
  read.facts.sm_count = sm_count;
  read.facts.smem_optin = smem_optin;
  read.name = name.data();
  return read;
}

}  // namespace cubinary::core
