// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

// Products by a warpgroup (wgmma, sm_90a; descriptors and layouts as in the PTX ISA's chapter on
// it): four warps of a block, the first a multiple of four, multiply 64 rows. Products run by
// themselves: after warpgroup_fence some are started, warpgroup_commit closes the group and
// warpgroup_wait waits for it; until then nobody may touch their registers, nor write what they
// read in shared memory.

/// Before products are started on registers that anything else has used.
__device__ inline void warpgroup_fence() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

__device__ inline void warpgroup_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

/// Waits until at most PENDING of the newest groups are unfinished.
template <int PENDING>
__device__ inline void warpgroup_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
}

/// After the wait for what made it: keeps the compiler from using a result before.
template <int N>
__device__ inline void warpgroup_result(float (&d)[N]) {
#pragma unroll
  for (int i = 0; i < N; ++i) {
    asm volatile("" : "+f"(d[i])::"memory");
  }
}

/// Lets other warpgroups have this one's registers beyond COUNT a thread, or takes so many; all
/// four warps together, COUNT a multiple of 8.
template <int COUNT>
__device__ inline void give_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(COUNT));
}
template <int COUNT>
__device__ inline void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(COUNT));
}

/// Where 16-byte chunk `chunk` of row `row` lies in a tile of ROWS rows as the 128-byte swizzle has
/// it: slabs of 64 elements a row, a chunk's place in its row XORed with the row.
template <int ROWS>
__device__ inline unsigned slab_offset(int row, int chunk) {
  return static_cast<unsigned>((chunk / 8 * ROWS + row) * 128 + ((chunk ^ row) & 7) * 16);
}

/// An operand in such slabs in shared memory, each 1024-byte aligned. K-major, a product's 16 k are
/// 32 bytes of each row; MN-major, where a row is a k, 2048 bytes, and `slab` bytes lie between the
/// slabs that one product reads.
struct SlabOperand {
  unsigned low;

  __device__ explicit SlabOperand(unsigned address, unsigned slab = 16)
      : low(address >> 4 | slab >> 4 << 16) {}
  /// The same, so many bytes on.
  __device__ SlabOperand operator+(unsigned bytes) const {
    SlabOperand moved = *this;
    moved.low += bytes >> 4;
    return moved;
  }
  /// With eight rows in 1024 bytes, and the swizzle.
  __device__ unsigned long long descriptor() const { return 1ULL << 62 | 1024ULL >> 4 << 32 | low; }
};

// The instruction names every register of d: lists of the first 8, 16, … 128.
#define WGMMA_NAMES_1 "%0, %1, %2, %3, %4, %5, %6, %7"
#define WGMMA_NAMES_2 WGMMA_NAMES_1 ", %8, %9, %10, %11, %12, %13, %14, %15"
#define WGMMA_NAMES_3 WGMMA_NAMES_2 ", %16, %17, %18, %19, %20, %21, %22, %23"
#define WGMMA_NAMES_4 WGMMA_NAMES_3 ", %24, %25, %26, %27, %28, %29, %30, %31"
#define WGMMA_NAMES_5 WGMMA_NAMES_4 ", %32, %33, %34, %35, %36, %37, %38, %39"
#define WGMMA_NAMES_6 WGMMA_NAMES_5 ", %40, %41, %42, %43, %44, %45, %46, %47"
#define WGMMA_NAMES_7 WGMMA_NAMES_6 ", %48, %49, %50, %51, %52, %53, %54, %55"
#define WGMMA_NAMES_8 WGMMA_NAMES_7 ", %56, %57, %58, %59, %60, %61, %62, %63"
#define WGMMA_NAMES_9 WGMMA_NAMES_8 ", %64, %65, %66, %67, %68, %69, %70, %71"
#define WGMMA_NAMES_10 WGMMA_NAMES_9 ", %72, %73, %74, %75, %76, %77, %78, %79"
#define WGMMA_NAMES_11 WGMMA_NAMES_10 ", %80, %81, %82, %83, %84, %85, %86, %87"
#define WGMMA_NAMES_12 WGMMA_NAMES_11 ", %88, %89, %90, %91, %92, %93, %94, %95"
#define WGMMA_NAMES_13 WGMMA_NAMES_12 ", %96, %97, %98, %99, %100, %101, %102, %103"
#define WGMMA_NAMES_14 WGMMA_NAMES_13 ", %104, %105, %106, %107, %108, %109, %110, %111"
#define WGMMA_NAMES_15 WGMMA_NAMES_14 ", %112, %113, %114, %115, %116, %117, %118, %119"
#define WGMMA_NAMES_16 WGMMA_NAMES_15 ", %120, %121, %122, %123, %124, %125, %126, %127"
#define WGMMA_EIGHT(i)                                                                        \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), \
      "+f"(d[i + 6]), "+f"(d[i + 7])
