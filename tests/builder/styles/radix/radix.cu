// SPDX-License-Identifier: Apache-2.0
#include <cub/block/block_load.cuh>
#include <cub/block/block_radix_sort.cuh>
#include <cub/block/block_store.cuh>

template <int ITEMS>
__global__ void __launch_bounds__(128) sort(float* y, const float* x, int n) {
  using Load = cub::BlockLoad<float, 128, ITEMS, cub::BLOCK_LOAD_TRANSPOSE>;
  using Sort = cub::BlockRadixSort<float, 128, ITEMS>;
  using Store = cub::BlockStore<float, 128, ITEMS, cub::BLOCK_STORE_TRANSPOSE>;
  __shared__ union {
    typename Load::TempStorage load;
    typename Sort::TempStorage sort;
    typename Store::TempStorage store;
  } shared;
  const int first = blockIdx.x * 128 * ITEMS;
  float items[ITEMS];
  Load(shared.load).Load(x + first, items, n - first, 0.0f);
  __syncthreads();
  Sort(shared.sort).Sort(items);
  __syncthreads();
  Store(shared.store).Store(y + first, items, n - first);
}
