// SPDX-License-Identifier: Apache-2.0
#include "builder/release/resources.hpp"

#include <algorithm>
#include <iterator>
#include <set>
#include <tuple>
#include <utility>

#include "builder/release/table.hpp"
#include "core/launch/names.hpp"
#include "core/manifest/manifest.hpp"
#include "store/audit/answer.hpp"
#include "store/measurements.hpp"
#include "store/values_json.hpp"

namespace cubinary::builder {
namespace {

namespace json = core::json;
using core::ErrorCode;
using core::fail;
using core::Result;

/// What every allocator of device memory gives.
constexpr std::int64_t k_allocated = 256;

auto key(const ResourceRow& row) {
  return std::tie(row.kernel, row.target, row.device_class, row.types, row.config, row.step);
}

bool alike(const ResourceRow& a, const ResourceRow& b) {
  return key(a) == key(b) && a.block.threads == b.block.threads && a.block.smem == b.block.smem &&
         a.block.registers == b.block.registers;
}

/// One kernel on one target: the table a release would have, asked shape by shape.
class KernelResources {
 public:
  KernelResources(const core::Manifest& manifest, const SelectedTable& selected,
                  core::Target target, ResourceAnswer& answer)
      : m_manifest(manifest), m_table(selected.table), m_target(target), m_answer(answer) {}

  void add(const core::DeviceClass& device) {
    std::set<core::Types> types;
    for (const core::TableEntry& entry : m_table.entries) {
      types.insert(entry.types);
    }
    for (const core::Types& each : types) {
      core::ResolveQuery query;
      query.types = each;
      query.device = device;
      query.facts.sm_count = device.sm_count;
      for (const core::CallerArgument& argument : core::caller_arguments(m_table, each)) {
        if (core::is_pointer(argument.kind)) {
          query.alignments.emplace(argument.name, k_allocated);
        }
      }
      for (core::Shape& shape : store::tuned_shapes(m_manifest)) {
        query.shape = std::move(shape);
        if (const auto added = add(query); !added) {
          m_answer.unserved.push_back(m_manifest.name + ", " + m_target.text() + ", " +
                                      core::to_display(query.types) + " " +
                                      core::to_display(query.shape) + ": " + added.error().message);
        }
      }
    }
  }

 private:
  Result<void> add(const core::ResolveQuery& query) {
    const core::ResolveTable table{.target = m_target, .table = &m_table};
    TRY_ASSIGN(const core::Choice choice, core::resolve({&table, 1}, query));
    for (const core::StepPlan& step : choice.plan.steps) {
      if (step.empty) {
        continue;
      }
      const core::EntrySymbol& symbol = choice.entry->symbols.at(step.step);
      ResourceRow row;
      row.kernel = m_manifest.name;
      row.target = m_target.text();
      row.device_class = query.device;
      row.types = query.types;
      row.config = choice.entry->config;
      row.match = choice.match;
      row.step = m_table.steps.at(step.step).name;
      row.spill_bytes = symbol.spill_bytes;
      row.block = {.threads = std::int64_t{step.block[0]} * step.block[1] * step.block[2],
                   .registers = symbol.registers,
                   .smem = symbol.static_smem + step.dynamic_smem};
      row.occupancy = core::occupancy(m_target, row.block);
      row.shapes = {query.shape};
      m_answer.rows.push_back(std::move(row));
    }
    return {};
  }

