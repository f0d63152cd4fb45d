// SPDX-License-Identifier: Apache-2.0
#include "shared.h"

__device__ int first(int x) {
  assert(x >= 0);
  return x + k_offset;
}
