// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "core/base/embedded_file.hpp"

namespace cubinary::builder {

/// PTX of device/device.cu (sm_75 and later) and device/tensor.cu (sm_80 and later), which the
/// driver translates: the tuner's machine needs no compiler, and no user's kernel runs as PTX.
[[nodiscard]] std::span<const core::EmbeddedFile> device_code();

}  // namespace cubinary::builder
