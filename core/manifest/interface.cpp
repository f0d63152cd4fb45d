// SPDX-License-Identifier: Apache-2.0
#include <string_view>

#include "core/manifest/manifest.hpp"

namespace cubinary::core {
namespace {

std::string_view kind_word(ArgumentKind kind) {
  switch (kind) {
    case ArgumentKind::in:
      return "in";
    case ArgumentKind::out:
      return "out";
    case ArgumentKind::inout:
      return "inout";
    case ArgumentKind::scalar:
      return "scalar";
    case ArgumentKind::workspace:
      return "workspace";
    case ArgumentKind::bytes:
      return "bytes";
    case ArgumentKind::handle:
      return "handle";
  }
  return "";
}

}  // namespace

std::string interface_text(const std::vector<Argument>& arguments) {
  std::string text = "cubinary interface 1\n";
  for (const Argument& argument : arguments) {
    if (argument.is || argument.kind == ArgumentKind::workspace) {
      continue;
    }
    text += argument.name;
    text += ' ';
    text += kind_word(argument.kind);
    if (argument.kind == ArgumentKind::bytes) {
      text += ' ' + std::to_string(argument.byte_size) + ' ' + std::to_string(argument.byte_align);
    } else if (argument.kind != ArgumentKind::handle) {
      text += ' ' + argument.type;
    }
    text += '\n';
  }
  return text;
}

Digest interface_digest(const Manifest& manifest) {
  return sha256(interface_text(manifest.arguments));
}

}  // namespace cubinary::core
