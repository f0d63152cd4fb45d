// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "builder/tune/ledger.hpp"
#include "cli/remote.hpp"

namespace cubinary::cli {

/// A tuner's ledger on a server: candidates and cubins come from there, leases keep tuners of other
/// machines off a job, results are durable there when a call returns. The token needs the scopes
/// `read` and `tune`. Artifacts are verified here.
[[nodiscard]] std::unique_ptr<builder::Ledger> make_remote_ledger(Remote remote);

}  // namespace cubinary::cli
