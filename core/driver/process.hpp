// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace cubinary::core {

/// How many forks lie between the start of the program and this process. What was opened under
/// another number belongs to a parent: its threads, locks and CUDA contexts are not here. Costs one
/// load; thread-safe.
[[nodiscard]] unsigned fork_generation();

}  // namespace cubinary::core
