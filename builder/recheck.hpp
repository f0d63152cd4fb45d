// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "builder/plan.hpp"
#include "core/base/result.hpp"
#include "store/store.hpp"

namespace cubinary::builder {

/// Forgets what the store knows of candidates about which a manifest that has changed may say
/// something else: those that failed, and those whose entries it cannot launch. Build keys cover
/// code, and a manifest's launches and arguments are none. Such candidates have a reason in `again`
/// afterwards. Costs nothing while manifests stay what they were.
[[nodiscard]] core::Result<void> recheck(const store::Reader& reader, Plan& plan);

}  // namespace cubinary::builder
