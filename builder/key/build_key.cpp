// SPDX-License-Identifier: Apache-2.0
#include "builder/key/build_key.hpp"

#include <algorithm>

namespace cubinary::builder {

core::Digest code_key(const KeyParts& parts) {
  core::Hasher hasher;
  const auto list = [&](std::string_view name, const std::vector<std::string>& values) {
    hasher.field(name).field(std::to_string(values.size()));
    for (const std::string& value : values) {
      hasher.field(value);
    }
  };
  hasher.field("cubinary code key 1");
  hasher.field("inputs").update(parts.inputs->digest.raw());
  list("includes", parts.include_spellings);
  list("entries", parts.special->entries);
  list("options", compile_options(*parts.special, parts.target));
  hasher.field("target").field(parts.target);
  hasher.field("backend").field(parts.toolchain->backend);
  hasher.field("compiler").field(parts.toolchain->identity);
  return hasher.finish();
}

core::Digest build_key(const core::Digest& code, const std::string& kernel,
                       const Variant& variant) {
  return core::Hasher()
      .field("cubinary build key 1")
      .update(code.raw())
      .field(kernel)
      .field(store::role_name(variant.role))
      .field(core::to_json(variant.types))
      .field(core::to_json(variant.compile_axes))
      .field(core::to_json(variant.config))
      .finish();
}

std::vector<std::string> compile_options(const Specialisation& special, const std::string& target) {
  std::vector<std::string> options{"--gpu-architecture=" + target};
  const bool names_standard =
      std::any_of(special.options.begin(), special.options.end(), [](const std::string& option) {
        return option.starts_with("-std") || option.starts_with("--std");
      });
  if (!names_standard) {
    options.emplace_back("-std=c++17");
  }
  options.emplace_back("--ptxas-options=-v");
  options.insert(options.end(), special.options.begin(), special.options.end());
  return options;
}

}  // namespace cubinary::builder
