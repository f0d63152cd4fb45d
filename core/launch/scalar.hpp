// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "core/base/result.hpp"
#include "core/model/dtype.hpp"

namespace cubinary::core {

/// A scalar as the kernel reads it: the first `dtype.bytes` bytes, little endian, the rest zero.
using ScalarBytes = std::array<std::byte, 8>;

/// Encodes exactly for integers and bool (0 or 1); rounds to nearest even for floating types. A
/// value the type cannot hold is `usage` and says so ("70000 does not fit f16").
[[nodiscard]] Result<ScalarBytes> encode_scalar(const DType& dtype, std::int64_t value);
/// The same for a number written with a fraction; integers take whole numbers only.
[[nodiscard]] Result<ScalarBytes> encode_scalar(const DType& dtype, double value);

}  // namespace cubinary::core
