// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string_view>

#include "core/base/embedded_file.hpp"
#include "core/base/result.hpp"
#include "server/http.hpp"

namespace cubinary::server {

/// The files of the audit page.
[[nodiscard]] std::span<const core::EmbeddedFile> page_files();

/// The audit page: `/` is index.html, `/page/NAME` the rest. It loads nothing from elsewhere and
/// may only ask this server, which its content security policy says to the browser too. `not_found`
/// for another name.
[[nodiscard]] core::Result<Response> page(std::string_view name);

}  // namespace cubinary::server
