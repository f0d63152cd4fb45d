// SPDX-License-Identifier: Apache-2.0
#include "builder/tune/fill.hpp"

#include <algorithm>
#include <cstdlib>
#include <string_view>

namespace cubinary::builder {

using core::ErrorCode;
using core::fail;
using core::Result;

Result<FillSpec> parse_fill(const std::string& text, const core::DType& dtype,
                            const core::LaunchScope& scope) {
  FillSpec fill;
  const std::size_t open = std::min(text.find('('), text.size());
  const std::string_view name = std::string_view(text).substr(0, open);
  const std::string inner =
      open < text.size() ? text.substr(open + 1, text.size() - open - 2) : std::string();
  const std::size_t comma = inner.find(',');
  const double first = std::strtod(inner.c_str(), nullptr);
  const double second =
      comma == std::string::npos ? 0 : std::strtod(inner.c_str() + comma + 1, nullptr);
  if (text.empty()) {
    // Values that every dtype holds and that no kernel mistakes for a special case.
    const bool floating = dtype.kind == core::DTypeKind::floating;
    fill.kind = floating ? FillKind::normal : FillKind::uniform;
    fill.a = dtype.kind == core::DTypeKind::signed_integer ? -8 : 0;
    fill.b = floating ? 1 : dtype.kind == core::DTypeKind::boolean ? 1 : 8;
  } else if (name == "zero") {
    fill.kind = FillKind::zero;
  } else if (name == "range") {
    fill.kind = FillKind::range;
  } else if (name == "const") {
    fill.kind = FillKind::constant;
    fill.a = first;
  } else if (name == "uniform" || name == "normal") {
    fill.kind = name == "normal" ? FillKind::normal : FillKind::uniform;
    fill.a = first;
    fill.b = second;
  } else if (name == "index") {
    TRY_ASSIGN(const core::Expression bound, core::Expression::parse(inner));
    TRY_ASSIGN(const std::int64_t count, scope.evaluate(bound));
    fill.kind = count > 0 ? FillKind::index : FillKind::zero;
    fill.a = static_cast<double>(count);
  } else if (name == "file") {
    fill.kind = FillKind::file;
    fill.data = core::to_bytes(inner);
  } else {
    return fail(ErrorCode::manifest, "unknown fill \"" + text + "\"");
  }
  return fill;
}

}  // namespace cubinary::builder
