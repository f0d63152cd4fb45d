// SPDX-License-Identifier: Apache-2.0
// A libcuda for tests of the Triton plug-in: every call that Triton's host modules make succeeds,
// launches are counted, and nothing is computed. STUB_CC names the capability it reports ("90"),
// STUB_SMS the SM count.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

static int launches;
static int loads;

EXPORT int stub_launches(void) {
  return launches;
}
EXPORT int stub_loads(void) {
  return loads;
}

static int setting(const char* name, int otherwise) {
  const char* text = getenv(name);
  return text ? atoi(text) : otherwise;
}

EXPORT int cuInit(unsigned flags) {
  return (int)flags;
}
EXPORT int cuDriverGetVersion(int* version) {
  return *version = 13000, 0;
}
EXPORT int cuGetErrorString(int error, const char** text) {
  return *text = error ? "stub error" : "no error", 0;
}
EXPORT int cuDeviceGet(int* device, int ordinal) {
  return *device = ordinal, ordinal == 0 ? 0 : 101;
}
EXPORT int cuDeviceGetCount(int* count) {
  return *count = 1, 0;
}
EXPORT int cuDeviceTotalMem_v2(size_t* bytes, int device) {
  return *bytes = (size_t)140 << 30, device;
}
EXPORT int cuDeviceGetAttribute(int* value, int attribute, int device) {
  const int cc = setting("STUB_CC", 90);
  switch (attribute) {
    case 16:
      *value = setting("STUB_SMS", 132);
      break;  // multiprocessors
    case 37:
      *value = 6144;
      break;  // bus bits
    case 38:
      *value = 50 << 20;
      break;  // L2 bytes
    case 75:
      *value = cc / 10;
      break;
    case 76:
      *value = cc % 10;
      break;
    case 97:
      *value = 232448;
      break;  // shared memory, opt-in
    default:
      *value = 1024;
      break;
  }
  return device;
}
EXPORT int cuCtxGetCurrent(void** context) {
  return *context = &launches, 0;
}
EXPORT int cuCtxSetCurrent(void* context) {
  return context == NULL;
}
EXPORT int cuCtxGetDevice(int* device) {
  return *device = 0;
}
EXPORT int cuCtxGetLimit(size_t* value, int limit) {
  return *value = (size_t)limit, 0;
}
EXPORT int cuCtxSetLimit(int limit, size_t value) {
  return limit < 0 || value == 0;
}
EXPORT int cuDevicePrimaryCtxRetain(void** context, int device) {
  return *context = &launches, device;
}
EXPORT int cuModuleLoadData(void** module, const void* image) {
  ++loads;
  return *module = &loads, memcmp(image, "\177ELF", 4) != 0;
}
EXPORT int cuModuleUnload(void* module) {
  return module == NULL;
}
EXPORT int cuModuleGetFunction(void** function, void* module, const char* name) {
  return *function = module, name[0] == '\0';
}
EXPORT int cuFuncGetAttribute(int* value, int attribute, void* function) {
  return *value = attribute == 0 ? 1024 : 0, function == NULL;  // 0: most threads of a block
}
EXPORT int cuFuncSetAttribute(void* function, int attribute, int value) {
  return function == NULL || attribute < 0 || value < 0;
}
EXPORT int cuFuncSetCacheConfig(void* function, int config) {
  return function == NULL || config < 0;
}
EXPORT int cuPointerGetAttribute(void* value, int attribute, uint64_t pointer) {
  return memcpy(value, &pointer, sizeof pointer), attribute < 0;
}
EXPORT int cuPointerGetAttributes(unsigned n, int* attributes, void** values, uint64_t pointer) {
  return (void)attributes, (void)values, (void)pointer, n == 0;
}
EXPORT int cuLaunchKernelEx(const void* config, void* function, void** params, void** extra) {
  ++launches;
  return config == NULL || function == NULL || (params == NULL && extra == NULL);
}
EXPORT int cuOccupancyMaxActiveClusters(int* clusters, void* function, const void* config) {
  return *clusters = 1, function == NULL || config == NULL;
}
EXPORT int cuTensorMapEncodeTiled(void) {
  return 0;
}
EXPORT int cuTensorMapEncodeIm2col(void) {
  return 0;
}
EXPORT int cuStreamIsCapturing(void* stream, int* status) {
  return *status = 0, stream != NULL;
}