  const core::Manifest& m_manifest;
  const core::KernelTable& m_table;
  core::Target m_target;
  ResourceAnswer& m_answer;
};

void join_alike(std::vector<ResourceRow>& rows) {
  std::sort(rows.begin(), rows.end(), [](const ResourceRow& a, const ResourceRow& b) {
    return std::tuple(key(a), a.block.threads, a.block.smem, a.block.registers, a.shapes) <
           std::tuple(key(b), b.block.threads, b.block.smem, b.block.registers, b.shapes);
  });
  std::vector<ResourceRow> joined;
  for (ResourceRow& row : rows) {
    if (joined.empty() || !alike(joined.back(), row)) {
      joined.push_back(std::move(row));
      continue;
    }
    joined.back().match = std::min(joined.back().match, row.match);
    std::move(row.shapes.begin(), row.shapes.end(), std::back_inserter(joined.back().shapes));
  }
  rows = std::move(joined);
}

json::Value to_json(const ResourceAnswer& answer) {
  json::Array rows;
  for (const ResourceRow& row : answer.rows) {
    json::Array shapes;
    for (const core::Shape& shape : row.shapes) {
      shapes.emplace_back(store::values_to_json(shape));
    }
    rows.emplace_back(json::Object{{"kernel", row.kernel},
                                   {"target", row.target},
                                   {"device_class", row.device_class.text()},
                                   {"types", store::values_to_json(row.types)},
                                   {"config", store::values_to_json(row.config)},
                                   {"match", std::string(core::match_name(row.match))},
                                   {"step", row.step},
                                   {"registers", row.block.registers},
                                   {"spill_bytes", row.spill_bytes},
                                   {"smem_bytes", row.block.smem},
                                   {"threads", row.block.threads},
                                   {"blocks_per_sm", row.occupancy.blocks},
                                   {"occupancy", row.occupancy.warps},
                                   {"limit", std::string(row.occupancy.limit)},
                                   {"shape_count", static_cast<std::int64_t>(row.shapes.size())},
                                   {"shapes", std::move(shapes)}});
  }
  json::Array unserved(answer.unserved.begin(), answer.unserved.end());
  return json::Object{
      {"audit", "resources"}, {"resources", std::move(rows)}, {"unserved", std::move(unserved)}};
}

/// The classes to ask for.
Result<std::vector<core::DeviceClass>> asked_classes(const store::Reader& reader,
                                                     const store::AuditFilter& filter) {
  if (filter.device_class) {
    return std::vector{*filter.device_class};
  }
  TRY_ASSIGN(auto classes, store::device_classes(reader));
  if (classes.empty()) {
    return fail(ErrorCode::usage,
                "the store knows no GPU yet: name one with --device-class, such as "
                "sm120-s188-l128M-b512-m96G");
  }
  return classes;
}

}  // namespace

Result<ResourceAnswer> audit_resources(const store::Reader& reader,
                                       const store::AuditFilter& filter) {
  TRY_ASSIGN(const auto kernels, store::audited_kernels(reader, filter));
  TRY_ASSIGN(const auto classes, asked_classes(reader, filter));
  ResourceAnswer answer;
  for (const store::Kernel& kernel : kernels) {
    TRY_ASSIGN(const core::Manifest manifest,
               core::parse_manifest(kernel.manifest, kernel.manifest_path));
    TRY_ASSIGN(const auto targets, store::current_targets(reader, kernel.name));
    for (const std::string& text : targets) {
      TRY_ASSIGN(const core::Target target, core::Target::parse(text));
      const auto runs = [&](const core::DeviceClass& device) {
        return target.runs_on(device.capability);
      };
      if ((!filter.target.empty() && filter.target != text) ||
          std::none_of(classes.begin(), classes.end(), runs)) {
        continue;
      }
      TRY_ASSIGN(const SelectedTable selected, select_table(reader, kernel, text));
      std::copy(selected.problems.begin(), selected.problems.end(),
                std::back_inserter(answer.unserved));
      KernelResources resources(manifest, selected, target, answer);
      for (const core::DeviceClass& device : classes) {
        if (runs(device)) {
          resources.add(device);
        }
      }
    }
  }
  join_alike(answer.rows);
  return answer;
}

Result<json::Value> audit(const store::Reader& reader, std::string_view query,
                          const std::map<std::string, std::string>& parameters) {
  if (query != "resources") {
    return store::audit(reader, query, parameters);
  }
  std::map<std::string, std::string> others = parameters;
  std::optional<core::DeviceClass> device_class;
  if (const auto given = others.find("device_class"); given != others.end()) {
    if (const auto parsed = core::DeviceClass::parse(given->second)) {
      device_class = *parsed;
      others.erase(given);
    }
  }
  TRY_ASSIGN(store::AuditFilter filter, store::audit_filter(reader, others));
  if (device_class) {
    filter.device_class = device_class;
  }
  TRY_ASSIGN(const ResourceAnswer answer, audit_resources(reader, filter));
  return to_json(answer);
}

}  // namespace cubinary::builder
