/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cubinary: load and launch ahead-of-time compiled, tuned GPU kernels.
 *
 *   open: a release, in a server, registry or folder, and check its signature against your keys;
 *
 *   resolve: a kernel for element types, problem sizes and pointer alignments on the
 * current device;
 *
 *   prepare: fetch, verify and load its code (optional, the first launch does it otherwise);
 *
 *   launch: as often as you like.
 *
 * Needs nothing but the CUDA driver (libcuda.so.1, opened with dlopen), and no CUDA headers.
 *
 * Threads: every function may be called from any thread. A context and a kernel may be used by
 * several threads at once, except that cubinary_close and cubinary_kernel_free must be the last use
 * of theirs.
 *
 * CUDA context: the calling thread's current context; when there is none, the device's primary
 * context, which is retained until the cubinary context is closed and all of its kernels are freed.
 *
 * fork: a context and its kernels belong to the process that opened them. In a child they answer
 * with an error, and closing or freeing them does nothing; open again there. The CUDA driver itself
 * must not have been used before the fork.
 *
 * Structs: set `size` to sizeof the struct and every field you do not use to zero (CUBINARY_INIT
 * does it); later versions only append fields. Strings are UTF-8, zero-terminated and copied by the
 * callee. Nothing throws, exits or prints, except one warning line on stderr where `log` is not
 * set.
 */
#ifndef CUBINARY_H
#define CUBINARY_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define CUBINARY_API __attribute__((visibility("default")))
#else
#define CUBINARY_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

struct CUstream_st; /* a CUstream or cudaStream_t points to it */

/* 0 is success. The numbers never change; new ones may be added. */
typedef enum cubinary_status {
  CUBINARY_OK = 0,
  CUBINARY_ERROR_INTERNAL = 1, /* a bug in Cubinary */
  CUBINARY_ERROR_USAGE = 2,    /* a wrong argument */
  CUBINARY_ERROR_MANIFEST = 3,
  CUBINARY_ERROR_EXPRESSION = 4, /* a launch expression does not evaluate for this shape */
  CUBINARY_ERROR_NOT_FOUND = 5,  /* no such kernel, release or file */
  CUBINARY_ERROR_EXISTS = 6,
  CUBINARY_ERROR_BUSY = 7,
  CUBINARY_ERROR_COMPILE_FAILED = 8,
  CUBINARY_ERROR_BAD_CUBIN = 9,  /* the driver does not take the code */
  CUBINARY_ERROR_CORRUPT = 10,   /* bytes that do not match their digest or format */
  CUBINARY_ERROR_SIGNATURE = 11, /* not signed, or by no pinned key */
  CUBINARY_ERROR_EXPIRED = 12,
  CUBINARY_ERROR_ROLLBACK = 13, /* older than a release seen before */
  CUBINARY_ERROR_REVOKED = 14,
  CUBINARY_ERROR_INTERFACE_MISMATCH = 15, /* the kernel's arguments are not the ones asked for */
  CUBINARY_ERROR_NO_MATCH = 16,           /* nothing for this device, types or shape */
  CUBINARY_ERROR_TARGET = 17,
  CUBINARY_ERROR_DRIVER = 18, /* no driver, or one too old */
  CUBINARY_ERROR_CUDA = 19,   /* a driver call failed */
  CUBINARY_ERROR_TOO_LARGE = 20,
  CUBINARY_ERROR_NOT_A_STORE = 21,
  CUBINARY_ERROR_NEWER_FORMAT = 22, /* made by a newer Cubinary */
  CUBINARY_ERROR_ENVIRONMENT = 23,
  CUBINARY_ERROR_DISK_FULL = 24,
  CUBINARY_ERROR_PERMISSION = 25,
  CUBINARY_ERROR_IO = 26,
  CUBINARY_ERROR_NETWORK = 27,
  CUBINARY_ERROR_TIMEOUT = 28,
  CUBINARY_ERROR_CANCELLED = 29,
  CUBINARY_ERROR_UNAUTHORIZED = 30,
  CUBINARY_ERROR_FORBIDDEN = 31,
  CUBINARY_ERROR_UNSUPPORTED = 32
} cubinary_status;

