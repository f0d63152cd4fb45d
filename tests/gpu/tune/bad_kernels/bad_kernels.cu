// SPDX-License-Identifier: Apache-2.0
// See run.py for what becomes of each mode.

__global__ void bad_kernels_ref(float* y, const float* x, long long n) {
  const long long i = blockIdx.x * 256LL + threadIdx.x;
  if (i < n) {
    y[i] = 2.0F * x[i] + 1.0F;
  }
}

__device__ __noinline__ float recurse(float x, int depth) {
  volatile float frame[128];
  frame[depth & 127] = x;
  return depth <= 0 ? frame[0] : recurse(x + 1.0F, depth - 1) + frame[depth & 127];
}

template <int MODE>
__global__ void bad_kernels(float* y, const float* x, long long n) {
  const long long first = blockIdx.x * 256LL + threadIdx.x;
  const long long step = gridDim.x * 256LL;
  float* input = const_cast<float*>(x);
  if constexpr (MODE == 0) {  // right, slow: one block does it all
    if (blockIdx.x == 0) {
      for (long long i = threadIdx.x; i < n; i += 256) {
        y[i] = 2.0F * x[i] + 1.0F;
      }
    }
  } else if constexpr (MODE ==
                       2) {  // fastest, wrong: does nothing, but not so that a build sees it
    if (n < 0) {
      y[0] = x[0];
    }
  } else if constexpr (MODE == 3) {  // fast, wrong in one element
    for (long long i = first; i < n; i += step) {
      if (i != n / 2) {
        y[i] = 2.0F * x[i] + 1.0F;
      }
    }
  } else if constexpr (MODE == 4) {  // right but for the last few elements of odd shapes
    for (long long i = first; i < n / 4 * 4; i += step) {
      y[i] = 2.0F * x[i] + 1.0F;
    }
  } else if constexpr (MODE == 5) {  // spins for ever
    volatile float* watched = y;
    while (watched[0] != -12345.0F) {
    }
  } else if constexpr (MODE == 6) {
    asm volatile("trap;");
  } else if constexpr (MODE == 7) {  // overflows the stack
    y[first % n] = recurse(x[0], 1 << 20);
  } else if constexpr (MODE == 8) {  // right, and writes beyond its output
    for (long long i = first; i < n + 1; i += step) {
      y[i] = 2.0F * x[i < n ? i : 0] + 1.0F;
    }
  } else if constexpr (MODE == 9) {  // right, and writes before its output
    for (long long i = first; i < n; i += step) {
      y[i] = 2.0F * x[i] + 1.0F;
    }
    if (first == 0) {
      y[-1] = 0.0F;
    }
  } else if constexpr (MODE == 10) {  // far outside
    if (first == 0) {
      y[n * 100000] = 1.0F;
    }
  } else if constexpr (MODE == 11) {  // right, and changes its input
    for (long long i = first; i < n; i += step) {
      y[i] = 2.0F * x[i] + 1.0F;
      if (i == n / 3) {
        input[i] += 1.0F;
      }
    }
  } else if constexpr (MODE == 12) {  // writes what is next to its input: another buffer's memory
    for (long long i = first; i < n; i += step) {
      y[i] = 2.0F * x[i] + 1.0F;
    }
    if (first == 0) {
      input[n + 8] = 1.0F;
    }
  } else if constexpr (MODE == 13) {  // misaligned
    if (first == 0) {
      *reinterpret_cast<float4*>(y + 1) = float4{1, 2, 3, 4};
    }
  } else if constexpr (MODE == 14) {  // right once a time: a race
    volatile __shared__ float passing;
    for (long long i = first; i < n; i += step) {
      passing = x[i];
      y[i] = 2.0F * passing + 1.0F;
    }
  } else if constexpr (MODE == 15) {  // leaves no number
    for (long long i = first; i < n; i += step) {
      y[i] = 2.0F * x[i] + 1.0F + (i == 7 ? __int_as_float(0x7fc00000) : 0.0F);
    }
  } else if constexpr (MODE == 16) {  // null
    if (first == 0) {
      *reinterpret_cast<volatile float*>(16) = 1.0F;
    }
    y[first % n] = 0.0F;
  } else if constexpr (MODE == 17) {  // right, and writes before its input
    for (long long i = first; i < n; i += step) {
      y[i] = 2.0F * x[i] + 1.0F;
    }
    if (first == 0) {
      input[-16] += 1.0F;
    }
  } else {  // MODE 1: right and fast
    for (long long i = first; i < n; i += step) {
      y[i] = 2.0F * x[i] + 1.0F;
    }
  }
}
