// SPDX-License-Identifier: Apache-2.0
#include "builder/key/explain.hpp"

#include <algorithm>
#include <vector>

#include "core/base/json.hpp"

namespace cubinary::builder {

using core::json::Node;
using core::json::Object;
using core::json::Value;

namespace {

std::string file_word(const Inputs& inputs, const std::string& name) {
  const bool source =
      std::any_of(inputs.sources.begin(), inputs.sources.end(),
                  [&](const std::string& each) { return name == "source/" + each; });
  return source ? "source " + name.substr(std::string_view("source/").size()) : "header " + name;
}

}  // namespace

InputRecord record_of(const PlannedKernel& kernel) {
  InputRecord record;
  for (const auto& [role, inputs] : kernel.inputs) {
    for (const auto& [name, digest] : inputs.files) {
      record.files[name] = digest.hex();
    }
  }
  record.compiler = kernel.toolchain.backend + " " + kernel.toolchain.identity;
  const auto add = [&](const std::string& text) { record.options += text + "\n"; };
  const core::Manifest& manifest = kernel.manifest;
  std::for_each(manifest.flags.begin(), manifest.flags.end(), add);
  std::for_each(manifest.includes.begin(), manifest.includes.end(), add);
  for (const core::Step& step : manifest.steps) {
    add(step.entry);
  }
  return record;
}

std::string to_json(const InputRecord& record) {
  Object files;
  for (const auto& [name, digest] : record.files) {
    files.emplace(name, Value(digest));
  }
  return core::json::to_text(Object{{"compiler", Value(record.compiler)},
                                    {"files", Value(std::move(files))},
                                    {"options", Value(record.options)},
                                    {"version", Value(1)}});
}

std::optional<InputRecord> record_from_json(std::string_view json) {
  const auto document = core::json::parse(json);
  if (!document) {
    return std::nullopt;
  }
  const Node node(*document, "the kernel's inputs");
  InputRecord record;
  const auto files = node.at("files");
  auto map = files ? files->text_map() : core::fail(files.error());
  auto compiler = node.text("compiler");
  auto options = node.text("options");
  if (!map || !compiler || !options) {
    return std::nullopt;
  }
  record.files = std::move(*map);
  record.compiler = std::move(*compiler);
  record.options = std::move(*options);
  return record;
}

std::string explain(const PlannedKernel& kernel, const PlannedCandidate& candidate,
                    const std::optional<InputRecord>& before, bool retry_failed) {
  if (candidate.known) {
    if (candidate.known->status == store::CandidateStatus::ok) {
      return "unchanged";
    }
    return retry_failed ? "failed before, tried again"
                        : "unchanged, and failed before (--retry-failed tries again)";
  }
  if (!candidate.again.empty()) {
    return candidate.again;
  }
  if (!before) {
    return "new: this kernel was not built before";
  }
  std::vector<std::string> reasons;
  const Inputs& inputs = kernel.inputs.at(candidate.variant.role);
  for (const auto& [name, digest] : inputs.files) {
    const auto then = before->files.find(name);
    if (then == before->files.end()) {
      reasons.push_back(file_word(inputs, name) + " is new");
    } else if (then->second != digest.hex()) {
      reasons.push_back(file_word(inputs, name) + " changed");
    }
  }
  const InputRecord now = record_of(kernel);
  for (const auto& [name, digest] : before->files) {
    if (!now.files.contains(name)) {
      reasons.push_back(file_word(inputs, name) + " is gone");
    }
  }
  if (before->compiler != now.compiler) {
    reasons.push_back("compiler changed from " + before->compiler + " to " + now.compiler);
  }
  if (before->options != now.options) {
    reasons.emplace_back("flags, include folders or entries changed in the manifest");
  }
  if (reasons.empty()) {
    return "new: this config or target was not built before";
  }
  std::string text;
  constexpr std::size_t k_most = 4;
  for (std::size_t i = 0; i < reasons.size() && i < k_most; ++i) {
    text += (i == 0 ? "" : "; ") + reasons[i];
  }
  if (reasons.size() > k_most) {
    text += "; and " + std::to_string(reasons.size() - k_most) + " more";
  }
  return text;
}

}  // namespace cubinary::builder
