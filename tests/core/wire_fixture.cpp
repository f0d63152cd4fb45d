// SPDX-License-Identifier: Apache-2.0
#include "tests/core/wire_fixture.hpp"

#include <stdexcept>

#include "core/base/file.hpp"

namespace cubinary::core::test {
namespace {

template <typename T>
T value_of(Result<T> result) {
  if (!result) {
    throw std::runtime_error(result.error().message);
  }
  return std::move(*result);
}

std::vector<LocatedExpression> exprs(std::initializer_list<std::string_view> texts) {
  std::vector<LocatedExpression> list;
  for (const std::string_view text : texts) {
    list.push_back(expr(text));
  }
  return list;
}

Argument pointer(std::string name, ArgumentKind kind, std::string_view length) {
  Argument argument;
  argument.name = std::move(name);
  argument.kind = kind;
  argument.type = "T";
  argument.length = expr(length);
  return argument;
}

Argument scalar(std::string name, std::string type) {
  Argument argument;
  argument.name = std::move(name);
  argument.kind = ArgumentKind::scalar;
  argument.type = std::move(type);
  return argument;
}

}  // namespace

LocatedExpression expr(std::string_view text) {
  return {value_of(Expression::parse(text)), {}};
}

Target target(std::string_view text) {
  return value_of(Target::parse(text));
}

std::string golden(std::string_view name) {
  return value_of(
      read_text_file(std::string(CUBINARY_GOLDEN) + "/" + std::string(name), 1U << 20U));
}

KernelTable row_table() {
  KernelTable table;
  table.name = "rows";
  table.summary = "one block a few rows";
  table.types = {{"T", {"f32", "f16", "bf16"}, {}, {}}};
  table.axes = {{"rows", {1, 64, 4096}, Bucket::log2, false, {}},
                {"cols", {1024, 4096}, Bucket::exact, false, {}}};
  table.lets = {{"threads", expr("32 * WARPS")}};
  table.rules = exprs({"threads * ROWS <= 1024", "cols % VEC == 0"});
  Argument y = pointer("y", ArgumentKind::out, "rows * cols");
  y.vector = expr("VEC");
  Argument x = pointer("x", ArgumentKind::in, "rows * cols");
  x.vector = expr("VEC");
  Argument n_rows = scalar("n_rows", "i32");
  n_rows.is = expr("rows");
  Argument n_cols = scalar("n_cols", "i32");
  n_cols.is = expr("cols");
  Argument eps = scalar("eps", "f32");
  eps.default_value = 1e-6;
  table.arguments = {y, x, pointer("w", ArgumentKind::in, "cols"), n_rows, n_cols, eps};
  Step step;
  step.name = "main";
  step.entry = "rows<{T}, {VEC}, {ROWS}>";
  step.launch.grid = exprs({"ceil_div(rows, ROWS)"});
  step.launch.block = exprs({"threads", "ROWS"});
  step.launch.smem = expr("4 * ROWS * WARPS");
  step.arguments = {0, 1, 2, 3, 4, 5};
  table.steps = {step};
  table.interface = sha256(interface_text(table.arguments));
  return table;
}

TableEntry row_entry(std::string_view dtype, std::int64_t vec, std::int64_t rows,
                     std::int64_t warps, std::uint64_t offset) {
  TableEntry entry;
  entry.types = {{"T", std::string(dtype)}};
  entry.config = {{"VEC", vec}, {"ROWS", rows}, {"WARPS", warps}};
  entry.offset = offset;
  entry.size = 100;
  entry.artifact = sha256(std::string(dtype) + std::to_string(vec) + std::to_string(rows));
  entry.symbols = {{"_Z4rows", 1024, 32, 0, 0}};
  return entry;
}

Catalogue sample_catalogue() {
  KernelTable table = row_table();
  TableEntry fallback = row_entry("f16", 1, 1, 4, 0);
  fallback.provenance = {{"backend", "nvrtc"}, {"toolkit", "13.0"}};
  TableEntry tuned = row_entry("f16", 8, 2, 4, 100);
  tuned.origin = Origin::tuned;
  tuned.device_class = "sm90-s132-l50M-b5120-m144G";
  tuned.shape = {{"rows", 64}, {"cols", 4096}};
  tuned.time_us = 4.25;
  tuned.confidence = 0.0078125;
  tuned.provenance = {{"driver", "580.95.05"}};
  TableEntry other = tuned;
  other.shape["rows"] = 4096;
  other.time_us = 61.5;
  table.entries = {fallback, tuned, other};
  table.pack = sha256("pack");
  table.pack_size = 150;
  table.pack_raw_size = 200;
  return Catalogue{"r1", target("sm_90"), {13, 0}, 580, {table}};
}

}  // namespace cubinary::core::test
