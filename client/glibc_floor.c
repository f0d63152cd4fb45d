/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lets what was linked against a newer glibc run on 2.28: every function that the C++ runtime,
 * OpenSSL and our own code would take in a younger version is defined here, for this program or
 * library alone, by its oldest version or by what is older. What is not called is dropped by the
 * linker.
 *
 * The loader looks symbols up by name and version in all libraries of the process: where the old
 * versions live in libpthread.so.0, libdl.so.2 and libm.so.6, these must be among those needed.
 */
#define _GNU_SOURCE
/* Declared in <link.h> with types that an older one does not have. */
#define dladdr declared_dladdr
#define _dl_find_object declared_dl_find_object
#include <link.h>
#undef dladdr
#undef _dl_find_object
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define HIDDEN __attribute__((visibility("hidden"), used))
#define TEXT(x) #x

/* The first version of each architecture, and how its struct stat is called. */
#if defined(__x86_64__)
#define BASE "2.2.5"
#define BASE_COND "2.3.2"
#define BASE_AT "2.4"
#define STAT_VERSION 1
#elif defined(__aarch64__)
#define BASE "2.17"
#define BASE_COND "2.17"
#define BASE_AT "2.17"
#define STAT_VERSION 0
#else
#error "no floor is known for this architecture"
#endif

/* NAME is OLD_NAME as it was in VERSION. */
#define AS_OF(version, type, name, old_name, parameters, arguments)         \
  extern type old_##name parameters;                                        \
  __asm__(".symver old_" TEXT(name) ", " TEXT(old_name) "@GLIBC_" version); \
  HIDDEN type name parameters;                                              \
  type name parameters {                                                    \
    return old_##name arguments;                                            \
  }
#define FIRST(type, name, parameters, arguments) \
  AS_OF(BASE, type, name, name, parameters, arguments)

/* ---- libm */
FIRST(double, exp, (double x), (x))
FIRST(double, exp2, (double x), (x))
FIRST(double, log, (double x), (x))
FIRST(double, log2, (double x), (x))
FIRST(double, pow, (double x, double y), (x, y))

/* ---- libdl: in libc since 2.34 */
FIRST(int, dladdr, (const void* address, void* info), (address, info))
FIRST(int, dlclose, (void* handle), (handle))
FIRST(char*, dlerror, (void), ())
FIRST(void*, dlopen, (const char* file, int mode), (file, mode))
FIRST(void*, dlsym, (void* handle, const char* name), (handle, name))

/* ---- libpthread: in libc since 2.34. Types as the calling convention sees them. */
FIRST(int, pthread_create, (void* thread, void* attributes, void* routine, void* argument),
      (thread, attributes, routine, argument))
FIRST(int, pthread_detach, (uintptr_t thread), (thread))
FIRST(int, pthread_join, (uintptr_t thread, void** result), (thread, result))
FIRST(int, pthread_key_create, (void* key, void* destructor), (key, destructor))
FIRST(int, __pthread_key_create, (void* key, void* destructor), (key, destructor))
FIRST(int, pthread_key_delete, (unsigned key), (key))
FIRST(void*, pthread_getspecific, (unsigned key), (key))
FIRST(int, pthread_setspecific, (unsigned key, const void* value), (key, value))
FIRST(int, pthread_once, (void* control, void* routine), (control, routine))
FIRST(int, pthread_mutex_trylock, (void* mutex), (mutex))
FIRST(int, pthread_mutexattr_init, (void* attributes), (attributes))
FIRST(int, pthread_mutexattr_settype, (void* attributes, int type), (attributes, type))
FIRST(int, pthread_mutexattr_destroy, (void* attributes), (attributes))
FIRST(int, pthread_sigmask, (int how, const void* set, void* before), (how, set, before))
FIRST(int, pthread_rwlock_init, (void* lock, const void* attributes), (lock, attributes))
FIRST(int, pthread_rwlock_destroy, (void* lock), (lock))
FIRST(int, pthread_rwlock_rdlock, (void* lock), (lock))
FIRST(int, pthread_rwlock_wrlock, (void* lock), (lock))
FIRST(int, pthread_rwlock_unlock, (void* lock), (lock))

AS_OF(BASE_COND, int, floor_cond_timedwait, pthread_cond_timedwait,
      (void* condition, void* mutex, const struct timespec* until), (condition, mutex, until))

/* 2.30. The clock of the condition is the wall's; a step of it lengthens or shortens this one wait.
 */
HIDDEN int pthread_cond_clockwait(void* condition, void* mutex, int clock,
                                  const struct timespec* until);
int pthread_cond_clockwait(void* condition, void* mutex, int clock, const struct timespec* until) {
  const long second = 1000000000L;
  struct timespec now;
  struct timespec wall;
  if (clock_gettime(clock, &now) != 0 || clock_gettime(CLOCK_REALTIME, &wall) != 0) {
    return EINVAL;
  }
  wall.tv_sec += until->tv_sec - now.tv_sec;
  wall.tv_nsec += until->tv_nsec - now.tv_nsec;
  if (wall.tv_nsec < 0) {
    wall.tv_nsec += second;
    --wall.tv_sec;
  } else if (wall.tv_nsec >= second) {
    wall.tv_nsec -= second;
    ++wall.tv_sec;
  }
  return floor_cond_timedwait(condition, mutex, &wall);
}

/* ---- functions since 2.33 that were calls with a version of struct stat before */
FIRST(int, __fxstat, (int version, int file, void* info), (version, file, info))
FIRST(int, __xstat, (int version, const char* path, void* info), (version, path, info))
FIRST(int, __lxstat, (int version, const char* path, void* info), (version, path, info))
AS_OF(BASE_AT, int, __fxstatat, __fxstatat,
      (int version, int folder, const char* path, void* info, int flags),
      (version, folder, path, info, flags))
