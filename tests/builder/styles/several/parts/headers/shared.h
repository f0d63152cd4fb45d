// SPDX-License-Identifier: Apache-2.0
#pragma once
#ifndef __CUDACC_RTC__  // NVRTC has assert and printf built in
#include <cassert>
#include <cstdio>
#endif

constexpr int k_offset = 7;
__device__ int first(int x);
