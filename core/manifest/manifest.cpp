// SPDX-License-Identifier: Apache-2.0
#include "core/manifest/manifest.hpp"

#include <algorithm>

#include "core/base/file.hpp"
#include "core/manifest/parse.hpp"

namespace cubinary::core {
namespace {

template <typename T>
const T* find_named(const std::vector<T>& items, std::string_view name) {
  const auto found = std::ranges::find(items, name, &T::name);
  return found == items.end() ? nullptr : &*found;
}

}  // namespace

const Tunable* Manifest::find_tunable(std::string_view wanted) const {
  return find_named(tunables, wanted);
}

const Axis* Manifest::find_axis(std::string_view wanted) const {
  return find_named(axes, wanted);
}

const TypeParameter* Manifest::find_type(std::string_view wanted) const {
  return find_named(types, wanted);
}

const Argument* Manifest::find_argument(std::string_view wanted) const {
  return find_named(arguments, wanted);
}

Config Manifest::default_config() const {
  Config config;
  for (const Tunable& tunable : tunables) {
    config[tunable.name] = tunable.default_value;
  }
  return config;
}

Result<Manifest> parse_manifest(std::string_view text, const std::filesystem::path& path) {
  const std::string label = path.string();
  TRY_ASSIGN(const TomlNode root, parse_toml(text, label));
  const ManifestReader reader(label, text);
  TRY(reader.expect_section(root, "the manifest", "root"));
  ManifestDraft draft;
  draft.manifest.path = path;
  draft.manifest.text = text;
  TRY(parse_head(reader, root, draft));
  TRY(parse_choices(reader, root, draft));
  TRY(parse_launches(reader, root, draft));
  TRY(parse_checks(reader, root, draft));
  TRY(validate_manifest(reader, draft));
  return std::move(draft.manifest);
}

Result<Manifest> load_manifest(const std::filesystem::path& path) {
  constexpr std::uint64_t limit = 1 << 20;
  TRY_ASSIGN(const std::string text, read_text_file(path, limit));
  return parse_manifest(text, path);
}

}  // namespace cubinary::core
