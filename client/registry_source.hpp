// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "client/source.hpp"

namespace cubinary::client {

/// Reads a repository of an OCI registry (`cubinary serve` is one) over HTTP: retries with backoff
/// and Retry-After, resume by Range, redirects (credentials stay with the origin), token services.
[[nodiscard]] core::Result<std::unique_ptr<Source>> open_registry_source(
    const SourceName& name, const SourceOptions& options);

}  // namespace cubinary::client
