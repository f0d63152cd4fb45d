// SPDX-License-Identifier: Apache-2.0
// catalogue_from_json: what is accepted is JSON, writes back stably, and can be resolved and
// planned.
#include <cstdint>
#include <cstdlib>

#include "core/base/json.hpp"
#include "core/model/device_class.hpp"
#include "core/table/kernel_table.hpp"
#include "core/table/resolve.hpp"

using namespace cubinary::core;

namespace {

void use(const Catalogue& catalogue) {
  for (const KernelTable& table : catalogue.kernels) {
    for (const TableEntry& entry : table.entries) {
      if (entry.offset + entry.size > table.pack_raw_size) {
        std::abort();
      }
      Shape shape;
      for (const Axis& axis : table.axes) {
        const auto at = entry.shape.find(axis.name);
        shape[axis.name] = at == entry.shape.end() ? 3 : at->second;
      }
      (void)plan_launch(table, entry, shape, {}, catalogue.target, {});
      ResolveQuery query;
      query.types = entry.types;
      query.shape = shape;
      query.device = DeviceClass::from_attributes(catalogue.target.capability(), 4, 1 << 20, 64,
                                                  std::int64_t{8} << 30);
      (void)resolve(std::vector<ResolveTable>{{catalogue.target, &table}}, query, true);
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto catalogue = catalogue_from_json(text);
  if (!catalogue) {
    return 0;
  }
  // Read in parts, some of them stepped over at first: as a whole it must be JSON all the same.
  if (!json::parse(text)) {
    std::abort();
  }
  const std::string written = catalogue_to_json(*catalogue);
  const auto again = catalogue_from_json(written);
  if (!again || catalogue_to_json(*again) != written) {
    std::abort();
  }
  use(*catalogue);
  return 0;
}
