// SPDX-License-Identifier: Apache-2.0
#pragma once

template <typename T>
__device__ T scaled(T value, float factor) {
  return static_cast<T>(value * factor);
}
