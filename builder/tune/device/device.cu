// SPDX-License-Identifier: Apache-2.0
// What the tuner itself runs on a device: it makes inputs, compares outputs, holds a stream back, empties the
// L2 cache and measures peaks. Compiled into device.ptx by scripts/device_ptx; a driver of CUDA 12.0 loads it.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

using u8 = unsigned char;
using u32 = unsigned int;
using u64 = unsigned long long;

namespace {

/// In the order of the dtype table of core/model.
enum class DType : u32 { f64, f32, f16, bf16, f8_e4m3, f8_e5m2, i64, i32, i8, u8, boolean };
enum class Fill : u32 { zero, constant, uniform, normal, range, index };

__device__ u64 global_index() {
  return blockIdx.x * u64{blockDim.x} + threadIdx.x;
}
__device__ u64 global_size() {
  return gridDim.x * u64{blockDim.x};
}

__device__ u64 mix(u64 x) {  // the finaliser of SplitMix64
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

/// In (0, 1), 24 bits.
__device__ float unit(u32 bits) {
  return (static_cast<float>(bits >> 8) + 0.5F) * 0x1p-24F;
}

__device__ double load(const void* data, u64 i, DType type) {
  switch (type) {
    case DType::f64:
      return static_cast<const double*>(data)[i];
    case DType::f32:
      return static_cast<const float*>(data)[i];
    case DType::f16:
      return __half2float(static_cast<const __half*>(data)[i]);
    case DType::bf16:
      return __bfloat162float(static_cast<const __nv_bfloat16*>(data)[i]);
    case DType::f8_e4m3:
      return static_cast<float>(static_cast<const __nv_fp8_e4m3*>(data)[i]);
    case DType::f8_e5m2:
      return static_cast<float>(static_cast<const __nv_fp8_e5m2*>(data)[i]);
    case DType::i64:
      return static_cast<double>(static_cast<const long long*>(data)[i]);
    case DType::i32:
      return static_cast<const int*>(data)[i];
    case DType::i8:
      return static_cast<const signed char*>(data)[i];
    case DType::u8:
    case DType::boolean:
      return static_cast<const u8*>(data)[i];
  }
  return 0;
}

__device__ void store(void* data, u64 i, DType type, double value) {
  switch (type) {
    case DType::f64:
      static_cast<double*>(data)[i] = value;
      break;
    case DType::f32:
      static_cast<float*>(data)[i] = static_cast<float>(value);
      break;
    case DType::f16:
      static_cast<__half*>(data)[i] = __float2half_rn(static_cast<float>(value));
      break;
    case DType::bf16:
      static_cast<__nv_bfloat16*>(data)[i] = __float2bfloat16_rn(static_cast<float>(value));
      break;
    case DType::f8_e4m3:
      static_cast<__nv_fp8_e4m3*>(data)[i] = __nv_fp8_e4m3(static_cast<float>(value));
      break;
    case DType::f8_e5m2:
      static_cast<__nv_fp8_e5m2*>(data)[i] = __nv_fp8_e5m2(static_cast<float>(value));
      break;
    case DType::i64:
      static_cast<long long*>(data)[i] = __double2ll_rd(value);
      break;
    case DType::i32:
      static_cast<int*>(data)[i] = __double2int_rd(value);
      break;
    case DType::i8:
      static_cast<signed char*>(data)[i] = static_cast<signed char>(__double2int_rd(value));
      break;
    case DType::u8:
      static_cast<u8*>(data)[i] = static_cast<u8>(__double2int_rd(value));
      break;
    case DType::boolean:
      static_cast<u8*>(data)[i] = value >= 0.5 ? 1 : 0;
      break;
  }
}

__device__ u64 global_time_ns() {
  u64 now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

}  // namespace

/// Element i depends on the seed and i alone. `a` and `b`: mean and deviation, low and high, the constant, the
/// bound of an index.
extern "C" __global__ void fill(void* data, u64 count, DType type, Fill kind, double a, double b, u64 seed) {
  for (u64 i = global_index(); i < count; i += global_size()) {
    const u64 bits = mix(seed ^ mix(i));
    const u32 low = static_cast<u32>(bits);
    const u32 high = static_cast<u32>(bits >> 32);
    double value = 0;
    switch (kind) {
      case Fill::zero:
        break;
      case Fill::constant:
        value = a;
        break;
      case Fill::uniform:
        value = a + (b - a) * unit(low);
        break;
      case Fill::normal:
        value = a + b * (sqrtf(-2.0F * __logf(unit(low))) * __cosf(6.28318530718F * unit(high)));
        break;
      case Fill::range:
        value = static_cast<double>(i);
        break;
      case Fill::index:
        value = static_cast<double>(bits % static_cast<u64>(a));
        break;
    }
    store(data, i, type, value);
  }
}

struct Comparison {
  u64 wrong;     // elements beyond the tolerance
  u64 first;     // the first of them
  u64 worst;     // bits of the largest error in tolerances, a float64 ≥ 0
};

/// An element is right when |out - ref| ≤ absolute + relative * |ref|, both are the same infinity, or both are
/// no number.
extern "C" __global__ void compare(const void* out, const void* ref, u64 count, DType type, double relative,
                                   double absolute, Comparison* result) {
  const double infinity = __longlong_as_double(0x7ff0000000000000LL);
  for (u64 i = global_index(); i < count; i += global_size()) {
    double error = 0;
    if (type == DType::i64 &&
        static_cast<const long long*>(out)[i] == static_cast<const long long*>(ref)[i]) {
      continue;
    }
    const double x = load(out, i, type);
    const double y = load(ref, i, type);
    if (isnan(x) || isnan(y)) {
      error = isnan(x) && isnan(y) ? 0 : infinity;
    } else if (x != y || type == DType::i64) {
      const double allowed = absolute + relative * fabs(y);
      error = isinf(x) || isinf(y) || allowed == 0 ? infinity : fabs(x - y) / allowed;
    }
    if (error > 0) {
      atomicMax(&result->worst, static_cast<u64>(__double_as_longlong(error)));
    }
    if (error > 1) {
      atomicAdd(&result->wrong, 1ULL);
      atomicMin(&result->first, i);
    }
  }
}

/// Adds to *count how many bytes are not `pattern`.
extern "C" __global__ void count_changed(const u8* data, u64 bytes, u32 pattern, u64* count) {
  u64 changed = 0;
  for (u64 i = global_index(); i < bytes; i += global_size()) {
    changed += data[i] != pattern ? 1 : 0;
  }
  if (changed != 0) {
    atomicAdd(count, changed);
  }
}

/// Adds a digest of the bytes to *sum: equal bytes give equal sums. `data` is aligned to 16.
extern "C" __global__ void digest(const u8* data, u64 bytes, u64* sum) {
  u64 total = 0;
  const u64 words = bytes / 16;
  const ulonglong2* wide = reinterpret_cast<const ulonglong2*>(data);
  for (u64 i = global_index(); i < words; i += global_size()) {
    const ulonglong2 word = wide[i];
    total += mix(word.x ^ mix(2 * i)) + mix(word.y ^ mix(2 * i + 1));
  }
  for (u64 i = words * 16 + global_index(); i < bytes; i += global_size()) {
    total += mix(data[i] ^ mix(~i));
  }
  for (int offset = 16; offset > 0; offset /= 2) {
    total += __shfl_xor_sync(~0U, total, offset);
  }
  if ((threadIdx.x & 31U) == 0) {
    atomicAdd(sum, total);
  }
}

/// Holds a stream until *release is not 0, but never longer than `limit_ns`; then *gave_up becomes 1.
extern "C" __global__ void hold(const volatile u32* release, u64 limit_ns, u32* gave_up) {
  const u64 begin = global_time_ns();
  while (*release == 0) {
    if (global_time_ns() - begin > limit_ns) {
      *gave_up = 1;
      return;
    }
  }
}

/// Leaves the clock and the time of SM 0 in `out`.
extern "C" __global__ void read_clock(long long* out) {
  u32 sm;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
  if (sm == 0 && threadIdx.x == 0) {
    const u64 before = global_time_ns();
    u64 now = before;
    while (now == before) {  // an edge of the timer: it ticks slower than the clock
      now = global_time_ns();
    }
    out[0] = clock64();
    out[1] = static_cast<long long>(now);
  }
}

/// Reads `words` 16-byte words, `rounds` times over; writes nothing (`never` is false).
extern "C" __global__ void read_words(const uint4* data, u64 words, u32 rounds, u32* sink, u32 never) {
  u32 seen = 0;
  for (u32 round = 0; round < rounds; ++round) {
#pragma unroll 8
    for (u64 i = global_index(); i < words; i += global_size()) {
      uint4 word;
      asm volatile("ld.global.cg.v4.u32 {%0, %1, %2, %3}, [%4];"
                   : "=r"(word.x), "=r"(word.y), "=r"(word.z), "=r"(word.w)
                   : "l"(data + i));
      seen ^= word.x ^ word.y ^ word.z ^ word.w;
    }
  }
  if (never != 0) {
    sink[global_index()] = seen;
  }
}

extern "C" __global__ void copy_words(uint4* to, const uint4* from, u64 words) {
#pragma unroll 4
  for (u64 i = global_index(); i < words; i += global_size()) {
    to[i] = from[i];
  }
}

/// 8 independent chains of 64 multiply-adds a round and thread: 1024 flops.
extern "C" __global__ void multiply_add(float* sink, u32 rounds, u32 never) {
  float sum[8];
  const float x = 1.0F + 0x1p-20F * static_cast<float>(threadIdx.x);
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    sum[i] = static_cast<float>(i);
  }
  for (u32 round = 0; round < rounds; ++round) {
#pragma unroll
    for (int j = 0; j < 64; ++j) {
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        sum[i] = fmaf(sum[i], x, 0.5F);
      }
    }
  }
  if (never != 0) {
    sink[global_index()] = sum[0] + sum[1] + sum[2] + sum[3] + sum[4] + sum[5] + sum[6] + sum[7];
  }
}
