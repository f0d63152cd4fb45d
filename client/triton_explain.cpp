// SPDX-License-Identifier: Apache-2.0
#include "client/triton_explain.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <utility>

#include "core/base/json.hpp"
#include "core/base/nearest.hpp"

namespace cubinary::client {
namespace {

namespace json = core::json;
using core::fail;
using core::Result;

using Parts = std::map<std::string, std::string>;

/// What a part's difference usually means.
struct Meaning {
  std::string_view part;  ///< ends in `.`: a prefix
  std::string_view text;
};
constexpr std::array k_meanings = {
    Meaning{"triton", "capture with the container's Triton"},
    Meaning{"python_abi", "capture with the container's Python"},
    Meaning{"machine", "capture on this CPU architecture"},
    Meaning{"target", "build for this GPU: cubinary triton build --target"},
    Meaning{"arch", "build for this GPU: cubinary triton build --target"},
    Meaning{"triton_key", "another build of the Triton wheel"},
    Meaning{"ptxas", "another ptxas: TRITON_PTXAS_PATH, or another wheel"},
    Meaning{"source.line", "the function moved within its file; its first line is part of the key"},
    Meaning{"source", "the kernel's text, or a function or constant it uses, has changed"},
    Meaning{"signature", "arguments of another type or alignment, or an integer that is 1"},
    Meaning{"constants", "other values of constexpr arguments"},
    Meaning{"attrs", "other alignment or divisibility of arguments"},
    Meaning{"option.", "another launch or compile option"},
    Meaning{"options", "other launch or compile options"},
    Meaning{"env.", "an environment variable that Triton makes part of the key"},
    Meaning{"backend", "another GPU or another ptxas"},
};

std::string_view meaning_of(std::string_view part) {
  for (const Meaning& meaning : k_meanings) {
    if (meaning.part == part || (meaning.part.ends_with('.') && part.starts_with(meaning.part))) {
      return meaning.text;
    }
  }
  return "";
}

/// Parts that only sum others up, and those others.
bool is_summed_up(const std::string& part, const std::set<std::string>& differing) {
  const auto any = [&](std::string_view prefix) {
    return std::ranges::any_of(differing, [&](const std::string& other) {
      return other != part && other.starts_with(prefix);
    });
  };
  if (part == "backend" || part == "ptxas.id") {
    return any("ptxas") || any("arch") || any("target");
  }
  if (part == "arch") {
    return differing.contains("target");
  }
  if (part == "triton_key") {
    return differing.contains("triton") || differing.contains("python_abi");
  }
  return part == "options" && any("option.");
}

Parts all_parts(const Parts& key_parts, const core::TritonOrigin& origin,
                const std::string& target) {
  Parts parts = key_parts;
  parts.insert_or_assign("triton", origin.triton);
  parts.insert_or_assign("python_abi", origin.python_abi);
  parts.insert_or_assign("machine", origin.machine);
  parts.insert_or_assign("target", target);
  return parts;
}

/// Parts that both know and that differ; where only one side knows, there is nothing to compare,
/// except among what may be absent on purpose: environment and options.
std::vector<TritonDifference> compare(const Parts& wanted, const Parts& has) {
  std::set<std::string> differing;
  const auto note = [&](const Parts& a, const Parts& b) {
    for (const auto& [part, text] : a) {
      const auto other = b.find(part);
      const bool optional = part.starts_with("env.") || part.starts_with("option.");
      if (other == b.end() ? optional
                           : (other->second != text && !text.empty() && !other->second.empty())) {
        differing.insert(part);
      }
    }
  };
  note(wanted, has);
  note(has, wanted);
  // Where a source lies is no part of the key, and its digest tells what its text does.
  differing.erase("source.file");
  const auto text_of = [](const Parts& parts, const std::string& part) {
    const auto found = parts.find(part);
    return found == parts.end() ? std::string() : found->second;
  };
  std::vector<TritonDifference> differences;
  for (const std::string& part : differing) {
    if (!is_summed_up(part, differing)) {
      differences.push_back(
          {part, text_of(wanted, part), text_of(has, part), std::string(meaning_of(part))});
    }
  }
  return differences;
}

std::string in_words(std::size_t count, std::string_view what) {
  return std::to_string(count) + " " + std::string(what) + (count == 1 ? "" : "s");
}

TritonExplanation explain_kernel(const TritonMiss& miss,
                                 std::span<const core::TritonCatalogue> catalogues) {
  TritonExplanation explanation;
  const Parts wanted = all_parts(miss.key_parts, miss.origin, miss.target);
  std::vector<std::string> names;
  std::size_t same_name = 0;
  std::optional<std::vector<TritonDifference>> fewest;
  for (const core::TritonCatalogue& catalogue : catalogues) {
    for (const core::TritonKernel& kernel : catalogue.kernels) {
      if (kernel.key == miss.key) {
        explanation.nearest = kernel.key;
        explanation.verdict =
            "the release has it: the cache was laid down from another release, or not completely; "
            "hydrate it again";
        return explanation;
      }
      names.push_back(kernel.name);
      if (kernel.name != miss.name) {
        continue;
      }
      ++same_name;
      auto differences =
          compare(wanted, all_parts(kernel.key_parts, kernel.origin, catalogue.target.text()));
      if (!fewest || differences.size() < fewest->size()) {
        fewest = std::move(differences);
        explanation.nearest = kernel.key;
      }
    }
  }
  if (!fewest) {
    explanation.verdict = "the release has no kernel of this name" +
                          core::did_you_mean(miss.name, names) +
                          ": capture the program with the call that needs it";
    return explanation;
  }
  explanation.differences = *std::move(fewest);
  explanation.verdict = "the release has " + in_words(same_name, "specialisation") +
                        " of this kernel; the nearest " +
                        (explanation.differences.empty() ? "differs in a part that was not recorded"
                                                         : "differs in what follows");
  return explanation;
}

TritonExplanation explain_host(const TritonMiss& miss,
                               std::span<const core::TritonCatalogue> catalogues) {
  TritonExplanation explanation;
  std::optional<std::vector<TritonDifference>> fewest;
  for (const core::TritonCatalogue& catalogue : catalogues) {
    for (const core::TritonHost& host : catalogue.host) {
      if (host.source != miss.source && host.name != miss.name) {
        continue;
      }
      auto differences = compare(all_parts({{"source", miss.source}}, miss.origin, ""),
                                 all_parts({{"source", host.source}}, host.origin, ""));
      for (TritonDifference& difference : differences) {
        if (difference.part == "source") {
          difference.means = "Triton generated other C code: another version, or another signature";
        }
      }
      if (!fewest || differences.size() < fewest->size()) {
        fewest = std::move(differences);
        explanation.nearest = host.source.empty() ? host.keys.front() : host.source;
      }
    }
  }
  if (!fewest) {
    explanation.verdict = "the release has no host module of this name: capture the program again";
    return explanation;
  }
  explanation.differences = *std::move(fewest);
  explanation.verdict =
      explanation.differences.empty()
          ? "the release has it: hydrate the cache again"
          : "the release has this module, but the nearest differs in what follows";
  return explanation;
}

TritonExplanation explain_autotune(const TritonMiss& miss,
                                   std::span<const core::TritonCatalogue> catalogues) {
  TritonExplanation explanation;
  std::set<std::string> classes;
  for (const core::TritonCatalogue& catalogue : catalogues) {
    for (const core::TritonAutotune& result : catalogue.autotune) {
      if (result.key == miss.key) {
        classes.insert(result.device_class);
      }
    }
  }
  if (classes.empty()) {
    explanation.verdict =
        "the release has no autotune result under this key: run this shape while capturing";
    return explanation;
  }
  explanation.nearest = miss.key;
  std::string list;
  for (const std::string& device_class : classes) {
    list += (list.empty() ? "" : ", ") + device_class;
  }
  explanation.verdict = "the release has this result for another GPU";
  explanation.differences = {{"device_class", miss.device_class, list,
                              "capture on this GPU, or accept the other's winner"}};
  return explanation;
}

}  // namespace

Result<TritonMiss> triton_miss_from_json(std::string_view line) {
  auto value = json::parse(line);
  if (!value) {
    return fail(value.error().with_context("a miss"));
  }
  const json::Node top(*value, "a miss");
  TritonMiss miss;
  TRY(top.integer("miss", 1, 1));
  TRY_ASSIGN(miss.kind, top.text("kind"));
  if (miss.kind != "kernel" && miss.kind != "host" && miss.kind != "autotune") {
    return fail(top.error("\"" + miss.kind + "\" is no kind of miss"));
  }
  TRY_ASSIGN(miss.key, top.text_or("key", ""));
  TRY_ASSIGN(miss.name, top.text_or("name", ""));
  TRY_ASSIGN(miss.origin.triton, top.text_or("triton", ""));
  TRY_ASSIGN(miss.origin.python_abi, top.text_or("python_abi", ""));
  TRY_ASSIGN(miss.origin.machine, top.text_or("machine", ""));
  TRY_ASSIGN(miss.target, top.text_or("target", ""));
  TRY_ASSIGN(miss.device_class, top.text_or("device_class", ""));
  TRY_ASSIGN(miss.source, top.text_or("source", ""));
  TRY_ASSIGN(const json::Node parts, top.find("key_parts"));
  if (parts.exists()) {
    TRY_ASSIGN(miss.key_parts, parts.text_map());
  }
  return miss;
}

TritonExplanation explain_triton_miss(const TritonMiss& miss,
                                      std::span<const core::TritonCatalogue> catalogues) {
  if (miss.kind == "host") {
    return explain_host(miss, catalogues);
  }
  if (miss.kind == "autotune") {
    return explain_autotune(miss, catalogues);
  }
  return explain_kernel(miss, catalogues);
}

}  // namespace cubinary::client
