// SPDX-License-Identifier: Apache-2.0
#include "server/page.hpp"

#include <string>

#include "core/base/digest.hpp"

namespace cubinary::server {

core::Result<Response> page(std::string_view name) {
  if (name.empty()) {
    name = "index.html";
  }
  for (const core::EmbeddedFile& file : page_files()) {
    if (file.name != name) {
      continue;
    }
    Response response;
    response.set_body(std::string(file.text), name.ends_with(".html") ? "text/html; charset=utf-8"
                                              : name.ends_with(".css")
                                                  ? "text/css; charset=utf-8"
                                                  : "text/javascript; charset=utf-8");
    response.etag = "\"" + core::sha256(core::as_bytes(file.text)).hex().substr(0, 32) + "\"";
    response.headers.emplace_back("Cache-Control", "no-cache");  // asked again, answered 304
    response.headers.emplace_back(
        "Content-Security-Policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
        "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'");
    response.headers.emplace_back("Referrer-Policy", "no-referrer");
    return response;
  }
  return core::fail(core::ErrorCode::not_found,
                    "the audit page has no file \"" + std::string(name) + "\"");
}

}  // namespace cubinary::server
