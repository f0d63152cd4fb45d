// SPDX-License-Identifier: Apache-2.0
#include <cub/block/block_reduce.cuh>
#include <cuda/std/type_traits>

template <typename T, int Threads>
__global__ void block_sums(T* sums, const T* x, int n) {
  static_assert(cuda::std::is_floating_point<T>::value, "a floating type");
  using Reduce = cub::BlockReduce<T, Threads>;
  __shared__ typename Reduce::TempStorage storage;
  const int i = blockIdx.x * Threads + threadIdx.x;
  const T sum = Reduce(storage).Sum(i < n ? x[i] : T(0));
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}
