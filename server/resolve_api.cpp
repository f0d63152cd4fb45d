// SPDX-License-Identifier: Apache-2.0
#include "server/resolve_api.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <utility>
#include <vector>

#include "core/base/json.hpp"
#include "core/base/nearest.hpp"
#include "core/table/entry_json.hpp"
#include "server/cascade.hpp"

namespace cubinary::server {
namespace {

using core::ErrorCode;
using core::fail;
using core::Result;
namespace json = core::json;

constexpr std::array<std::string_view, 7> k_parameters = {"kernel", "types",   "shape",  "device",
                                                          "align",  "require", "release"};

core::Error usage(std::string_view parameter, const std::string& message) {
  return {ErrorCode::usage, "parameter \"" + std::string(parameter) + "\": " + message};
}

/// Calls `take(name, value)` for each of `name:value,name:value`.
template <typename Take>
Result<void> split_pairs(std::string_view parameter, std::string_view text, Take take) {
  while (!text.empty()) {
    const auto comma = text.find(',');
    const std::string_view pair = text.substr(0, comma);
    const auto colon = pair.find(':');
    if (colon == 0 || colon == std::string_view::npos || colon + 1 == pair.size()) {
      return fail(usage(parameter, "\"" + std::string(pair) + "\" is not NAME:VALUE"));
    }
    TRY(take(std::string(pair.substr(0, colon)), pair.substr(colon + 1)));
    text.remove_prefix(comma == std::string_view::npos ? text.size() : comma + 1);
  }
  return {};
}

Result<std::map<std::string, std::string>> parse_names(std::string_view parameter,
                                                       std::string_view text) {
  std::map<std::string, std::string> result;
  TRY(split_pairs(parameter, text, [&](std::string name, std::string_view value) -> Result<void> {
    if (!result.emplace(name, value).second) {
      return fail(usage(parameter, "\"" + name + "\" is given twice"));
    }
    return {};
  }));
  return result;
}

Result<std::map<std::string, std::int64_t>> parse_numbers(std::string_view parameter,
                                                          std::string_view text, std::int64_t low) {
  std::map<std::string, std::int64_t> result;
  TRY(split_pairs(parameter, text, [&](std::string name, std::string_view value) -> Result<void> {
    std::int64_t number = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
    if (error != std::errc() || end != value.data() + value.size() || number < low) {
      return fail(usage(parameter, name + " must be a whole number of at least " +
                                       std::to_string(low) + ", not \"" + std::string(value) +
                                       "\""));
    }
    if (!result.emplace(name, number).second) {
      return fail(usage(parameter, "\"" + name + "\" is given twice"));
    }
    return {};
  }));
  return result;
}

Result<std::string> required(const Request& request, std::string_view name,
                             std::string_view example) {
  TRY_ASSIGN(const std::string* const value, query_value(request, name));
  if (value == nullptr || value->empty()) {
    return fail(usage(name, "missing; give it as " + std::string(example)));
  }
  return *value;
}

Result<std::string> optional(const Request& request, std::string_view name) {
  TRY_ASSIGN(const std::string* const value, query_value(request, name));
  return value == nullptr ? std::string() : *value;
}

/// By name, else by the channel tag that points at it, else (no name) the highest serial.
Result<store::Release> pick_release(const store::Reader& reader, const std::string& name) {
  std::optional<store::Release> release;
  if (name.empty()) {
    TRY_ASSIGN(release, store::newest_release(reader));
    if (!release) {
      return fail(ErrorCode::not_found, "the store holds no release yet");
    }
    return *std::move(release);
  }
  TRY_ASSIGN(release, store::find_release(reader, name));
  if (!release) {
    TRY_ASSIGN(const std::optional<store::Tag> tag, store::find_tag(reader, name));
    if (tag) {
      TRY_ASSIGN(release, store::find_release_by_index(reader, tag->manifest));
    }
  }
  if (release) {
    return *std::move(release);
  }
  TRY_ASSIGN(const std::vector<store::Release> all, store::list_releases(reader));
  std::vector<std::string> names;
  std::ranges::transform(all, std::back_inserter(names), &store::Release::name);
  return fail(ErrorCode::not_found,
              "there is no release or channel \"" + name + "\"" + core::did_you_mean(name, names));
}

/// The entry as its catalogue has it, but for where its bytes are: that stands beside it.
json::Object entry_object(const core::TableEntry& entry) {
  json::Object object = core::entry_to_json(entry);
  for (const char* apart : {"artifact", "offset", "size"}) {
    object.erase(apart);
  }
  object.emplace("device_class", "");
  return object;
}

std::string answer_text(const store::Release& release, const core::Choice& choice) {
  const core::KernelTable& table = *choice.table;
  const core::TableEntry& entry = *choice.entry;
  return json::to_text(json::Object{
      {"release", release.name},
      {"serial", release.serial},
      {"index", release.index.text()},
      {"kernel", table.name},
      {"interface", table.interface.text()},
      {"target", choice.target.text()},
      {"match", core::match_name(choice.match)},
      {"how", choice.how},
      {"entry", entry_object(entry)},
      {"artifact", json::Object{{"digest", entry.artifact.text()}, {"size", entry.size}}},
      {"pack", json::Object{{"digest", table.pack.text()},
                            {"size", table.pack_size},
                            {"raw_size", table.pack_raw_size},
                            {"offset", entry.offset}}},
  });
}

}  // namespace

Result<ResolveParameters> parse_resolve(const Request& request) {
  for (const auto& [name, value] : request.query) {
    if (std::ranges::find(k_parameters, name) == k_parameters.end()) {
      const std::vector<std::string> known(k_parameters.begin(), k_parameters.end());
      return fail(usage(name, "unknown" + core::did_you_mean(name, known)));
    }
  }
  ResolveParameters result;
  TRY_ASSIGN(result.kernel, required(request, "kernel", "kernel=rmsnorm"));
  TRY_ASSIGN(const std::string shape, required(request, "shape", "shape=rows:64,cols:4096"));
  TRY_ASSIGN(result.query.shape, parse_numbers("shape", shape, 0));
  // A kernel without dtype parameters has none to give.
  TRY_ASSIGN(const std::string types, optional(request, "types"));
  TRY_ASSIGN(result.query.types, parse_names("types", types));
  TRY_ASSIGN(const std::string device,
             required(request, "device", "device=sm120-s188-l128M-b512-m96G"));
  const auto device_class = core::DeviceClass::parse(device);
  if (!device_class) {
    return fail(usage("device", device_class.error().message));
  }
  result.query.device = *device_class;
  result.query.facts.sm_count = device_class->sm_count;
  TRY_ASSIGN(const std::string alignments, optional(request, "align"));
  TRY_ASSIGN(result.query.alignments, parse_numbers("align", alignments, 1));
  TRY_ASSIGN(const std::string require, optional(request, "require"));
  if (!require.empty()) {
    const auto match = core::parse_match(require);
    if (!match) {
      return fail(usage("require", match.error().message));
    }
    result.query.require = *match;
  }
  TRY_ASSIGN(result.release, optional(request, "release"));
  return result;
}

Result<Response> ResolveApi::answer(const Request& request) {
  auto answered = resolve(request);
  if (!answered && answered.error().code == ErrorCode::no_match) {
    m_metrics->resolved.back().fetch_add(1);
  }
  return answered;
}

Result<Response> ResolveApi::resolve(const Request& request) {
  TRY_ASSIGN(const ResolveParameters parameters, parse_resolve(request));
  TRY_ASSIGN(const store::Reader reader, m_store->reader());
  TRY_ASSIGN(const store::Release release, pick_release(reader, parameters.release));
  TRY_ASSIGN(const std::vector<store::ReleasedKernel> released,
             store::find_released(reader, release.id, parameters.kernel));
  if (released.empty()) {
    return fail(ErrorCode::no_match,
                "release " + release.name + " holds no kernel \"" + parameters.kernel + "\"");
  }
  TRY_ASSIGN(const Chosen chosen, resolve_released(reader, m_tables, released, parameters.query));
  m_metrics->resolved.at(static_cast<std::size_t>(chosen.choice->match)).fetch_add(1);
  Response response;
  response.headers.emplace_back("Cache-Control",
                                parameters.release.empty() ? "no-cache" : "max-age=5");
  response.set_body(answer_text(release, *chosen.choice), "application/json");
  return response;
}

}  // namespace cubinary::server