typedef struct cubinary_context cubinary_context; /* an opened, verified release */
typedef struct cubinary_kernel cubinary_kernel; /* one kernel, resolved for one shape and device */

/* `cubinary_query query = CUBINARY_INIT(cubinary_query);` */
#ifdef __cplusplus
#define CUBINARY_INIT(type)              \
  ([]() {                                \
    type cubinary_value_ = {};           \
    cubinary_value_.size = sizeof(type); \
    return cubinary_value_;              \
  }())
#else
#define CUBINARY_INIT(type) ((type){.size = sizeof(type)})
#endif

/* ---- what happens
 * -------------------------------------------------------------------------------- */

/* New kinds may be added: ignore those you do not know. */
typedef enum cubinary_event_kind {
  CUBINARY_EVENT_HIT = 1,    /* code came from the cache: bytes, milliseconds of reading */
  CUBINARY_EVENT_FETCH = 2,  /* a pack came from the source: bytes received, milliseconds until all
                                of its code was verified; `name` is the kernel */
  CUBINARY_EVENT_LOAD = 3,   /* the driver took code: bytes, milliseconds */
  CUBINARY_EVENT_DAMAGED = 4 /* a cache entry was not what its name says: `name` is its digest */
} cubinary_event_kind;

typedef struct cubinary_event {
  size_t size;
  cubinary_event_kind kind;
  const char* name; /* valid during the call */
  uint64_t bytes;
  double milliseconds;
  double compile_seconds; /* LOAD: what compiling this code took where it was built; 0: unknown */
} cubinary_event;

/* Sums over one context since it was opened. */
typedef struct cubinary_stats {
  size_t size;
  uint64_t cache_hits;   /* code read from the cache */
  uint64_t cache_misses; /* code that had to be fetched first */
  uint64_t cache_bytes;  /* read from the cache */
  uint64_t packs_fetched;
  uint64_t fetched_bytes; /* of packs, as received */
  uint64_t loads;         /* modules the driver took */
  uint64_t loaded_bytes;
  uint64_t damaged;          /* cache entries moved away */
  double fetch_milliseconds; /* of packs, summed over those fetched at the same time */
  double load_milliseconds;
  double compile_seconds_avoided; /* what compiling the loaded code took where it was built */
} cubinary_stats;

/* ---- open
 * ---------------------------------------------------------------------------------------- */

typedef struct cubinary_options {
  size_t size;
  /* DIR[:TAG] (an OCI layout), http[s]://HOST[:PORT][/REPOSITORY][:TAG] or
   * oci://HOST/REPOSITORY[:TAG]. NULL: the environment variable CUBINARY_SOURCE. Without a tag: the
   * only release there. */
  const char* source;
  /* Pinned public keys: files, or PEM text itself ("-----BEGIN …"). NULL: the file CUBINARY_KEY
   * names. The release must be signed by one of them. */
  const char* const* keys;
  size_t key_count;
  /* The cache folder. NULL: $CUBINARY_CACHE, $XDG_CACHE_HOME/cubinary or ~/.cache/cubinary.
   * "": memory only. A folder that cannot be written is used for reading, with one warning. */
  const char* cache;
  /* For servers that ask: a bearer token, or USER:PASSWORD. NULL: $CUBINARY_TOKEN. */
  const char* token;
  /* Bound on all network work of one call, retries included; 0: 60 seconds. */
  double timeout_seconds;
  int offline;        /* non-zero: only what the cache holds; the network is never touched */
  int allow_unsigned; /* non-zero: no signature is asked for. Digests are still checked. */
  int allow_expired;
  /* Warnings, one line each. NULL: stderr. May be called from any thread. */
  void (*log)(void* user, const char* message);
  void* log_user;
  /* Resolve for this device class ("sm90-s132-l50M-b5120-m144G") instead of asking the driver,
   * which is then not opened before prepare. For tools and tests on machines without a GPU. */
  const char* device_class;
  /* Told what happens, for metrics. May be called from any thread, also at once; it must not call
   * back into this library. */
  void (*event)(void* user, const cubinary_event* event);
  void* event_user;
  /* Bytes the cache folder may take; what was used longest ago goes first. 0: 16 GiB. */
  uint64_t cache_limit;
} cubinary_options;

