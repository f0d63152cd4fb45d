// SPDX-License-Identifier: Apache-2.0
#pragma once

// Barriers for threads that do different things (sm_90): an mbarrier lies in 8 bytes of shared
// memory, by whose address it is named, and counts arrivals; a phase ends with the last of them.

/// Sets a barrier up for `count` arrivals a phase; by one thread, and a block's barrier follows.
__device__ inline void barrier_init(unsigned barrier, unsigned count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(count) : "memory");
}

/// Arrives once where `arrives` is true.
__device__ inline void barrier_arrive(unsigned barrier, bool arrives = true) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %1, 0;\n"
      "@p mbarrier.arrive.shared::cta.b64 _, [%0];\n}" ::"r"(barrier),
      "r"(static_cast<int>(arrives))
      : "memory");
}

/// Arrives when the copies that this thread has started are there.
__device__ inline void barrier_arrive_after_copies(unsigned barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(barrier) : "memory");
}

/// Waits for the end of the phase of this parity: of the first phase 0, of the next 1, and so on;
/// before the first ends, the one of parity 1 counts as over.
__device__ inline void barrier_wait(unsigned barrier, unsigned parity) {
  asm volatile(
      "{\n.reg .pred p;\n"
      "again:\nmbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n"
      "@p bra over;\nbra again;\nover:\n}" ::"r"(barrier),
      "r"(parity)
      : "memory");
}

/// What this thread sees in shared memory is there for wgmma too.
__device__ inline void fence_for_products() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/// Waits at the block's barrier `id` (1 to 15; 0 is __syncthreads) until `threads` have come, this
/// warp's among them.
__device__ inline void block_barrier_wait(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

/// Arrives at it without waiting.
__device__ inline void block_barrier_arrive(int id, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
