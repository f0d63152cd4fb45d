// SPDX-License-Identifier: Apache-2.0
#include "store/audit/answer.hpp"

#include <algorithm>
#include <array>
#include <span>
#include <utility>
#include <vector>

#include "core/base/nearest.hpp"
#include "store/values_json.hpp"

namespace cubinary::store {
namespace {

namespace json = core::json;
using core::ErrorCode;
using core::fail;
using core::Result;

using Parameters = std::map<std::string, std::string>;

template <typename T>
void add_known(json::Object& object, const char* key, const std::optional<T>& value) {
  if (value) {
    object.emplace(key, *value);
  }
}

template <typename Row>
json::Object job_to_json(const Row& row) {
  return {{"kernel", row.kernel},
          {"types", values_to_json(row.types)},
          {"shape", values_to_json(row.shape)}};
}

json::Object to_json(const Winner& winner) {
  json::Object object = job_to_json(winner);
  object.emplace("target", winner.target);
  object.emplace("device_class", winner.device_class.text());
  object.emplace("product", winner.product);
  object.emplace("config", values_to_json(winner.config));
  object.emplace("time_us", winner.median_us);
  object.emplace("confidence", confidence(winner));
  object.emplace("samples", winner.samples);
  object.emplace("error", winner.max_error);
  object.emplace("origin", std::string(origin_name(origin(winner))));
  object.emplace("measured", winner.measured);
  object.emplace("failed", winner.failed);
  object.emplace("ties", winner.ties);
  object.emplace("driver", winner.driver);
  object.emplace("toolkit", winner.toolchain.version.text());
  object.emplace("session", winner.session);
  object.emplace("created", winner.created);
  add_known(object, "roofline", roofline(winner));
  add_known(object, "margin", margin(winner));
  add_known(object, "speedup", speedup(winner));
  if (winner.baseline) {
    object.emplace("baseline", values_to_json(*winner.baseline));
  }
  return object;
}

json::Object to_json(const Comparison& job) {
  json::Object object = job_to_json(job);
  object.emplace("a_config", values_to_json(job.a_config));
  object.emplace("b_config", values_to_json(job.b_config));
  object.emplace("a_us", job.a_us);
  object.emplace("b_us", job.b_us);
  object.emplace("transfer", std::string(transfer_name(job.transfer)));
  add_known(object, "a_on_b_us", job.a_on_b_us);
  add_known(object, "loss", job.loss);
  return object;
}

json::Object to_json(const KernelComparison& kernel) {
  json::Object object{{"kernel", kernel.kernel},
                      {"jobs", kernel.jobs},
                      {"same", kernel.same},
                      {"good", kernel.good},
                      {"slower", kernel.slower},
                      {"broken", kernel.broken},
                      {"unmeasured", kernel.unmeasured},
                      {"needs_tuning", kernel.needs_tuning()}};
  add_known(object, "mean_loss", kernel.mean_loss);
  add_known(object, "worst_loss", kernel.worst_loss);
  return object;
}

json::Object to_json(const StaleWinner& stale) {
  json::Object object = job_to_json(stale);
  object.emplace("target", stale.target);
  object.emplace("device_class", stale.device_class.text());
  object.emplace("config", values_to_json(stale.config));
  object.emplace("created", stale.created);
  for (const auto& [key, change] :
       {std::pair("source", &stale.source), std::pair("driver", &stale.driver),
        std::pair("toolkit", &stale.toolkit)}) {
    if (!change->empty()) {
      object.emplace(key, *change);
    }
  }
  return object;
}

template <typename Rows>
json::Array to_array(const Rows& rows) {
  json::Array array;
  for (const auto& row : rows) {
    array.emplace_back(to_json(row));
  }
  return array;
}

Result<AuditFilter> read_filter(const Reader& reader, const Parameters& parameters) {
  AuditFilter filter;
  if (const auto kernel = parameters.find("kernel"); kernel != parameters.end()) {
    filter.kernels = kernel->second;
  }
  if (const auto target = parameters.find("target"); target != parameters.end()) {
    TRY_ASSIGN(const core::Target parsed, core::Target::parse(target->second));
    filter.target = parsed.text();
  }
  if (const auto device = parameters.find("device_class"); device != parameters.end()) {
    TRY_ASSIGN(filter.device_class, find_device_class(reader, device->second));
  }
  return filter;
}

Result<void> check_parameters(const Parameters& parameters, std::span<const std::string> known) {
  for (const auto& [name, value] : parameters) {
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      return fail(ErrorCode::usage,
                  "unknown parameter \"" + name + "\"" + core::did_you_mean(name, known));
    }
  }
  return {};
}

Result<core::DeviceClass> device_parameter(const Reader& reader, const Parameters& parameters,
                                           const char* name) {
  const auto value = parameters.find(name);
  if (value == parameters.end()) {
    return fail(ErrorCode::usage, "compare needs two device classes, as a= and b=");
  }
  return find_device_class(reader, value->second);
}

// --- CSV ---

std::string display(const json::Value& value) {
  if (const auto* text = value.get_if<std::string>()) {
    return *text;
  }
  if (const auto* object = value.get_if<json::Object>()) {
    std::string text;
    for (const auto& [key, each] : *object) {
      text += (text.empty() ? "" : " ") + key + "=" + display(each);
    }
    return text;
  }
  return json::to_text(value);
}

void add_cell(std::string& line, const std::string& cell) {
  if (cell.find_first_of(",\"\r\n") == std::string::npos) {
    line += cell;
    return;
  }
  line += '"';
  for (const char c : cell) {
    line += c == '"' ? "\"\"" : std::string(1, c);
  }
  line += '"';
}

struct Sheet {
  std::string_view query;
  std::string_view rows;
  std::vector<std::string_view> columns;
};

const Sheet* find_sheet(std::string_view query) {
  static const std::array<Sheet, 5> sheets = {
      Sheet{"winners", "winners", {"kernel",   "target", "types",   "shape",      "device_class",
                                   "product",  "config", "time_us", "confidence", "samples",
                                   "roofline", "margin", "ties",    "speedup",    "origin",
                                   "error",    "driver", "toolkit", "session",    "created"}},
      Sheet{"compare",
            "jobs",
            {"kernel", "types", "shape", "transfer", "loss", "a_us", "b_us", "a_on_b_us",
             "a_config", "b_config"}},
      Sheet{"coverage", "jobs", {"kernel", "target", "device_class", "types", "shape", "coverage"}},
      Sheet{"stale",
            "stale",
            {"kernel", "target", "device_class", "types", "shape", "config", "source", "driver",
             "toolkit", "created"}},
      Sheet{"resources",
            "resources",
            {"kernel", "target", "device_class", "types", "config", "match", "step", "threads",
             "registers", "spill_bytes", "smem_bytes", "blocks_per_sm", "occupancy", "limit",
             "shape_count"}}};
  const auto* const found = std::find_if(sheets.begin(), sheets.end(),
                                         [&](const Sheet& sheet) { return sheet.query == query; });
  return found == sheets.end() ? nullptr : found;
}

}  // namespace

