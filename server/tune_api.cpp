// SPDX-License-Identifier: Apache-2.0
#include "server/tune_api.hpp"

#include <algorithm>
#include <charconv>
#include <ctime>
#include <limits>
#include <utility>
#include <vector>

#include "store/changes.hpp"
#include "store/tuning_json.hpp"

namespace cubinary::server {
namespace {

namespace json = core::json;
using core::ErrorCode;
using core::fail;
using core::Result;

/// A tuner that is gone must not keep a job for long.
constexpr std::int64_t k_max_lease = 3600;

Result<std::int64_t> parse_id(std::string_view text) {
  std::int64_t id = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), id);
  if (error != std::errc() || end != text.data() + text.size() || id < 1) {
    return fail(ErrorCode::usage, "\"" + std::string(text) + "\" is no id");
  }
  return id;
}

/// Whose a lease is: nobody renews or gives back another token's, whatever name it gives itself.
Result<std::string> owner_of(const Request& request, const std::string& name) {
  if (name.empty() || name.size() > 200) {
    return fail(ErrorCode::usage, "owner must say who tunes, in 1 to 200 bytes");
  }
  return request.token + ":" + name;
}
Result<std::string> owner_of(const Request& request, const json::Node& top) {
  TRY_ASSIGN(const std::string name, top.text("owner"));
  return owner_of(request, name);
}

Result<std::int64_t> lease_seconds(const json::Node& top) {
  return top.integer("seconds", 1, k_max_lease);
}

Result<void> filter_by_query(const Request& request, store::MeasurementFilter& filter) {
  for (const auto& [name, value] : request.query) {
    if (name == "kernel") {
      filter.kernel = value;
    } else if (name == "target") {
      filter.target = value;
    } else if (name == "types") {
      TRY_ASSIGN(filter.types, core::types_from_json(value));
    } else if (name == "shape") {
      TRY_ASSIGN(filter.shape, core::shape_from_json(value));
    } else if (name == "device_class") {
      TRY_ASSIGN(filter.device_class, core::DeviceClass::parse(value));
    } else if (name == "all") {
      filter.current_only = value != "true";
    } else if (name == "samples") {
      filter.with_samples = value == "true";
    } else {
      return fail(ErrorCode::usage, "unknown parameter \"" + name +
                                        "\": there are kernel, target, types, shape, "
                                        "device_class, all and samples");
    }
  }
  return {};
}

json::Value owned(store::Lease lease) {
  // The token is no business of others.
  lease.owner.erase(0, lease.owner.find(':') + 1);
  return store::to_json(lease);
}

}  // namespace

Result<Response> TuneApi::answer(const Request& request, const RouteMatch& match) const {
  switch (match.route) {
    case Route::sessions: {
      if (request.method == "POST") {
        return put_session(request);
      }
      TRY_ASSIGN(const store::Reader reader, m_store->reader());
      TRY_ASSIGN(const auto sessions, store::list_sessions(reader));
      json::Array array;
      for (const store::DeviceSession& session : sessions) {
        array.emplace_back(store::to_json(session));
      }
      return json_response(std::move(array));
    }
    case Route::session_facts:
      return put_facts(request, match.reference);
    case Route::measurements:
      return request.method == "POST" ? put_measurements(request) : measurements(request);
    case Route::leases: {
      if (request.method == "POST") {
        return acquire(request);
      }
      TRY_ASSIGN(const store::Reader reader, m_store->reader());
      TRY_ASSIGN(const auto leases, store::list_leases(reader, std::time(nullptr)));
      json::Array array;
      for (const store::Lease& one : leases) {
        array.emplace_back(owned(one));
      }
      return json_response(std::move(array));
    }
    case Route::lease:
      return lease(request, match.reference);
    case Route::journal:
      return journal(request);
    default:
      return request.method == "POST" ? put_tuning(request) : tuning(request);
  }
}

// --- Sessions ---

