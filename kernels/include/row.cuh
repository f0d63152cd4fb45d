// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "vector.cuh"

// Rows of a matrix as 16-byte packs. With EDGES a row may start at any element and have any length: its body is
// the whole packs of the memory it lies in, its ends are the fewer than a pack's elements before and behind
// them. Without, rows are whole packs.

/// Elements of T in a pack of 16 bytes.
template <typename T>
inline constexpr int k_pack = 16 / static_cast<int>(sizeof(T));

template <typename T>
using RowPack = Pack<T, k_pack<T>>;

/// The same pack as a value the compiler knows nothing of. Without it floats converted in one pass over kept
/// packs stay in registers for the next: twice the registers for 16-bit types, to save a shift.
template <typename T>
__device__ inline RowPack<T> fresh(const RowPack<T>& pack) {
  if constexpr (sizeof(T) == 4) {
    return pack;
  } else {
    uint4 bits;
    memcpy(&bits, &pack, 16);
    asm volatile("" : "+r"(bits.x), "+r"(bits.y), "+r"(bits.z), "+r"(bits.w));
    RowPack<T> same;
    memcpy(&same, &bits, 16);
    return same;
  }
}

/// Threads a block may have, with so many packs a thread and much code around them or not: what registers allow.
__host__ __device__ constexpr int row_threads(int packs, bool much) {
  return packs >= 8 ? (much ? 384 : 512) : packs >= 2 || much ? 512 : 1024;
}

/// Elements between the last 16-byte boundary and `pointer`.
template <typename T>
__device__ inline int past_boundary(const T* pointer) {
  return static_cast<int>(reinterpret_cast<size_t>(pointer) / sizeof(T)) & (k_pack<T> - 1);
}

/// Elements before the first 16-byte boundary in a row of n at `row`.
template <typename T>
__device__ inline int head_of(const T* row, long long n) {
  const int head = (k_pack<T> - past_boundary(row)) & (k_pack<T> - 1);
  return head < n ? head : static_cast<int>(n);
}

/// Whether there is an element `at` among n.
__device__ inline bool inside(long long at, long long n) {
  return static_cast<unsigned long long>(at) < static_cast<unsigned long long>(n);
}

/// The pack of two neighbours that starts `by` elements into the first.
template <typename T>
__device__ inline RowPack<T> joined(const RowPack<T>& low, const RowPack<T>& high, int by) {
  constexpr int a_word = 4 / static_cast<int>(sizeof(T));
  unsigned words[8];
  memcpy(words, &low, 16);
  memcpy(words + 4, &high, 16);
  const int skip = by / a_word;
#pragma unroll
  for (int i = 0; i < 6; ++i) {
    words[i] = (skip & 2) != 0 ? words[i + 2] : words[i];
  }
#pragma unroll
  for (int i = 0; i < 5; ++i) {
    words[i] = (skip & 1) != 0 ? words[i + 1] : words[i];
  }
  if constexpr (a_word == 2) {
    const int bits = (by & 1) * 16;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      words[i] = __funnelshift_r(words[i], words[i + 1], bits);
    }
  }
  RowPack<T> pack;
  memcpy(&pack, words, 16);
  return pack;
}

/// A row that is read at any element's place, k_pack elements at a time, all of them inside it: `load` for all
/// packs first, so that the loads are in flight together, then `pack`. With EDGES that is two aligned loads, which
/// never leave the row, shifted; without, one.
template <bool EDGES, typename T>
class NearRow {
 public:
  /// Packs to load ahead of their use: more would cost registers, and aligned loads need no help.
  static constexpr int k_ahead = EDGES ? 2 : 1;

  struct Loaded {
    RowPack<T> low;
    RowPack<T> high;
  };

  __device__ NearRow(const T* row, long long n)
      : m_row(row), m_n(n), m_safe(EDGES && n >= 2 * N ? head_of(row, n) : -1) {}

  __device__ Loaded load(long long at) const {
    Loaded loaded;
    if constexpr (EDGES) {
      // Where one of the two would leave the row, `pack` reads element by element.
      const int shift = past_boundary(m_row + at);
      const long long start = at - shift;
      if (m_safe >= 0) {
        loaded.low = load_pack<N>(m_row + (start >= 0 ? start : m_safe), 0);
        if (shift != 0) {
          loaded.high = load_pack<N>(m_row + (start + 2 * N <= m_n ? start + N : m_safe), 0);
        }
      }
    } else {
      loaded.low = load_pack<N>(m_row + at, 0);
    }
    return loaded;
  }

