// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace cubinary::builder {

/// The worker's side: opens the device that it is told and answers TuneRequests read from standard
/// input until it is closed. Returns the process's exit status. The process must do nothing else.
[[nodiscard]] int serve_tune_requests();

}  // namespace cubinary::builder
