// SPDX-License-Identifier: Apache-2.0
#include "server/triton_api.hpp"

#include <ctime>
#include <utility>

#include "store/changes.hpp"
#include "store/triton_json.hpp"

namespace cubinary::server {
namespace {

namespace json = core::json;
using core::Result;

/// How many of one sort were stored.
struct Count {
  std::size_t added = 0;
  std::size_t replaced = 0;
  std::size_t unchanged = 0;

  Result<void> take(Result<store::PutResult> result) {
    TRY_ASSIGN(const store::PutResult done, std::move(result));
    (done == store::PutResult::added      ? added
     : done == store::PutResult::replaced ? replaced
                                          : unchanged) += 1;
    return {};
  }
  [[nodiscard]] std::size_t changed() const { return added + replaced; }
  [[nodiscard]] json::Object text() const {
    return {{"added", added}, {"replaced", replaced}, {"unchanged", unchanged}};
  }
};

}  // namespace

Result<Response> TritonApi::answer(const Request& request, const RouteMatch& match) const {
  if (request.method == "POST") {
    return put(request);
  }
  TRY_ASSIGN(const store::Reader reader, m_store->reader());
  if (match.route == Route::triton_records) {
    TRY_ASSIGN(const auto texts, store::list_triton_records(reader));
    json::Array records(texts.begin(), texts.end());
    return json_response(json::Object{{"records", std::move(records)}});
  }
  TRY_ASSIGN(const store::TritonEntries entries, store::list_triton(reader));
  return json_response(store::to_json(entries));
}

Result<Response> TritonApi::put(const Request& request) const {
  TRY_ASSIGN(const json::Value document, json_body(request));
  const json::Node top(document, "the request");
  TRY_ASSIGN(const store::TritonEntries entries, store::triton_entries_from_json(top));
  const std::int64_t now = std::time(nullptr);
  Count kernels;
  Count host;
  Count autotune;
  Count records;
  const auto body = [&](store::Writer& writer) -> Result<void> {
    kernels = host = autotune = records = {};
    for (const auto& [target, kernel] : entries.kernels) {
      TRY(kernels.take(store::put_triton_kernel(writer, target, kernel, now)));
    }
    for (const core::TritonHost& module : entries.host) {
      TRY(host.take(store::put_triton_host(writer, module, now)));
    }
    for (const core::TritonAutotune& result : entries.autotune) {
      TRY(autotune.take(store::put_triton_autotune(writer, result, now)));
    }
    for (const std::string& record : entries.records) {
      TRY(records.take(store::put_triton_record(writer, record, now)));
    }
    if (kernels.changed() + host.changed() + autotune.changed() + records.changed() == 0) {
      return {};
    }
    return store::record_change(writer, "triton put", "",
                                {{"kernels", kernels.changed()},
                                 {"host", host.changed()},
                                 {"autotune", autotune.changed()},
                                 {"records", records.changed()}});
  };
  TRY(m_store->write(body));
  return json_response(json::Object{{"kernels", kernels.text()},
                                    {"host", host.text()},
                                    {"autotune", autotune.text()},
                                    {"records", records.text()}});
}

}  // namespace cubinary::server
