// SPDX-License-Identifier: Apache-2.0
#include "core/manifest/untuned.hpp"

#include <algorithm>
#include <utility>

namespace cubinary::core {

std::vector<Config> untuned_configs(const Manifest& manifest) {
  const Config fallback = manifest.default_config();
  std::vector<Config> configs;
  for (Config config : manifest.prefer) {
    config.insert(fallback.begin(), fallback.end());
    if (config != fallback && std::ranges::find(configs, config) == configs.end()) {
      configs.push_back(std::move(config));
    }
  }
  configs.push_back(fallback);
  return configs;
}

Config code_part(const Manifest& manifest, const Config& config) {
  Config part;
  for (const Tunable& tunable : manifest.tunables) {
    const auto found = config.find(tunable.name);
    if (found != config.end() && changes_code(tunable.use)) {
      part.insert(*found);
    }
  }
  return part;
}

}  // namespace cubinary::core
