// SPDX-License-Identifier: Apache-2.0
#include "core/driver/device_functions.hpp"

#include <string>

namespace cubinary::core {

Result<DeviceFunctions> DeviceFunctions::bind(const Driver& driver) {
  DeviceFunctions f;
  std::string missing;
  const auto need = [&]<typename F>(const char* symbol, F& function) {
    function = reinterpret_cast<F>(driver.find(symbol));
    if (function == nullptr && missing.empty()) {
      missing = symbol;
    }
  };
  need("cuDeviceGetUuid_v2", f.device_uuid);
  need("cuMemGetInfo_v2", f.memory_info);
  need("cuMemAlloc_v2", f.allocate);
  need("cuMemFree_v2", f.release);
  need("cuMemHostAlloc", f.allocate_host);
  need("cuMemFreeHost", f.release_host);
  need("cuMemHostGetDevicePointer_v2", f.host_address);
  need("cuMemcpyHtoD_v2", f.copy_to_device);
  need("cuMemcpyDtoH_v2", f.copy_to_host);
  need("cuMemcpyDtoDAsync_v2", f.copy_async);
  need("cuStreamCreate", f.stream_create);
  need("cuStreamDestroy_v2", f.stream_destroy);
  need("cuStreamSynchronize", f.stream_synchronize);
  need("cuEventCreate", f.event_create);
  need("cuEventDestroy_v2", f.event_destroy);
  need("cuEventRecord", f.event_record);
  need("cuEventElapsedTime", f.event_elapsed);
  need("cuOccupancyMaxActiveBlocksPerMultiprocessor", f.resident_blocks);
  if (!missing.empty()) {
    return fail(ErrorCode::driver, "the CUDA driver has no function " + missing +
                                       ": it is too old, install branch 525 or newer");
  }
  return f;
}

}  // namespace cubinary::core
