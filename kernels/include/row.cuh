// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "vector.cuh"

// Rows of a matrix as 16-byte packs. With EDGES a row may start at any element and have any length:
// its body is the whole packs of the memory it lies in, its ends are the fewer than a pack's
// elements before and behind them. Without, rows are whole packs.

/// Elements of T in a pack of 16 bytes.
template <typename T>
inline constexpr int k_pack = 16 / static_cast<int>(sizeof(T));

template <typename T>
using RowPack = Pack<T, k_pack<T>>;

/// A pack as a value the compiler knows nothing of. Without it floats converted in one pass over
/// kept packs stay in registers for the next: twice the registers for 16-bit types, to save a
/// shift.
template <typename T>
__device__ inline RowPack<T> fresh(uint4 bits) {
  if constexpr (sizeof(T) != 4) {
    asm volatile("" : "+r"(bits.x), "+r"(bits.y), "+r"(bits.z), "+r"(bits.w));
  }
  RowPack<T> pack;
  memcpy(&pack, &bits, 16);
  return pack;
}
template <typename T>
__device__ inline RowPack<T> fresh(const RowPack<T>& pack) {
  uint4 bits;
  memcpy(&bits, &pack, 16);
  return fresh<T>(bits);
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
__device__ inline RowPack<T> joined(const uint4& low, const uint4& high, int by) {
  constexpr int a_word = 4 / static_cast<int>(sizeof(T));
  unsigned words[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
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

/// A vector along the columns, such as weights, for rows that lie otherwise in their packs. Null
/// stands for `unless` everywhere.
///
/// With EDGES a pack is two aligned loads, which never leave the vector, shifted; without, one.
/// `load` for several packs first, so that the loads are in flight together, then `pack`.
template <bool EDGES, typename T>
class NearRow {
 public:
  /// As bits: elements would be a register each where the compiler merges them with others.
  struct Loaded {
    uint4 low;
    uint4 high;
  };

  __device__ NearRow(const T* row, long long n, float unless)
      : m_row(row),
        m_n(n),
        m_safe(EDGES && row != nullptr && n >= 2 * N ? head_of(row, n) : -1),
        m_unless(from_float<T>(unless)) {}

  __device__ Loaded load(long long at) const {
    Loaded loaded;
    if constexpr (EDGES) {
      // Where one of the two would leave the row, `pack` reads element by element.
      const int shift = past_boundary(m_row + at);
      const long long start = at - shift;
      if (m_safe >= 0) {
        loaded.low = bits(start >= 0 ? start : m_safe);
        if (shift != 0) {
          loaded.high = bits(start + 2 * N <= m_n ? start + N : m_safe);
        }
      }
    } else {
      loaded.low = bits(at);
    }
    return loaded;
  }

  __device__ RowPack<T> pack(const Loaded& loaded, long long at) const {
    if constexpr (EDGES) {
      const int shift = past_boundary(m_row + at);
      if (m_safe < 0 || (shift != 0 && (at < shift || at - shift + 2 * N > m_n))) {
        return m_row != nullptr ? load_any<N>(m_row + at) : fresh<T>(filled());
      }
      return joined<T>(loaded.low, loaded.high, shift);
    } else {
      return fresh<T>(loaded.low);
    }
  }

  __device__ RowPack<T> read(long long at) const {
    return pack(EDGES || given() ? load(at) : absent(), at);
  }

  __device__ bool given() const { return m_row != nullptr; }
  /// What `load` is to give where the vector is null. With EDGES `load` itself copes.
  __device__ Loaded absent() const { return {filled(), filled()}; }

  __device__ float element(long long at) const {
    return to_float(m_row != nullptr ? m_row[at] : m_unless);
  }

 private:
  static constexpr int N = k_pack<T>;
  const T* m_row;
  long long m_n;
  int m_safe;  ///< where a whole pack is, or -1
  T m_unless;

  __device__ uint4 bits(long long at) const { return *reinterpret_cast<const uint4*>(m_row + at); }

  __device__ uint4 filled() const {
    RowPack<T> pack;
#pragma unroll
    for (int i = 0; i < N; ++i) {
      pack.value[i] = m_unless;
    }
    uint4 bits;
    memcpy(&bits, &pack, 16);
    return bits;
  }
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

/// The row that a thread works on, and its share of it.
///
/// blockDim.x threads share a row, blockDim.y rows are in a block. With KEEP a thread keeps its
/// packs in registers, at most KEEP: `kept`. With KEEP 0 every pass reads them again: `rest`. A row
/// past the end is empty, so that every thread reaches every barrier.
template <typename T, int KEEP, bool EDGES>
struct RowTile {
  static constexpr int k_slots = KEEP > 0 ? KEEP : 1;  ///< of the arrays that hold kept packs

  long long start;  ///< of the row, in elements
  long long packs;  ///< in the row's body
  int head;         ///< elements before the body
  int ends;         ///< elements before and behind it

  /// Row nth of x, contiguous [rows, cols], whose elements begin at `begin`.
  __device__ RowTile(const T* x, long long nth, long long begin, long long rows, long long cols)
      : start(begin) {
    const bool there = nth < rows;
    head = EDGES && there ? head_of(x + start, cols) : 0;
    packs = there ? (cols - head) / k_pack<T> : 0;
    ends = EDGES && there ? static_cast<int>(cols - packs * k_pack<T>) : 0;
  }

  /// use(k, at): the thread's pack k, which starts at the row's element `at`.
  template <typename Use>
  __device__ void kept(Use use) const {
    const unsigned few = KEEP > 0 ? static_cast<unsigned>(packs) : 0;
#pragma unroll
    for (int k = 0; k < KEEP; ++k) {
      const unsigned pack = threadIdx.x + k * blockDim.x;
      if (pack < few) {
        use(k, pack * k_pack<T> + head);
      }
    }
  }

  /// PART packs at a time: ahead(slot, at) for each, slot < PART, then use(k, slot, at) for each.
  template <int PART, typename Ahead, typename Use>
  __device__ void kept_in_parts(Ahead ahead, Use use) const {
#pragma unroll
    for (int part = 0; part < KEEP; part += PART) {
      kept([&](int k, unsigned at) {
        if (k >= part && k < part + PART) {
          ahead(k - part, at);
        }
      });
      kept([&](int k, unsigned at) {
        if (k >= part && k < part + PART) {
          use(k, k - part, at);
        }
      });
    }
  }

  /// use(at), UNROLL packs together.
  template <int UNROLL, typename Use>
  __device__ void rest(Use use) const {
    if constexpr (KEEP == 0) {
#pragma unroll UNROLL
      for (long long pack = threadIdx.x; pack < packs; pack += blockDim.x) {
        use(pack * k_pack<T> + head);
      }
    }
  }

  /// use(c): an element of the row that is in no pack.
  template <typename Use>
  __device__ void rim(Use use) const {
    if constexpr (EDGES) {
#pragma unroll 1
      for (int j = threadIdx.x; j < ends; j += blockDim.x) {
        use(j < head ? j : j + packs * k_pack<T>);
      }
    }
  }
};

/// A NearRow's packs beside the kept ones of a tile. Few stay in registers for all rows a thread
/// goes through, as long as these lie alike in their packs: `ahead`, to be called before a row is
/// reduced, starts their loads for the first. More would cost registers, and so rows in flight:
/// they are read a few at a time, where they are used.
template <typename T, int KEEP, bool EDGES>
class NearPacks {
 public:
  static constexpr bool k_stay = KEEP <= (EDGES ? 4 : 2);
  static constexpr int k_part = k_stay                ? (KEEP > 0 ? KEEP : 1)
                                : KEEP == 8 && !EDGES ? 1
                                                      : 2;  ///< for kept_in_parts

  __device__ explicit NearPacks(const NearRow<EDGES, T>& row) : m_row(row) {}

  __device__ void ahead(const RowTile<T, KEEP, EDGES>& tile) {
    if constexpr (k_stay) {
      if (tile.packs == 0 || tile.head == m_head) {
        return;
      }
      m_head = tile.head;
      if (EDGES || m_row.given()) {
        tile.kept([&](int k, unsigned at) { m_loaded[k] = m_row.load(at); });
      } else {
        tile.kept([&](int k, unsigned) { m_loaded[k] = m_row.absent(); });
      }
      if constexpr (EDGES) {
        tile.kept([&](int k, unsigned at) {
          const RowPack<T> pack = m_row.pack(m_loaded[k], at);
          memcpy(&m_loaded[k].low, &pack, 16);
        });
      }
    }
  }
  __device__ void load(int slot, unsigned at) {
    if constexpr (!k_stay) {
      m_loaded[slot] = EDGES || m_row.given() ? m_row.load(at) : m_row.absent();
    }
  }
  __device__ RowPack<T> pack(int slot, unsigned at) const {
    return k_stay ? fresh<T>(m_loaded[slot].low) : m_row.pack(m_loaded[slot], at);
  }

 private:
  const NearRow<EDGES, T>& m_row;
  typename NearRow<EDGES, T>::Loaded m_loaded[k_part];
  int m_head = -1;  ///< of the rows that m_loaded is beside
};

/// Calls use(tile) for every row of a matrix that falls to this thread, whatever the grid; with
/// KEEP 8, whose registers have no room for a loop's, there is a block for every blockDim.y rows.
template <typename T, int KEEP, bool EDGES, typename Use>
__device__ inline void each_row(const T* x, long long rows, long long cols, Use use) {
  long long first = static_cast<long long>(blockIdx.x) * blockDim.y;
  // Carried along, so that nobody multiplies again wherever the place is needed.
  long long start = (first + threadIdx.y) * cols;
  if constexpr (KEEP == 8) {
    use(RowTile<T, KEEP, EDGES>(x, first + threadIdx.y, start, rows, cols));
  } else {
    const long long step = static_cast<long long>(gridDim.x) * blockDim.y;
    for (; first < rows; first += step) {
      use(RowTile<T, KEEP, EDGES>(x, first + threadIdx.y, start, rows, cols));
      start += step * cols;
    }
  }
}