json::Value winners_to_json(const std::vector<Winner>& winners) {
  return json::Object{{"audit", "winners"}, {"winners", to_array(winners)}};
}

json::Value compare_to_json(const CompareAnswer& answer) {
  return json::Object{{"audit", "compare"},
                      {"a", answer.a.text()},
                      {"b", answer.b.text()},
                      {"kernels", to_array(answer.kernels)},
                      {"jobs", to_array(answer.jobs)}};
}

json::Value coverage_to_json(const std::vector<CoverageJob>& jobs) {
  json::Array rows;
  json::Array kernels;
  std::array<std::int64_t, 7> counts{};
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    const CoverageJob& job = jobs[i];
    json::Object row = job_to_json(job);
    row.emplace("target", job.target);
    row.emplace("device_class", job.device_class.text());
    row.emplace("coverage", std::string(coverage_name(job.coverage)));
    rows.emplace_back(std::move(row));
    ++counts.at(static_cast<std::size_t>(job.coverage));
    const bool last = i + 1 == jobs.size() || jobs[i + 1].kernel != job.kernel ||
                      jobs[i + 1].target != job.target ||
                      jobs[i + 1].device_class != job.device_class;
    if (!last) {
      continue;
    }
    json::Object kernel{
        {"kernel", job.kernel}, {"target", job.target}, {"device_class", job.device_class.text()}};
    std::int64_t sum = 0;
    for (std::size_t k = 0; k < counts.size(); ++k) {
      kernel.emplace(std::string(coverage_name(static_cast<Coverage>(k))), counts.at(k));
      sum += counts.at(k);
    }
    kernel.emplace("jobs", sum);
    kernels.emplace_back(std::move(kernel));
    counts = {};
  }
  return json::Object{
      {"audit", "coverage"}, {"kernels", std::move(kernels)}, {"jobs", std::move(rows)}};
}