  __device__ RowPack<T> pack(const Loaded& loaded, long long at) const {
    if constexpr (EDGES) {
      const int shift = past_boundary(m_row + at);
      if (m_safe < 0 || (shift != 0 && (at < shift || at - shift + 2 * N > m_n))) {
        return load_any<N>(m_row + at);
      }
      return joined<T>(loaded.low, loaded.high, shift);
    } else {
      return loaded.low;
    }
  }

  __device__ RowPack<T> read(long long at) const {
    return pack(load(at), at);
  }

 private:
  static constexpr int N = k_pack<T>;
  const T* m_row;
  long long m_n;
  int m_safe;  ///< where a whole pack is, or -1
};

/// Stores a pack at any place with EDGES, else at one aligned to it.
template <bool EDGES, typename T, int N>
__device__ inline void store_near(T* to, const Pack<T, N>& pack) {
  if constexpr (EDGES) {
    store_any(to, pack);
  } else {
    store_pack(to, 0, pack);
  }
}

/// The ROWS neighbouring rows that a thread works on, and its share of them.
///
/// blockDim.x threads share a row, blockDim.y such groups are in a block, and each has ROWS rows. A thread's
/// first KEEP packs of each row are `kept`: the caller holds them in registers; `rest` are those
/// beyond. Rows past the end are empty, so that every thread reaches every barrier.
template <typename T, int KEEP, int ROWS, bool EDGES>
struct RowTile {
  long long first;        ///< row
  long long packs[ROWS];  ///< in each row's body
  int head[ROWS];         ///< elements before the body
  int ends[ROWS];         ///< elements before and behind it
  bool keep = true;       ///< false: all packs are `rest`

  /// Rows first_row … of x, contiguous [rows, cols].
  __device__ RowTile(const T* x, long long first_row, long long rows, long long cols)
      : first(first_row) {
#pragma unroll
    for (int i = 0; i < ROWS; ++i) {
      const bool there = first + i < rows;
      head[i] = EDGES && there ? head_of(x + (first + i) * cols, cols) : 0;
      packs[i] = there ? (cols - head[i]) / k_pack<T> : 0;
      ends[i] = EDGES && there ? static_cast<int>(cols - packs[i] * k_pack<T>) : 0;
    }
  }

  /// use(i, k, at): pack k of row first + i, which starts at the row's element `at`.
  template <typename Use>
  __device__ void kept(Use use) const {
#pragma unroll
    for (int i = 0; i < ROWS; ++i) {
#pragma unroll
      for (int k = 0; k < KEEP; ++k) {
        const unsigned pack = threadIdx.x + k * blockDim.x;
        if (keep && pack < packs[i]) {
          use(i, k, static_cast<long long>(pack) * k_pack<T> + head[i]);
        }
      }
    }
  }

  /// PART packs at a time: ahead(i, slot, at) for each, slot < PART, then use(i, k, slot, at) for each.
  template <int PART, typename Ahead, typename Use>
  __device__ void kept_in_parts(Ahead ahead, Use use) const {
#pragma unroll
    for (int part = 0; part < KEEP; part += PART) {
      kept([&](int i, int k, long long at) {
        if (k >= part && k < part + PART) {
          ahead(i, k - part, at);
        }
      });
      kept([&](int i, int k, long long at) {
        if (k >= part && k < part + PART) {
          use(i, k, k - part, at);
        }
      });
    }
  }

  /// use(i, at); UNROLL packs together.
  template <int UNROLL, typename Use>
  __device__ void rest(Use use) const {
#pragma unroll
    for (int i = 0; i < ROWS; ++i) {
#pragma unroll UNROLL
      for (long long pack = threadIdx.x + (keep ? KEEP * blockDim.x : 0); pack < packs[i];
           pack += blockDim.x) {
        use(i, pack * k_pack<T> + head[i]);
      }
    }
  }

  /// use(i, c): an element of row first + i that is in no pack.
  template <typename Use>
  __device__ void rim(Use use) const {
    if constexpr (EDGES) {
#pragma unroll
      for (int i = 0; i < ROWS; ++i) {
#pragma unroll 1
        for (int j = threadIdx.x; j < ends[i]; j += blockDim.x) {
          use(i, j < head[i] ? j : j + packs[i] * k_pack<T>);
        }
      }
    }
  }
};

/// Calls use(tile) for every tile of a matrix that falls to this thread, whatever the grid.
template <typename T, int KEEP, int ROWS, bool EDGES, typename Use>
__device__ inline void each_tile(const T* x, long long rows, long long cols, Use use) {
  const long long step = static_cast<long long>(gridDim.x) * blockDim.y * ROWS;
  for (long long first = static_cast<long long>(blockIdx.x) * blockDim.y * ROWS; first < rows;
       first += step) {
    use(RowTile<T, KEEP, ROWS, EDGES>(x, first + threadIdx.y * ROWS, rows, cols));
  }
}
