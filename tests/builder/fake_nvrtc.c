// SPDX-License-Identifier: Apache-2.0
// An NVRTC of any version: FAKE_NVRTC_VERSION ("12.8") is what it says it is, and every compilation
// gives the bytes of the file FAKE_NVRTC_CUBIN, or fails when there is none.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const int k_ok = 0;
static const int k_failed = 6;

static const char* cubin_file(void) {
  return getenv("FAKE_NVRTC_CUBIN");
}

static size_t read_cubin(char* to, size_t most) {
  FILE* file = cubin_file() == NULL ? NULL : fopen(cubin_file(), "rb");
  size_t size = 0;
  if (file != NULL) {
    if (to != NULL) {
      size = fread(to, 1, most, file);
    } else {
      fseek(file, 0, SEEK_END);
      size = (size_t)ftell(file);
    }
    fclose(file);
  }
  return size;
}

const char* nvrtcGetErrorString(int code) {
  return code == 0 ? "fine" : "refused";
}
int nvrtcVersion(int* major, int* minor) {
  const char* version = getenv("FAKE_NVRTC_VERSION");
  return version != NULL && sscanf(version, "%d.%d", major, minor) == 2 ? k_ok : k_failed;
}
int nvrtcCreateProgram(void** program, const char* source, const char* name, int count,
                       const char* const* headers, const char* const* names) {
  (void)source, (void)name, (void)count, (void)headers, (void)names;
  *program = malloc(1);
  return k_ok;
}
int nvrtcDestroyProgram(void** program) {
  free(*program);
  *program = NULL;
  return k_ok;
}
int nvrtcAddNameExpression(void* program, const char* name) {
  (void)program, (void)name;
  return k_ok;
}
int nvrtcCompileProgram(void* program, int count, const char* const* options) {
  (void)program, (void)count, (void)options;
  return read_cubin(NULL, 0) > 0 ? k_ok : k_failed;
}
int nvrtcGetProgramLogSize(void* program, size_t* size) {
  (void)program;
  *size = 1;
  return k_ok;
}
int nvrtcGetProgramLog(void* program, char* log) {
  (void)program;
  *log = '\0';
  return k_ok;
}
int nvrtcGetCUBINSize(void* program, size_t* size) {
  (void)program;
  *size = read_cubin(NULL, 0);
  return k_ok;
}
int nvrtcGetCUBIN(void* program, char* cubin) {
  (void)program;
  read_cubin(cubin, read_cubin(NULL, 0));
  return k_ok;
}
int nvrtcGetLoweredName(void* program, const char* name, const char** lowered) {
  (void)program, (void)name;
  *lowered = "nothing";
  return k_ok;
}
