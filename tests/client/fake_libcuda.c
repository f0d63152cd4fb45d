/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stands in for the driver where there is none: keeps the contract of the calls the client makes
 * and writes each one as a line to the file FAKE_CUDA_LOG. Read at every call, so that a test can
 * change them:
 *   FAKE_CUDA_FAIL=NAME:STATUS      that call answers STATUS
 *   FAKE_CUDA_VERSION=13000         the driver's CUDA version
 *   FAKE_CUDA_CC=90                 the devices' capability
 *   FAKE_CUDA_CAPTURING=1           every stream is being captured
 *   FAKE_CUDA_MAX_THREADS=1024      a function's block limit
 *   FAKE_CUDA_INIT_MS=200           how long cuInit takes, asleep
 * A function's name tells the sizes of its parameters: `scale__p8_8_4` has three, of 8, 8 and 4
 * bytes. A module's image must begin with "CUBIN ", or be an ELF file.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define DEVICES 2

struct context {
  int device;
  int retained;
};
struct function {
  char name[256];
  int dynamic_smem;
  struct function* next; /* of the same module, which owns them */
};
struct module {
  char image[64];
  struct function* functions;
};
struct launch_attribute {
  unsigned id;
  char padding[4];
  union {
    char bytes[64];
    unsigned cluster[3];
    int cooperative;
  } value;
};
struct launch_config {
  unsigned grid[3];
  unsigned block[3];
  unsigned smem;
  void* stream;
  struct launch_attribute* attributes;
  unsigned attribute_count;
};

static struct context g_primary[DEVICES] = {{0, 0}, {1, 0}};
static _Thread_local struct context* g_stack[16];
static _Thread_local int g_depth;

static void record(const char* line) {
  const char* path = getenv("FAKE_CUDA_LOG");
  FILE* file = path == NULL ? NULL : fopen(path, "a");
  if (file != NULL) {
    fprintf(file, "%s\n", line);
    fclose(file);
  }
}

static int number(const char* name, int otherwise) {
  const char* text = getenv(name);
  return text == NULL || *text == '\0' ? otherwise : atoi(text);
}

static int answer(const char* call) {
  const char* fail = getenv("FAKE_CUDA_FAIL");
  const size_t length = strlen(call);
  if (fail != NULL && strncmp(fail, call, length) == 0 && fail[length] == ':') {
    return atoi(fail + length + 1);
  }
  return 0;
}

static int called(const char* call) {
  record(call);
  return answer(call);
}

int cuInit(unsigned flags) {
  const int milliseconds = number("FAKE_CUDA_INIT_MS", 0);
  const struct timespec pause = {milliseconds / 1000, milliseconds % 1000 * 1000000L};
  (void)flags;
  nanosleep(&pause, NULL);
  return called("cuInit");
}
int cuDriverGetVersion(int* version) {
  *version = number("FAKE_CUDA_VERSION", 13000);
  return answer("cuDriverGetVersion");
}
int cuDeviceGetCount(int* count) {
  *count = DEVICES;
  return answer("cuDeviceGetCount");
}
int cuDeviceGet(int* device, int ordinal) {
  *device = ordinal;
  return ordinal < DEVICES ? answer("cuDeviceGet") : 101;
}
int cuDeviceGetName(char* name, int length, int device) {
  snprintf(name, (size_t)length, "Fake GPU %d", device);
  return answer("cuDeviceGetName");
}
int cuDeviceGetAttribute(int* value, int attribute, int device) {
  const int cc = number("FAKE_CUDA_CC", 90);
  switch (attribute) {
    case 75:
      *value = cc / 10;
      break;
    case 76:
      *value = cc % 10;
      break;
    case 16:
      *value = device == 0 ? 132 : 114;
      break;
    case 38:
      *value = 50 << 20;
      break;
    case 37:
      *value = 5120;
      break;
    case 97:
      *value = 232448;
      break;
    default:
      return 1;
  }
  return answer("cuDeviceGetAttribute");
}
int cuDeviceTotalMem_v2(size_t* bytes, int device) {
  (void)device;
  *bytes = (size_t)80 << 30;
  return answer("cuDeviceTotalMem_v2");
}
int cuDevicePrimaryCtxRetain(struct context** context, int device) {
  *context = &g_primary[device];
  ++g_primary[device].retained;
  return called("cuDevicePrimaryCtxRetain");
}
int cuDevicePrimaryCtxRelease_v2(int device) {
  --g_primary[device].retained;
  return called("cuDevicePrimaryCtxRelease");
}
int cuCtxGetCurrent(struct context** context) {
  *context = g_depth == 0 ? NULL : g_stack[g_depth - 1];
  return answer("cuCtxGetCurrent");
}
int cuCtxPushCurrent_v2(struct context* context) {
  g_stack[g_depth++] = context;
  return called("cuCtxPushCurrent");
}
int cuCtxPopCurrent_v2(struct context** context) {
  *context = g_stack[--g_depth];
  return called("cuCtxPopCurrent");
}
int cuCtxGetDevice(int* device) {
  if (g_depth == 0) {
    return 201;
  }
  *device = g_stack[g_depth - 1]->device;
  return answer("cuCtxGetDevice");
}
int cuCtxGetId(struct context* context, unsigned long long* id) {
  *id = 100 + (unsigned long long)context->device;
  return answer("cuCtxGetId");
}
/* For tests: makes a device's primary context current on this thread, or none (-1). */
void fake_cuda_set_current(int device) {
  g_depth = 0;
  if (device >= 0) {
    g_stack[g_depth++] = &g_primary[device];
  }
}