json::Value stale_to_json(const std::vector<StaleWinner>& stale) {
  return json::Object{{"audit", "stale"}, {"stale", to_array(stale)}};
}

Result<AuditFilter> audit_filter(const Reader& reader, const Parameters& parameters) {
  static const std::vector<std::string> known = {"kernel", "target", "device_class"};
  TRY(check_parameters(parameters, known));
  return read_filter(reader, parameters);
}

Result<json::Value> audit(const Reader& reader, std::string_view query,
                          const Parameters& parameters) {
  static const std::vector<std::string> queries = {"winners", "compare", "coverage", "stale"};
  if (std::find(queries.begin(), queries.end(), query) == queries.end()) {
    return fail(ErrorCode::usage,
                "there is no audit \"" + std::string(query) + "\"" +
                    core::did_you_mean(query, queries) +
                    ": there are winners, compare, coverage, stale and resources");
  }
  std::vector<std::string> known = {"kernel", "target", "device_class"};
  if (query == "compare") {
    known = {"kernel", "target", "a", "b"};
  } else if (query == "stale") {
    known.emplace_back("driver");
  }
  TRY(check_parameters(parameters, known));
  TRY_ASSIGN(const AuditFilter filter, read_filter(reader, parameters));
  if (query == "winners") {
    TRY_ASSIGN(const auto winners, audit_winners(reader, filter));
    return winners_to_json(winners);
  }
  if (query == "compare") {
    TRY_ASSIGN(const core::DeviceClass a, device_parameter(reader, parameters, "a"));
    TRY_ASSIGN(const core::DeviceClass b, device_parameter(reader, parameters, "b"));
    TRY_ASSIGN(const CompareAnswer answer, audit_compare(reader, a, b, filter));
    return compare_to_json(answer);
  }
  if (query == "coverage") {
    TRY_ASSIGN(const auto jobs, audit_coverage(reader, filter));
    return coverage_to_json(jobs);
  }
  AuditNow now;
  if (const auto driver = parameters.find("driver"); driver != parameters.end()) {
    now.driver = driver->second;
  }
  TRY_ASSIGN(const auto stale, audit_stale(reader, filter, now));
  return stale_to_json(stale);
}

std::string audit_csv(const json::Value& answer) {
  const auto* const object = answer.get_if<json::Object>();
  const auto member = [&](std::string_view key) -> const json::Value* {
    const auto found =
        object == nullptr ? json::Object::const_iterator{} : object->find(std::string(key));
    return object == nullptr || found == object->end() ? nullptr : &found->second;
  };
  const json::Value* const query = member("audit");
  const auto* const name = query == nullptr ? nullptr : query->get_if<std::string>();
  const Sheet* const sheet = name == nullptr ? nullptr : find_sheet(*name);
  const json::Value* const rows = sheet == nullptr ? nullptr : member(sheet->rows);
  const auto* const array = rows == nullptr ? nullptr : rows->get_if<json::Array>();
  if (array == nullptr) {
    return {};
  }
  std::string text;
  for (const std::string_view column : sheet->columns) {
    text += (text.empty() ? "" : ",") + std::string(column);
  }
  text += '\n';
  for (const json::Value& row : *array) {
    const auto* const cells = row.get_if<json::Object>();
    bool first = true;
    for (const std::string_view column : sheet->columns) {
      text += first ? "" : ",";
      first = false;
      if (cells == nullptr) {
        continue;
      }
      if (const auto cell = cells->find(std::string(column)); cell != cells->end()) {
        add_cell(text, display(cell->second));
      }
    }
    text += '\n';
  }
  return text;
}

}  // namespace cubinary::store
