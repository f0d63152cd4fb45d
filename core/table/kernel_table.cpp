// SPDX-License-Identifier: Apache-2.0
#include "core/table/kernel_table.hpp"

#include "core/manifest/manifest.hpp"

namespace cubinary::core {

KernelTable table_from_manifest(const Manifest& manifest) {
  KernelTable table;
  table.name = manifest.name;
  table.summary = manifest.summary;
  table.interface = interface_digest(manifest);
  table.types = manifest.types;
  table.axes = manifest.axes;
  table.lets = manifest.lets;
  table.rules = manifest.rules;
  table.arguments = manifest.arguments;
  table.steps = manifest.steps;
  // What only a build or a tuner needs stays behind.
  for (TypeParameter& type : table.types) {
    type.macro.reset();
    type.spelling.clear();
  }
  for (Axis& axis : table.axes) {
    axis.macro.reset();
  }
  for (Argument& argument : table.arguments) {
    argument.fill.clear();
    argument.location = {};
  }
  for (Step& step : table.steps) {
    step.location = {};
  }
  return table;
}

}  // namespace cubinary::core
