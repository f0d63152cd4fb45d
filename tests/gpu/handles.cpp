// SPDX-License-Identifier: Apache-2.0
#include "tests/gpu/handles.hpp"

#include <cstdlib>

namespace cubinary::gpu {

namespace {

std::vector<cubinary_value> to_values(const NamedValues& named) {
  std::vector<cubinary_value> values;
  for (const auto& [name, value] : named) {
    values.push_back({name.c_str(), value});
  }
  return values;
}

}  // namespace

cubinary_status Release::open(const std::string& cache) {
  auto options = CUBINARY_INIT(cubinary_options);
  const char* key = std::getenv("CUBINARY_TEST_KEY");
  options.source = std::getenv("CUBINARY_TEST_SOURCE");
  options.keys = &key;
  options.key_count = key == nullptr ? 0 : 1;
  options.cache = cache.c_str();
  return cubinary_open(&options, &m_context);
}

cubinary_status Kernel::resolve(const Release& release, const std::string& name,
                                const std::string& interface_digest, const std::string& dtype,
                                const NamedValues& axes, const NamedValues& alignments) {
  const cubinary_type type{"T", dtype.c_str()};
  const auto axis_values = to_values(axes);
  const auto alignment_values = to_values(alignments);
  auto query = CUBINARY_INIT(cubinary_query);
  query.kernel = name.c_str();
  query.interface_digest = interface_digest.c_str();
  query.types = &type;
  query.type_count = 1;
  query.axes = axis_values.data();
  query.axis_count = axis_values.size();
  query.alignments = alignment_values.data();
  query.alignment_count = alignment_values.size();
  return cubinary_resolve(release.get(), &query, &m_kernel);
}

cubinary_kernel_info Kernel::info() const {
  auto info = CUBINARY_INIT(cubinary_kernel_info);
  if (cubinary_kernel_get_info(m_kernel, &info) != CUBINARY_OK) {
    info.config = info.match = info.artifact = info.target = "?";
  }
  return info;
}

std::string failure(const std::string& what, cubinary_status status) {
  return what + ": " + cubinary_status_name(status) + ": " + cubinary_error_message(nullptr);
}

}  // namespace cubinary::gpu