/* Opens a release and verifies its signature, expiry and serial. Catalogues and code are fetched
 * when a kernel first needs them. On failure *context is NULL and cubinary_error_message(NULL) says
 * why. */
CUBINARY_API cubinary_status cubinary_open(const cubinary_options* options,
                                           cubinary_context** context);
/* Closes, after what was fetched has been written to the cache; NULL is allowed. Kernels that are
 * still there stay usable until they are freed. */
CUBINARY_API void cubinary_close(cubinary_context* context);

/* Begins to fetch and verify code in the background and returns at once, so that it goes on while
 * CUDA initialises: of the kernels named (globs as a shell has them), or, with count 0, of the
 * whole release; for the GPUs of this machine, or for options.device_class. A kernel that is needed
 * meanwhile does not wait for the others. Once the fetch is over, what is kept in memory is bounded
 * (64 MiB); the rest is read from the cache. */
CUBINARY_API cubinary_status cubinary_prefetch(cubinary_context* context,
                                               const char* const* kernels, size_t count);
/* Waits for every prefetch of the context, and for the cache to be written. The first error of a
 * prefetch, if one failed; an error is reported once. */
CUBINARY_API cubinary_status cubinary_prefetch_wait(cubinary_context* context);

CUBINARY_API cubinary_status cubinary_get_stats(const cubinary_context* context,
                                                cubinary_stats* stats);

/* ---- resolve
 * ------------------------------------------------------------------------------------- */

typedef struct cubinary_type {
  const char* name;  /* type parameter, "T" */
  const char* dtype; /* f64 f32 f16 bf16 f8_e4m3 f8_e5m2 i64 i32 i8 u8 bool */
} cubinary_type;

typedef struct cubinary_value {
  const char* name;
  int64_t value;
} cubinary_value;

/* How loose an answer may be. Each level takes those above it too. */
typedef enum cubinary_match {
  CUBINARY_MATCH_ANY = 0,           /* also the manifest's own default, never measured */
  CUBINARY_MATCH_EXACT = 1,         /* tuned on this device class for this very shape */
  CUBINARY_MATCH_NEAREST_SHAPE = 2, /* tuned on this device class */
  CUBINARY_MATCH_OTHER_CLASS = 3    /* tuned on some device */
} cubinary_match;

/* As an interface: the arguments are not compared. Only for tools that read them at run time. */
#define CUBINARY_ANY_INTERFACE "any"

typedef struct cubinary_query {
  size_t size;
  const char* kernel;
  /* Digest of the argument list the caller was written for ("sha256:…"; `cubinary explain` and
   * cubinary_kernel_get_info show it), or CUBINARY_ANY_INTERFACE. */
  const char* interface_digest;
  const cubinary_type* types; /* every type parameter */
  size_t type_count;
  const cubinary_value* axes; /* every axis, in elements */
  size_t axis_count;
  /* Alignment in bytes each pointer argument will have; one not named counts as aligned to its
   * element only. Launch refuses a pointer that is less aligned than promised here. */
  const cubinary_value* alignments;
  size_t alignment_count;
  cubinary_match require;
} cubinary_query;

/* Chooses the code, config and launch for a query on the current device. Reads the catalogue of the
 * targets the device can load. What was chosen is brought in the background from then on: a program
 * that resolves all its kernels before it prepares the first waits the least. */
CUBINARY_API cubinary_status cubinary_resolve(cubinary_context* context,
                                              const cubinary_query* query,
                                              cubinary_kernel** kernel);
CUBINARY_API void cubinary_kernel_free(cubinary_kernel* kernel); /* NULL is allowed */

/* ---- prepare and launch
 * -------------------------------------------------------------------------- */

/* Fetches, verifies and loads the code into the current CUDA context. After it, launch neither
 * allocates, locks nor loads, and may be captured in a CUDA graph. Calling it again does nothing.
 */
CUBINARY_API cubinary_status cubinary_prepare(cubinary_kernel* kernel);

/* Bytes of device memory a launch needs beside its arguments, aligned to 256; often 0. */
CUBINARY_API size_t cubinary_workspace_size(const cubinary_kernel* kernel);