/* One structure with and without 64: file offsets have 64 bits here in any case. */
#define STAT(suffix)                                                               \
  HIDDEN int fstat##suffix(int file, void* info);                                  \
  int fstat##suffix(int file, void* info) {                                        \
    return __fxstat(STAT_VERSION, file, info);                                     \
  }                                                                                \
  HIDDEN int stat##suffix(const char* path, void* info);                           \
  int stat##suffix(const char* path, void* info) {                                 \
    return __xstat(STAT_VERSION, path, info);                                      \
  }                                                                                \
  HIDDEN int lstat##suffix(const char* path, void* info);                          \
  int lstat##suffix(const char* path, void* info) {                                \
    return __lxstat(STAT_VERSION, path, info);                                     \
  }                                                                                \
  HIDDEN int fstatat##suffix(int folder, const char* path, void* info, int flags); \
  int fstatat##suffix(int folder, const char* path, void* info, int flags) {       \
    return __fxstatat(STAT_VERSION, folder, path, info, flags);                    \
  }
STAT()
STAT(64)

/* ---- 2.32: whether the C++ runtime may count references without atomics. It may not. */
HIDDEN char __libc_single_threaded = 0;

/* ---- 2.36 */
extern ssize_t getrandom(void* bytes, size_t size, unsigned flags); /* 2.25 */
HIDDEN uint32_t arc4random(void);
uint32_t arc4random(void) {
  uint32_t value = 0;
  while (getrandom(&value, sizeof value, 0) != (ssize_t)sizeof value) {
    if (errno != EINTR) {
      abort();
    }
  }
  return value;
}

/* ---- 2.35: where the unwinder finds the tables of the code at an address */
struct dl_find_object_result { /* struct dl_find_object */
  unsigned long long flags;
  void* map_start;
  void* map_end;
  struct link_map* link_map;
  void* eh_frame;
  unsigned long long reserved[7];
};
struct find_object {
  uintptr_t address;
  struct dl_find_object_result* result;
};
static int examine_object(struct dl_phdr_info* info, size_t size, void* data) {
  struct find_object* find = data;
  const ElfW(Phdr)* tables = NULL;
  uintptr_t begin = 0;
  uintptr_t end = 0;
  (void)size;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)* part = &info->dlpi_phdr[i];
    const uintptr_t at = info->dlpi_addr + part->p_vaddr;
    if (part->p_type == PT_LOAD && find->address - at < part->p_memsz) {
      begin = at;
      end = at + part->p_memsz;
    } else if (part->p_type == PT_GNU_EH_FRAME) {
      tables = part;
    }
  }
  if (end == 0 || tables == NULL) {
    return 0;
  }
  memset(find->result, 0, sizeof *find->result);
  find->result->map_start = (void*)begin;
  find->result->map_end = (void*)end;
  find->result->eh_frame = (void*)(info->dlpi_addr + tables->p_vaddr);
  return 1;
}
HIDDEN int _dl_find_object(void* address, struct dl_find_object_result* result);
int _dl_find_object(void* address, struct dl_find_object_result* result) {
  struct find_object find = {(uintptr_t)address, result};
  return dl_iterate_phdr(examine_object, &find) == 1 ? 0 : -1;
}

/* ---- 2.38: what newer headers make of these names */
AS_OF(BASE, long, __isoc23_strtol, strtol, (const char* text, char** end, int base),
      (text, end, base))
AS_OF(BASE, unsigned long, __isoc23_strtoul, strtoul, (const char* text, char** end, int base),
      (text, end, base))
AS_OF(BASE, long long, __isoc23_strtoll, strtoll, (const char* text, char** end, int base),
      (text, end, base))
AS_OF(BASE, unsigned long long, __isoc23_strtoull, strtoull,
      (const char* text, char** end, int base), (text, end, base))

/* ---- 2.34: a program's start. Before, the program itself ran its constructors. */
#ifdef CUBINARY_GLIBC_FLOOR_PROGRAM
extern void (*__preinit_array_start[])(int, char**, char**) __attribute__((visibility("hidden")));
extern void (*__preinit_array_end[])(int, char**, char**) __attribute__((visibility("hidden")));
extern void (*__init_array_start[])(int, char**, char**) __attribute__((visibility("hidden")));
extern void (*__init_array_end[])(int, char**, char**) __attribute__((visibility("hidden")));
static void run_constructors(int argc, char** argv, char** environment) {
  for (void (**at)(int, char**, char**) = __preinit_array_start; at != __preinit_array_end; ++at) {
    (*at)(argc, argv, environment);
  }
  for (void (**at)(int, char**, char**) = __init_array_start; at != __init_array_end; ++at) {
    (*at)(argc, argv, environment);
  }
}
typedef void constructors(int, char**, char**);
extern int old_libc_start_main(void* main, int argc, char** argv, constructors* init, void* fini,
                               void* rtld_fini, void* stack_end);
__asm__(".symver old_libc_start_main, __libc_start_main@GLIBC_" BASE);
HIDDEN int __libc_start_main(void* main, int argc, char** argv, void* init, void* fini,
                             void* rtld_fini, void* stack_end);
int __libc_start_main(void* main, int argc, char** argv, void* init, void* fini, void* rtld_fini,
                      void* stack_end) {
  (void)init;
  return old_libc_start_main(main, argc, argv, run_constructors, fini, rtld_fini, stack_end);
}
#endif