Result<Response> TuneApi::put_session(const Request& request) const {
  TRY_ASSIGN(const json::Value document, json_body(request));
  TRY_ASSIGN(const store::DeviceSession session,
             store::session_from_json(json::Node(document, "the session")));
  store::SessionId id = 0;
  const auto body = [&](store::Writer& writer) -> Result<void> {
    TRY_ASSIGN(id, store::put_session(writer, session));
    return store::record_change(
        writer, "tune session", std::to_string(id),
        {{"device_class", session.device_class.text()}, {"product", session.product}});
  };
  TRY(m_store->write(body));
  Response response = json_response(json::Object{{"id", id}});
  response.status = 201;
  return response;
}

Result<Response> TuneApi::put_facts(const Request& request, std::string_view text) const {
  TRY_ASSIGN(const std::int64_t id, parse_id(text));
  TRY_ASSIGN(const json::Value document, json_body(request));
  TRY_ASSIGN(const auto facts, json::Node(document, "the facts").text_map());
  TRY(m_store->write(
      [&](store::Writer& writer) { return store::put_session_facts(writer, id, facts); }));
  return json_response(json::Object{{"id", id}});
}

// --- Measurements ---

Result<Response> TuneApi::measurements(const Request& request) const {
  store::MeasurementFilter filter;
  if (const auto read = filter_by_query(request, filter); !read) {
    return fail(ErrorCode::usage, read.error().message);
  }
  if (filter.kernel.empty()) {
    return fail(ErrorCode::usage, "say whose measurements: ?kernel=NAME");
  }
  TRY_ASSIGN(const store::Reader reader, m_store->reader());
  json::Array array;
  TRY(store::for_each_measurement(reader, filter,
                                  [&](const store::MeasurementRow& row) -> Result<void> {
                                    array.emplace_back(store::to_json(row));
                                    return {};
                                  }));
  return json_response(std::move(array));
}

Result<Response> TuneApi::put_measurements(const Request& request) const {
  TRY_ASSIGN(const json::Value document, json_body(request));
  const json::Node top(document, "the request");
  TRY_ASSIGN(const json::Node list, top.at("measurements"));
  TRY_ASSIGN(const auto nodes, list.elements());
  std::vector<store::Measurement> measurements;
  for (const json::Node& node : nodes) {
    TRY_ASSIGN(store::Measurement measurement, store::measurement_from_json(node));
    measurements.push_back(std::move(measurement));
  }
  // What runs next is noted in the step that keeps what ran before.
  std::vector<store::JournalEntry> next;
  TRY_ASSIGN(const json::Node launches, top.find("next"));
  if (launches.exists()) {
    TRY_ASSIGN(const auto entries, launches.elements());
    for (const json::Node& node : entries) {
      TRY_ASSIGN(store::JournalEntry entry, store::journal_from_json(node));
      next.push_back(std::move(entry));
    }
  }
  json::Array ids;
  const auto body = [&](store::Writer& writer) -> Result<void> {
    ids.clear();
    for (const store::Measurement& measurement : measurements) {
      TRY_ASSIGN(const auto same, store::find_same_measurement(writer.reader(), measurement));
      if (same) {
        ids.emplace_back(*same);
        continue;
      }
      TRY_ASSIGN(const store::MeasurementId id, store::put_measurement(writer, measurement));
      ids.emplace_back(id);
    }
    for (const store::JournalEntry& entry : next) {
      TRY(store::put_journal(writer, entry));
    }
    return {};
  };
  TRY(m_store->write(body));
  return json_response(json::Object{{"ids", std::move(ids)}});
}

// --- Leases ---

Result<Response> TuneApi::acquire(const Request& request) const {
  TRY_ASSIGN(const json::Value document, json_body(request));
  const json::Node top(document, "the request");
  TRY_ASSIGN(const json::Node job_node, top.at("job"));
  TRY_ASSIGN(const store::TuningJob job, store::job_from_json(job_node));
  TRY_ASSIGN(const std::string owner, owner_of(request, top));
  TRY_ASSIGN(const std::int64_t seconds, lease_seconds(top));
  store::LeaseAnswer answer;
  const auto body = [&](store::Writer& writer) -> Result<void> {
    TRY_ASSIGN(answer, store::acquire_lease(writer, job, owner, std::time(nullptr), seconds));
    return {};
  };
  TRY(m_store->write(body));
  return json_response(json::Object{{"granted", answer.granted}, {"lease", owned(answer.lease)}});
}