#define WGMMA_REGISTERS_1 WGMMA_EIGHT(0)
#define WGMMA_REGISTERS_2 WGMMA_REGISTERS_1, WGMMA_EIGHT(8)
#define WGMMA_REGISTERS_3 WGMMA_REGISTERS_2, WGMMA_EIGHT(16)
#define WGMMA_REGISTERS_4 WGMMA_REGISTERS_3, WGMMA_EIGHT(24)
#define WGMMA_REGISTERS_5 WGMMA_REGISTERS_4, WGMMA_EIGHT(32)
#define WGMMA_REGISTERS_6 WGMMA_REGISTERS_5, WGMMA_EIGHT(40)
#define WGMMA_REGISTERS_7 WGMMA_REGISTERS_6, WGMMA_EIGHT(48)
#define WGMMA_REGISTERS_8 WGMMA_REGISTERS_7, WGMMA_EIGHT(56)
#define WGMMA_REGISTERS_9 WGMMA_REGISTERS_8, WGMMA_EIGHT(64)
#define WGMMA_REGISTERS_10 WGMMA_REGISTERS_9, WGMMA_EIGHT(72)
#define WGMMA_REGISTERS_11 WGMMA_REGISTERS_10, WGMMA_EIGHT(80)
#define WGMMA_REGISTERS_12 WGMMA_REGISTERS_11, WGMMA_EIGHT(88)
#define WGMMA_REGISTERS_13 WGMMA_REGISTERS_12, WGMMA_EIGHT(96)
#define WGMMA_REGISTERS_14 WGMMA_REGISTERS_13, WGMMA_EIGHT(104)
#define WGMMA_REGISTERS_15 WGMMA_REGISTERS_14, WGMMA_EIGHT(112)
#define WGMMA_REGISTERS_16 WGMMA_REGISTERS_15, WGMMA_EIGHT(120)

template <typename T, int N>
struct WarpgroupProduct;

/// N = 16 * EIGHTS columns; the operands after d's registers are O0 and so on.
#define WGMMA_PRODUCT(T, TYPE, N, EIGHTS, O0, O1, O2, O3, O4, O5, O6)                             \
  template <>                                                                                     \
  struct WarpgroupProduct<T, N> {                                                                 \
    static __device__ void run(float (&d)[N / 2], unsigned long long a, unsigned long long b,     \
                               bool add) {                                                        \
      asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, %" #O2                                   \
                   ", 0;\nwgmma.mma_async.sync.aligned.m64n" #N "k16.f32." TYPE "." TYPE          \
                   " {" WGMMA_NAMES_##EIGHTS "}, %" #O0 ", %" #O1 ", add, 1, 1, 0, 0;\n}"         \
                   : WGMMA_REGISTERS_##EIGHTS                                                     \
                   : "l"(a), "l"(b), "r"(static_cast<int>(add)));                                 \
    }                                                                                             \
    template <bool MN_MAJOR>                                                                      \
    static __device__ void run(float (&d)[N / 2], const unsigned (&a)[4], unsigned long long b,   \
                               bool add) {                                                        \
      asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, %" #O5                                   \
                   ", 0;\nwgmma.mma_async.sync.aligned.m64n" #N "k16.f32." TYPE "." TYPE          \
                   " {" WGMMA_NAMES_##EIGHTS "}, {%" #O0 ", %" #O1 ", %" #O2 ", %" #O3 "}, %" #O4 \
                                             ", add, 1, 1, %" #O6 ";\n}"                          \
                   : WGMMA_REGISTERS_##EIGHTS                                                     \
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b),                          \
                     "r"(static_cast<int>(add)), "n"(MN_MAJOR ? 1 : 0));                          \
    }                                                                                             \
  };
#define WGMMA_PRODUCTS(...)                 \
  WGMMA_PRODUCT(__half, "f16", __VA_ARGS__) \
  WGMMA_PRODUCT(__nv_bfloat16, "bf16", __VA_ARGS__)

WGMMA_PRODUCTS(64, 4, 32, 33, 34, 35, 36, 37, 38)
WGMMA_PRODUCTS(80, 5, 40, 41, 42, 43, 44, 45, 46)
WGMMA_PRODUCTS(128, 8, 64, 65, 66, 67, 68, 69, 70)
WGMMA_PRODUCTS(176, 11, 88, 89, 90, 91, 92, 93, 94)
WGMMA_PRODUCTS(192, 12, 96, 97, 98, 99, 100, 101, 102)
WGMMA_PRODUCTS(256, 16, 128, 129, 130, 131, 132, 133, 134)

/// d[64, N] += a[64, 16] * b[16, N], or = without `add`, accumulated in f32. Thread t holds of d
/// rows t / 32 * 16 + t % 32 / 4 and 8 on, columns 8 j + t % 4 * 2 and 1 on: elements 4 j, 4 j + 1
/// and 4 j + 2, 4 j + 3. `a` is K-major in shared memory or, as pairs packed from a d's elements 8
/// i to 8 i + 7, in registers.
template <typename T, int N>
__device__ inline void warpgroup_multiply(float (&d)[N / 2], SlabOperand a, SlabOperand b,
                                          bool add = true) {
  WarpgroupProduct<T, N>::run(d, a.descriptor(), b.descriptor(), add);
}
template <typename T, int N, bool MN_MAJOR>
__device__ inline void warpgroup_multiply(float (&d)[N / 2], const unsigned (&a)[4], SlabOperand b,
                                          bool add = true) {
  WarpgroupProduct<T, N>::template run<MN_MAJOR>(d, a, b.descriptor(), add);
}
