// SPDX-License-Identifier: Apache-2.0
#include "builder/inspect/match_entry.hpp"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <memory>

#include <cxxabi.h>

namespace cubinary::builder {

namespace {

bool is_name(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

/// Where the argument list that ends at `text`'s end begins: the matching `<`, or the end.
std::size_t template_begin(std::string_view text) {
  if (!text.ends_with('>')) {
    return text.size();
  }
  int depth = 0;
  for (std::size_t at = text.size(); at-- > 0;) {
    depth += text[at] == '>' ? 1 : text[at] == '<' ? -1 : 0;
    if (depth == 0) {
      return at;
    }
  }
  return text.size();
}

struct Name {
  std::string base;       ///< unqualified
  std::string arguments;  ///< normalised, with their angle brackets; empty: none
};

/// Drops what two spellings of the same arguments differ in.
std::string normalise(std::string_view arguments) {
  std::string text;
  for (std::size_t at = 0; at < arguments.size(); ++at) {
    const char c = arguments[at];
    const bool after_digit = !text.empty() && std::isdigit(static_cast<unsigned char>(text.back()));
    if (c == ' ') {
      // Only a space between two names says anything: `unsigned int`.
      if (!text.empty() && is_name(text.back()) && at + 1 < arguments.size() &&
          is_name(arguments[at + 1])) {
        text.push_back(' ');
      }
    } else if ((c == 'u' || c == 'U' || c == 'l' || c == 'L') && after_digit) {
      // A literal's suffix, unless the digit ends a name such as `int4u`.
      std::size_t begin = text.size();
      while (begin > 0 && is_name(text[begin - 1])) {
        --begin;
      }
      if (std::isdigit(static_cast<unsigned char>(text[begin])) == 0) {
        text.push_back(c);
      } else {
        while (at + 1 < arguments.size() &&
               std::string_view("uUlL").find(arguments[at + 1]) != std::string_view::npos) {
          ++at;
        }
      }
    } else if (c == '(') {
      // A cast before a literal, `(Kind)1`; anything else in parentheses stays.
      const std::size_t close = arguments.find(')', at);
      const bool cast = close != std::string_view::npos && close + 1 < arguments.size() &&
                        (std::isdigit(static_cast<unsigned char>(arguments[close + 1])) != 0 ||
                         arguments[close + 1] == '-');
      if (cast) {
        at = close;
      } else {
        text.push_back(c);
      }
    } else {
      text.push_back(c);
    }
  }
  return text;
}

Name split(std::string_view text) {
  const std::size_t end = template_begin(text);
  std::size_t begin = end;
  while (begin > 0 && is_name(text[begin - 1])) {
    --begin;
  }
  return {std::string(text.substr(begin, end - begin)), normalise(text.substr(end))};
}

/// A demangled function's qualified name with template arguments, without return type and
/// parameters.
std::string_view without_parameters(std::string_view text) {
  int angles = 0;
  constexpr std::string_view k_anonymous = "(anonymous namespace)";
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text.substr(at).starts_with(k_anonymous)) {
      at += k_anonymous.size() - 1;
      continue;
    }
    angles += text[at] == '<' ? 1 : text[at] == '>' ? -1 : 0;
    if (angles == 0 && text[at] == '(') {
      return text.substr(0, at);
    }
  }
  return text;
}

/// The function itself: what stands in the parentheses of a cast that picks an overload.
std::string_view without_cast(std::string_view expression) {
  while (!expression.empty() && expression.back() == ' ') {
    expression.remove_suffix(1);
  }
  if (!expression.ends_with(')')) {
    return expression;
  }
  const std::size_t open = expression.rfind('(');
  return expression.substr(open + 1, expression.size() - open - 2);
}

/// Names one after another, each between `quote`s; the first eight.
std::string listed(const std::vector<std::string>& names, const std::string& quote) {
  constexpr std::size_t k_most = 8;
  std::string text;
  for (std::size_t i = 0; i < names.size() && i < k_most; ++i) {
    text += (i == 0 ? "" : ", ") + quote + names[i] + quote;
  }
  return names.size() > k_most ? text + ", …" : text;
}

}  // namespace

std::string demangled(const std::string& symbol) {
  // Without its mark a name may be a type's: `f` is float.
  if (!symbol.starts_with("_Z")) {
    return symbol;
  }
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(
      abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, &status), std::free);
  return status == 0 ? text.get() : symbol;
}

std::optional<std::string> match_entry(std::string_view expression,
                                       const std::vector<std::string>& symbols) {
  const Name wanted = split(without_cast(expression));
  std::vector<std::string> same_base;
  std::vector<std::string> same;
  for (const std::string& symbol : symbols) {
    const std::string text = demangled(symbol);
    const Name name = split(without_parameters(text));
    if (name.base != wanted.base) {
      continue;
    }
    same_base.push_back(symbol);
    if (name.arguments == wanted.arguments) {
      same.push_back(symbol);
    }
  }
  if (same_base.size() == 1) {
    return same_base.front();
  }
  if (same.size() == 1) {
    return same.front();
  }
  return std::nullopt;
}

core::Result<FoundEntries> find_entries(const CubinInfo& info, std::span<const std::string> names,
                                        std::span<const std::string> told) {
  std::vector<std::string> all;
  for (const CubinEntry& entry : info.entries) {
    all.push_back(entry.symbol);
  }
  FoundEntries found;
  std::vector<std::string> missing;
  std::vector<std::string> hollow;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const std::string symbol =
        i < told.size() && !told[i].empty() ? told[i] : match_entry(names[i], all).value_or("");
    const CubinEntry* const entry = info.find(symbol);
    if (entry == nullptr) {
      missing.push_back(names[i]);
    } else if (entry->hollow) {
      hollow.push_back(names[i]);
    }
    found.entries.push_back(entry);
  }
  if (!missing.empty()) {
    return core::fail(
        core::ErrorCode::bad_cubin,
        all.empty()
            ? "the cubin has no entry at all: is the source empty for this target "
              "(#if __CUDA_ARCH__)?"
            : "the cubin has no entry for " + listed(missing, "`") + "; it has " + listed(all, ""));
  }
  if (!hollow.empty()) {
    return core::fail(core::ErrorCode::bad_cubin,
                      listed(hollow, "`") + (hollow.size() == 1 ? " does" : " do") +
                          " nothing when compiled for " + info.target +
                          ": is the body empty there (#if __CUDA_ARCH__)?");
  }
  for (const CubinEntry& entry : info.entries) {
    if (std::find(found.entries.begin(), found.entries.end(), &entry) == found.entries.end()) {
      found.extra.push_back(entry.symbol);
    }
  }
  return found;
}

}  // namespace cubinary::builder
