// SPDX-License-Identifier: Apache-2.0
#include "server/audit_api.hpp"

#include <map>
#include <string>

#include "builder/release/resources.hpp"
#include "store/audit/answer.hpp"

namespace cubinary::server {

using core::ErrorCode;
using core::fail;
using core::Result;

Result<Response> AuditApi::answer(const Request& request, const RouteMatch& match) const {
  std::string format = "json";
  std::map<std::string, std::string> parameters;
  for (const auto& [name, value] : request.query) {
    if (name == "format") {
      format = value;
    } else if (!parameters.emplace(name, value).second) {
      return fail(ErrorCode::usage, "the query parameter \"" + name + "\" is given twice");
    }
  }
  if (format != "json" && format != "csv") {
    return fail(ErrorCode::usage, "format must be json or csv, not \"" + format + "\"");
  }
  TRY_ASSIGN(const store::Reader reader, m_store->reader());
  TRY_ASSIGN(const core::json::Value document, builder::audit(reader, match.reference, parameters));
  if (format == "json") {
    return json_response(document);
  }
  Response response;
  response.headers.emplace_back("Cache-Control", "no-store");
  response.set_body(store::audit_csv(document), "text/csv; charset=utf-8");
  return response;
}

}  // namespace cubinary::server
