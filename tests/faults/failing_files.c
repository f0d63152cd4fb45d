/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Preloaded: lets calls on files whose path contains FAIL_PATH fail as a network file system's do.
 * FAIL_CALLS=open:ESTALE:2,rename:EBUSY:1,write:ENOSPC:0,read:ESTALE:3 makes the first N of each
 * fail; 0: all.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

static int number_of(const char* name) {
  return strncmp(name, "ESTALE", 6) == 0   ? ESTALE
         : strncmp(name, "EBUSY", 5) == 0  ? EBUSY
         : strncmp(name, "ENOSPC", 6) == 0 ? ENOSPC
         : strncmp(name, "EDQUOT", 6) == 0 ? EDQUOT
         : strncmp(name, "ENOENT", 6) == 0 ? ENOENT
                                           : EIO;
}

/* errno for this call on this path, or 0. */
static int fails(const char* call, const char* path) {
  static int counts[8];
  static const char* const calls[] = {"open", "rename", "write", "read", "fsync", "flock"};
  const char* part = getenv("FAIL_PATH");
  const char* list = getenv("FAIL_CALLS");
  if (part == NULL || list == NULL || path == NULL || strstr(path, part) == NULL) {
    return 0;
  }
  const char* at = strstr(list, call);
  if (at == NULL || at[strlen(call)] != ':') {
    return 0;
  }
  const char* error = at + strlen(call) + 1;
  const char* limit = strchr(error, ':');
  const int most = limit == NULL ? 0 : atoi(limit + 1);
  for (int i = 0; i < 6; ++i) {
    if (strcmp(calls[i], call) == 0) {
      return most != 0 && __sync_fetch_and_add(&counts[i], 1) >= most ? 0 : number_of(error);
    }
  }
  return 0;
}

static const char* path_of(int file, char* space, size_t size) {
  char link[64];
  snprintf(link, sizeof link, "/proc/self/fd/%d", file);
  const ssize_t length = readlink(link, space, size - 1);
  if (length < 0) {
    return NULL;
  }
  space[length] = '\0';
  return space;
}

static void* next(const char* name) {
  return dlsym(RTLD_NEXT, name);
}

int open(const char* path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? (mode_t)va_arg(list, int) : 0;
  va_end(list);
  if ((errno = fails("open", path)) != 0) {
    return -1;
  }
  int (*real)(const char*, int, ...);
  *(void**)&real = next("open");
  return real(path, flags, mode);
}
int open64(const char* path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? (mode_t)va_arg(list, int) : 0;
  va_end(list);
  return open(path, flags, mode);
}
int rename(const char* from, const char* to) {
  if ((errno = fails("rename", to)) != 0) {
    return -1;
  }
  int (*real)(const char*, const char*);
  *(void**)&real = next("rename");
  return real(from, to);
}
ssize_t write(int file, const void* data, size_t size) {
  char space[4096];
  if ((errno = fails("write", path_of(file, space, sizeof space))) != 0) {
    return -1;
  }
  ssize_t (*real)(int, const void*, size_t);
  *(void**)&real = next("write");
  return real(file, data, size);
}
ssize_t read(int file, void* data, size_t size) {
  char space[4096];
  if ((errno = fails("read", path_of(file, space, sizeof space))) != 0) {
    return -1;
  }
  ssize_t (*real)(int, void*, size_t);
  *(void**)&real = next("read");
  return real(file, data, size);
}