Result<Response> TuneApi::lease(const Request& request, std::string_view text) const {
  TRY_ASSIGN(const std::int64_t id, parse_id(text));
  if (request.method == "DELETE") {
    TRY_ASSIGN(const std::string* const name, query_value(request, "owner"));
    TRY_ASSIGN(const std::string owner, owner_of(request, name == nullptr ? "" : *name));
    TRY(m_store->write(
        [&](store::Writer& writer) { return store::release_lease(writer, id, owner); }));
    return json_response(json::Object{{"id", id}});
  }
  TRY_ASSIGN(const json::Value document, json_body(request));
  const json::Node top(document, "the request");
  TRY_ASSIGN(const std::string owner, owner_of(request, top));
  TRY_ASSIGN(const std::int64_t seconds, lease_seconds(top));
  const std::int64_t now = std::time(nullptr);
  TRY(m_store->write(
      [&](store::Writer& writer) { return store::renew_lease(writer, id, owner, now, seconds); }));
  return json_response(json::Object{{"id", id}, {"expires", now + seconds}});
}

// --- The journal, and what came of a job ---

Result<Response> TuneApi::journal(const Request& request) const {
  TRY_ASSIGN(const json::Value document, json_body(request));
  const json::Node top(document, "the request");
  if (request.method == "POST") {
    // What was running for a job when a tuner went down.
    TRY_ASSIGN(const store::TuningJob job, store::job_from_json(top));
    TRY_ASSIGN(const store::Reader reader, m_store->reader());
    TRY_ASSIGN(const auto entries, store::list_journal(reader, job));
    json::Array array;
    for (const store::JournalEntry& entry : entries) {
      array.emplace_back(store::to_json(entry));
    }
    return json_response(std::move(array));
  }
  TRY_ASSIGN(const store::JournalEntry entry, store::journal_from_json(top));
  TRY_ASSIGN(const bool running, top.boolean_or("running", true));
  TRY(m_store->write([&](store::Writer& writer) {
    return running ? store::put_journal(writer, entry) : store::drop_journal(writer, entry);
  }));
  return json_response(json::Object{{"candidate", entry.candidate}});
}

Result<Response> TuneApi::tuning(const Request& request) const {
  json::Object asked;
  for (const auto& [name, value] : request.query) {
    if (name == "types" || name == "shape") {
      auto parsed = json::parse(value);
      if (!parsed) {
        return fail(ErrorCode::usage, name + ": " + parsed.error().message);
      }
      asked.insert_or_assign(name, *std::move(parsed));
    } else {
      asked.insert_or_assign(name, value);
    }
  }
  const json::Value document(std::move(asked));
  const auto job = store::job_from_json(json::Node(document, "the query"));
  if (!job) {
    return fail(ErrorCode::usage, job.error().message);
  }
  TRY_ASSIGN(const store::Reader reader, m_store->reader());
  TRY_ASSIGN(const auto found, store::find_tuning(reader, *job));
  json::Array newest;
  if (found) {
    newest.emplace_back(store::to_json(*found));
  }
  return json_response(std::move(newest));
}

Result<Response> TuneApi::put_tuning(const Request& request) const {
  TRY_ASSIGN(const json::Value document, json_body(request));
  TRY_ASSIGN(const store::Tuning tuning,
             store::tuning_from_json(json::Node(document, "the tuning")));
  std::int64_t id = 0;
  const auto body = [&](store::Writer& writer) -> Result<void> {
    TRY_ASSIGN(id, store::put_tuning(writer, tuning));
    return store::record_change(writer, "tune", tuning.job.kernel,
                                {{"target", tuning.job.target},
                                 {"device_class", tuning.job.device_class.text()},
                                 {"measured", tuning.measured}});
  };
  TRY(m_store->write(body));
  Response response = json_response(json::Object{{"id", id}});
  response.status = 201;
  return response;
}

}  // namespace cubinary::server
