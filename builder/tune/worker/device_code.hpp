// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace cubinary::builder {

/// PTX of device/device.cu (sm_75 and later) and device/tensor.cu (sm_80 and later), which the
/// driver translates: the tuner's machine needs no compiler, and no user's kernel runs as PTX.
extern const char* const k_device_ptx;
extern const char* const k_tensor_ptx;

}  // namespace cubinary::builder