/* One argument: where its value lies and how many bytes it has. For a pointer argument the value is
 * the device pointer itself (8 bytes), as with cuLaunchKernel. `data` NULL: a scalar's default, or
 * a null pointer where the kernel allows it. */
typedef struct cubinary_arg {
  const void* data;
  size_t size;
} cubinary_arg;

/* An argument from a variable: `cubinary_arg args[] = {CUBINARY_ARG(y), CUBINARY_ARG(x)};` */
#ifdef __cplusplus
#define CUBINARY_ARG(variable) (cubinary_arg{&(variable), sizeof(variable)})
#else
#define CUBINARY_ARG(variable) ((cubinary_arg){&(variable), sizeof(variable)})
#endif

/* Launches on `stream` (NULL: the default stream). `args` in the kernel's order, all of them; when
 * cubinary_workspace_size is not 0, the workspace pointer follows as one more argument.
 * Asynchronous, as every launch is. An empty problem succeeds without a launch. Refused before the
 * driver is touched: a wrong number or size of arguments, a null or misaligned pointer; inside a
 * stream capture, a kernel that is not prepared; a kernel of another CUDA context than the current
 * one. */
CUBINARY_API cubinary_status cubinary_launch(cubinary_kernel* kernel, const cubinary_arg* args,
                                             size_t n, struct CUstream_st* stream);

/* ---- what was chosen
 * ----------------------------------------------------------------------------- */

/* Strings live as long as the kernel. */
typedef struct cubinary_kernel_info {
  size_t size;
  const char* name;
  const char* interface_digest;
  const char* release;
  const char* target;       /* "sm_90" */
  const char* device_class; /* of the device the kernel was resolved for */
  const char* tuned_on;     /* device class the config won on; "" for a default */
  const char* config;       /* "VEC=4 WARPS=8" */
  const char* match;        /* exact, nearest-shape, other-class, default */
  const char* how;          /* one sentence */
  const char* artifact;     /* digest of the code, "sha256:…" */
  double time_us;           /* median when tuned; 0: not measured */
  size_t argument_count;    /* without the workspace */
  size_t workspace_size;
} cubinary_kernel_info;

typedef struct cubinary_argument_info {
  size_t size;
  const char* name;
  const char* kind;      /* in, out, inout, scalar, bytes, handle */
  const char* dtype;     /* "" for bytes and handle */
  size_t value_size;     /* of cubinary_arg.data */
  uint64_t buffer_bytes; /* pointers: what must lie behind it */
  int64_t alignment;     /* pointers: what launch checks */
  int nullable;
  int has_default;
} cubinary_argument_info;

CUBINARY_API cubinary_status cubinary_kernel_get_info(const cubinary_kernel* kernel,
                                                      cubinary_kernel_info* info);
CUBINARY_API cubinary_status cubinary_kernel_get_argument(const cubinary_kernel* kernel,
                                                          size_t index,
                                                          cubinary_argument_info* info);

/* ---- errors
 * -------------------------------------------------------------------------------------- */

/* Lays what a release holds of Triton down as a cache in `folder`, every byte verified, as
 * `cubinary-fetch hydrate` does; what is there already and right is kept. `source` as in
 * cubinary_options; `keys` are paths of public keys with ':' between them; `device_class` chooses
 * whose autotune results Triton sees, and may be NULL. A failure's message is written to `message`,
 * cut to `message_size` bytes; it may be NULL. Needs no context, no driver and no compiler. */
CUBINARY_API cubinary_status cubinary_triton_hydrate(const char* source, const char* keys,
                                                     const char* folder, const char* device_class,
                                                     char* message, size_t message_size);

/* What went wrong in the calling thread's last failed call; "" before any. Valid until the next
 * failed call on this thread. `context` may be NULL and is there for the reader. */
CUBINARY_API const char* cubinary_error_message(const cubinary_context* context);
/* The stable word of a status ("no_match"), "ok" for 0. */
CUBINARY_API const char* cubinary_status_name(cubinary_status status);
/* "0.1.0" */
CUBINARY_API const char* cubinary_version(void);

#ifdef __cplusplus
}
#endif
#endif /* CUBINARY_H */
