// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tensor_core.cuh"

// Tiles of row-major matrices in shared memory, laid out for ldmatrix.

/// Where the 16-byte chunks of an operand's tile lie in shared memory: rows of BK elements, each
/// row BK / 8 chunks. A chunk's place is XORed with its row, so that the eight rows one ldmatrix
/// reads lie in different banks. Chunk c ^ d lies at chunk_offset(row, c) ^ 16 * d.
template <int BK>
__device__ inline unsigned chunk_offset(int row, int chunk) {
  constexpr int chunks = BK / 8;
  constexpr int rows_a_line =
      chunks < 8 ? 8 / chunks : 1;  // rows that share the 128 bytes of all banks
  constexpr int places = chunks < 8 ? chunks : 8;
  const int swizzle = row / rows_a_line % places;
  return static_cast<unsigned>((row * chunks + (chunk ^ swizzle)) * 16);
}

/// Copies ROWS rows of D elements, `stride` elements apart, to shared memory; rows from `rows` on
/// become zeros. ALIGN 8 copies asynchronously and needs 16-byte rows; ALIGN 1 takes any and is
/// done at return. By the block's THREADS threads.
template <typename T, int ROWS, int D, int THREADS, int ALIGN>
__device__ inline void copy_rows(unsigned to, const T* from, long long stride, long long rows) {
  constexpr int chunks = D / 8;
  static_assert(THREADS % chunks == 0, "a pass must be whole rows");
  constexpr int rows_a_pass = THREADS / chunks;
  constexpr int passes = (ROWS + rows_a_pass - 1) / rows_a_pass;
  const int first = static_cast<int>(threadIdx.x) / chunks;
  const int chunk = static_cast<int>(threadIdx.x) % chunks;
  const T* source = from + first * stride + chunk * 8;
#pragma unroll
  for (int pass = 0; pass < passes; ++pass) {
    const int row = first + pass * rows_a_pass;
    if (ROWS % rows_a_pass != 0 && row >= ROWS) {
      break;
    }
    const unsigned at = rows_a_pass % 8 == 0 ? to + chunk_offset<D>(first, chunk) +
                                                   pass * rows_a_pass * D * sizeof(T)
                                             : to + chunk_offset<D>(row, chunk);
    if constexpr (ALIGN == 8) {
      copy_async<16>(at, source, row < rows);
    } else {
      unsigned short value[8] = {};
      if (row < rows) {
#pragma unroll
        for (int i = 0; i < 8; ++i) {
          value[i] = reinterpret_cast<const unsigned short*>(source)[i];
        }
      }
      unsigned word[4];
      memcpy(word, value, sizeof word);
      asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(at), "r"(word[0]), "r"(word[1]),
                   "r"(word[2]), "r"(word[3])
                   : "memory");
    }
    source += rows_a_pass * stride;
  }
}

/// Copies one operand's share of a block's tile, ROWS x BK elements at (row0, k) of a row-major
/// matrix whose rows lie `stride` elements apart, to shared memory, by THREADS threads with ALIGN
/// (2, 4 or 8) elements a load. Rows from `rows` on and elements from `k_size` on become zeros.
/// `start` begins a copy that is there after the copies were waited for and `finish` was called.
template <typename T, int ROWS, int BK, int THREADS, int ALIGN>
struct Operand {
  static constexpr int k_chunks = BK / 8;
  static constexpr int k_rows_a_pass = THREADS / k_chunks;
  static constexpr int k_passes = (ROWS + k_rows_a_pass - 1) / k_rows_a_pass;
  static_assert(THREADS % k_chunks == 0, "a pass must be whole rows");
  // The swizzle of a thread's rows must not change from pass to pass.
  static_assert(k_rows_a_pass % 8 == 0 || k_passes == 1, "passes must be eight rows");

  const T* source;  ///< this thread's first chunk of the tile at k = 0
  long long k_size;
  long long row_step;  ///< elements between the rows of two passes
  int rows_left;       ///< rows of the matrix from this thread's first one on
  int column;
  unsigned offset;  ///< of this thread's first chunk in the tile

  __device__ Operand(const T* matrix, long long rows, long long k_size_, long long row0,
                     long long stride)
      : k_size(k_size_), row_step(k_rows_a_pass * stride) {
    const int row = static_cast<int>(threadIdx.x) / k_chunks;
    column = static_cast<int>(threadIdx.x) % k_chunks * 8;
    offset = chunk_offset<BK>(row, column / 8);
    source = matrix + (row0 + row) * stride + column;
    const long long left = rows - row0;
    rows_left = static_cast<int>(left < ROWS ? left : ROWS) - row;
  }

  __device__ void start(unsigned to, long long k) {
    const long long k_left = k_size - k - column;
    const T* from = source + k;
#pragma unroll
    for (int pass = 0; pass < k_passes; ++pass) {
      if (ROWS % k_rows_a_pass != 0 && pass == k_passes - 1 &&
          static_cast<int>(threadIdx.x) / k_chunks + pass * k_rows_a_pass >= ROWS) {
        break;
      }
      const bool inside = pass * k_rows_a_pass < rows_left;
      const unsigned at = to + offset + pass * k_rows_a_pass * BK * sizeof(T);
#pragma unroll
      for (int i = 0; i < 8; i += ALIGN) {
        copy_async<ALIGN* static_cast<int>(sizeof(T))>(
            at + i * sizeof(T), from + pass * row_step + i, inside && i < k_left);
      }
    }
  }

  __device__ void finish(unsigned) {}
};

/// Single elements cannot be copied asynchronously: they wait in registers while the tensor cores
/// work. A warp loads a row, so that its loads and stores are whole.
template <typename T, int ROWS, int BK, int THREADS>
struct Operand<T, ROWS, BK, THREADS, 1> {
  static constexpr int k_rows_a_pass = THREADS / 32;
  static constexpr int k_passes = ROWS / k_rows_a_pass;
  static_assert(BK == 32 && ROWS % k_rows_a_pass == 0, "a row must be a warp's, passes whole");

  const T* source;  ///< this lane's element of the warp's first row at k = 0
  long long k_size;
  long long stride;
  int rows_left;
  int row;
  int column;
  unsigned short held[k_passes];

  __device__ Operand(const T* matrix, long long rows, long long k_size_, long long row0,
                     long long stride_)
      : k_size(k_size_), stride(stride_) {
    row = static_cast<int>(threadIdx.x) / 32;
    column = static_cast<int>(threadIdx.x) % 32;
    source = matrix + (row0 + row) * stride + column;
    const long long left = rows - row0;
    rows_left = static_cast<int>(left < ROWS ? left : ROWS) - row;
  }

  __device__ void start(unsigned, long long k) {
    const int limit = k + column < k_size ? rows_left : 0;
    const unsigned short* from = reinterpret_cast<const unsigned short*>(source + k);
#pragma unroll
    for (int pass = 0; pass < k_passes; ++pass) {
      held[pass] = pass * k_rows_a_pass < limit ? *from : 0U;
      from += k_rows_a_pass * stride;
    }
  }

  __device__ void finish(unsigned to) {
#pragma unroll
    for (int pass = 0; pass < k_passes; ++pass) {
      const unsigned at =
          to + chunk_offset<BK>(row + pass * k_rows_a_pass, column / 8) + column % 8 * sizeof(T);
      asm volatile("st.shared.u16 [%0], %1;" ::"r"(at), "h"(held[pass]) : "memory");
    }
  }
};