int cuModuleLoadData(struct module** module, const void* image) {
  char line[128];
  const int status = answer("cuModuleLoadData");
  if (g_depth == 0) {
    return 201;
  }
  if (status != 0 || (strncmp(image, "CUBIN ", 6) != 0 && strncmp(image, "\177ELF", 4) != 0)) {
    record("cuModuleLoadData refused");
    return status != 0 ? status : 200;
  }
  *module = calloc(1, sizeof **module);
  snprintf((*module)->image, sizeof(*module)->image, "%s", (const char*)image);
  (*module)->image[strcspn((*module)->image, "\n")] = '\0';
  snprintf(line, sizeof line, "cuModuleLoadData %s", (*module)->image);
  record(line);
  return 0;
}
int cuModuleUnload(struct module* module) {
  for (struct function* function = module->functions; function != NULL;) {
    struct function* next = function->next;
    free(function);
    function = next;
  }
  free(module);
  return called("cuModuleUnload");
}
int cuModuleGetFunction(struct function** function, struct module* module, const char* name) {
  *function = calloc(1, sizeof **function);
  (*function)->next = module->functions;
  module->functions = *function;
  snprintf((*function)->name, sizeof(*function)->name, "%s", name);
  (*function)->dynamic_smem = 48 << 10;
  return answer("cuModuleGetFunction");
}
int cuFuncLoad(struct function* function) {
  char line[300];
  snprintf(line, sizeof line, "cuFuncLoad %s", function->name);
  record(line);
  return answer("cuFuncLoad");
}
int cuFuncGetAttribute(int* value, int attribute, struct function* function) {
  *value = attribute == 0   ? number("FAKE_CUDA_MAX_THREADS", 1024)
           : attribute == 8 ? function->dynamic_smem
                            : 0;
  return answer("cuFuncGetAttribute");
}
int cuFuncSetAttribute(struct function* function, int attribute, int value) {
  char line[300];
  snprintf(line, sizeof line, "cuFuncSetAttribute %s %d %d", function->name, attribute, value);
  record(line);
  if (attribute == 8) {
    function->dynamic_smem = value;
  }
  return answer("cuFuncSetAttribute");
}

static void record_launch(const struct function* function, const struct launch_config* config,
                          void** parameters) {
  char line[4096];
  int at =
      snprintf(line, sizeof line, "launch %s grid=%u,%u,%u block=%u,%u,%u smem=%u stream=%p",
               function->name, config->grid[0], config->grid[1], config->grid[2], config->block[0],
               config->block[1], config->block[2], config->smem, config->stream);
  for (unsigned i = 0; i < config->attribute_count; ++i) {
    const struct launch_attribute* attribute = &config->attributes[i];
    if (attribute->id == 4) {
      at += snprintf(line + at, sizeof line - (size_t)at, " cluster=%u,%u,%u",
                     attribute->value.cluster[0], attribute->value.cluster[1],
                     attribute->value.cluster[2]);
    } else if (attribute->id == 2) {
      at += snprintf(line + at, sizeof line - (size_t)at, " cooperative=%d",
                     attribute->value.cooperative);
    }
  }
  at += snprintf(line + at, sizeof line - (size_t)at, " params=");
  const char* sizes = strstr(function->name, "__p");
  for (int i = 0; sizes != NULL && *sizes != '\0' && sizes[1] != '\0'; ++i) {
    sizes += i == 0 ? 3 : 1;
    const long size = strtol(sizes, (char**)&sizes, 10);
    at += snprintf(line + at, sizeof line - (size_t)at, "%s", i == 0 ? "" : ",");
    for (long byte = size - 1; byte >= 0; --byte) { /* as a number is read */
      at += snprintf(line + at, sizeof line - (size_t)at, "%02x",
                     ((const unsigned char*)parameters[i])[byte]);
    }
  }
  record(line);
}
int cuLaunchKernel(struct function* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                   unsigned by, unsigned bz, unsigned smem, void* stream, void** parameters,
                   void** extra) {
  const struct launch_config config = {{gx, gy, gz}, {bx, by, bz}, smem, stream, NULL, 0};
  (void)extra;
  if (g_depth == 0) {
    return 201;
  }
  record_launch(function, &config, parameters);
  return answer("cuLaunchKernel");
}
int cuLaunchKernelEx(const struct launch_config* config, struct function* function,
                     void** parameters, void** extra) {
  (void)extra;
  record_launch(function, config, parameters);
  return answer("cuLaunchKernelEx");
}
int cuStreamIsCapturing(void* stream, int* status) {
  (void)stream;
  *status = number("FAKE_CUDA_CAPTURING", 0);
  return answer("cuStreamIsCapturing");
}
int cuThreadExchangeStreamCaptureMode(int* mode) {
  static _Thread_local int current = 0;
  const int before = current;
  current = *mode;
  *mode = before;
  return answer("cuThreadExchangeStreamCaptureMode");
}
int cuMemsetD8Async(unsigned long long pointer, unsigned char value, size_t bytes, void* stream) {
  char line[128];
  snprintf(line, sizeof line, "memset 0x%llx %u %zu %p", pointer, value, bytes, stream);
  record(line);
  return answer("cuMemsetD8Async");
}
int cuGetErrorName(int status, const char** name) {
  *name = status == 200   ? "CUDA_ERROR_INVALID_IMAGE"
          : status == 209 ? "CUDA_ERROR_NO_BINARY_FOR_GPU"
          : status == 700 ? "CUDA_ERROR_ILLEGAL_ADDRESS"
          : status == 100 ? "CUDA_ERROR_NO_DEVICE"
                          : "CUDA_ERROR_OTHER";
  return 0;
}
int cuGetErrorString(int status, const char** text) {
  (void)status;
  *text = "as the test asked";
  return 0;
}
