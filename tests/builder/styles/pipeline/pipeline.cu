// SPDX-License-Identifier: Apache-2.0
#include <cooperative_groups.h>
#include <cuda/barrier>
#include <cuda/pipeline>

__global__ void staged(float* y, const float* x, int n) {
  __shared__ float tile[2][128];
  const auto block = cooperative_groups::this_thread_block();
  __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state;
  auto pipe = cuda::make_pipeline(block, &state);
  __shared__ cuda::barrier<cuda::thread_scope_block> done;
  if (threadIdx.x == 0) {
    init(&done, blockDim.x);
  }
  __syncthreads();
  for (int at = 0, stage = 0; at + 128 <= n; at += 128, stage ^= 1) {
    pipe.producer_acquire();
    cuda::memcpy_async(block, tile[stage], x + at, sizeof tile[stage], pipe);
    pipe.producer_commit();
    pipe.consumer_wait();
    y[at + threadIdx.x] = 2 * tile[stage][threadIdx.x];
    pipe.consumer_release();
    done.arrive_and_wait();
  }
}
