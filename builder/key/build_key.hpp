// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "builder/expand/specialise.hpp"
#include "builder/key/inputs.hpp"
#include "core/base/digest.hpp"
#include "core/model/target.hpp"
#include "store/candidates.hpp"

namespace cubinary::builder {

/// All that determines the bytes a compiler makes.
struct KeyParts {
  const Inputs* inputs = nullptr;
  const Specialisation* special = nullptr;
  std::vector<std::string> include_spellings;  ///< include folders as the manifest spells them
  std::string target;
  const store::Toolchain* toolchain = nullptr;
};

/// SHA-256 over the parts, each with its length: candidates of one code key are compiled once.
/// Never a path of this machine, a user, a time, a locale or a host name.
[[nodiscard]] core::Digest code_key(const KeyParts& parts);

/// The build key: the code key and which candidate of which kernel it is made for.
[[nodiscard]] core::Digest build_key(const core::Digest& code, const std::string& kernel,
                                     const Variant& variant);

/// The compiler options of a candidate but for include folders, which are paths of this machine.
[[nodiscard]] std::vector<std::string> compile_options(const Specialisation& special,
                                                       const std::string& target);

}  // namespace cubinary::builder
