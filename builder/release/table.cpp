// SPDX-License-Identifier: Apache-2.0
#include "builder/release/table.hpp"

#include <algorithm>
#include <cstdio>
#include <map>
#include <tuple>
#include <utility>

#include "core/manifest/manifest.hpp"
#include "core/manifest/untuned.hpp"
#include "core/model/target.hpp"
#include "store/attestations.hpp"
#include "store/audit/audit.hpp"
#include "store/measurements.hpp"

namespace cubinary::builder {
namespace {

using core::Config;
using core::ErrorCode;
using core::fail;
using core::Result;
using core::Shape;
using core::Types;

/// Types and compile axes: what a specialisation is of.
using Combination = std::pair<Types, Shape>;

std::string describe(const Combination& combination) {
  std::string text = core::to_display(combination.first);
  if (!combination.second.empty()) {
    text += " " + core::to_display(combination.second);
  }
  return text;
}

/// The current candidates of one kernel and target, found by what they were made for.
class Candidates {
 public:
  static Result<Candidates> load(const store::Reader& reader, const std::string& kernel,
                                 const std::string& target) {
    Candidates result;
    store::CandidateFilter filter;
    filter.kernel = kernel;
    filter.target = target;
    filter.role = store::CandidateRole::kernel;
    TRY(store::for_each_candidate(reader, filter, false,
                                  [&](const store::Candidate& candidate) -> Result<void> {
                                    result.m_all.push_back(candidate);
                                    return {};
                                  }));
    for (std::size_t i = 0; i < result.m_all.size(); ++i) {
      const store::Candidate& candidate = result.m_all[i];
      result.m_by_id.emplace(candidate.id, i);
      auto& found = result.m_by_config[{candidate.types, candidate.compile_axes}];
      // Of two toolchains' candidates for one config a usable one is taken, then the later one.
      const auto [place, fresh] = found.emplace(candidate.config, i);
      const auto worth = [&](std::size_t index) {
        return std::pair(result.m_all[index].status == store::CandidateStatus::ok,
                         result.m_all[index].id);
      };
      if (!fresh && worth(i) > worth(place->second)) {
        place->second = i;
      }
    }
    return result;
  }

  [[nodiscard]] std::vector<Combination> combinations() const {
    std::vector<Combination> all;
    for (const auto& [combination, configs] : m_by_config) {
      all.push_back(combination);
    }
    return all;
  }
  [[nodiscard]] const store::Candidate* find(const Combination& combination,
                                             const Config& code) const {
    const auto& configs = m_by_config.at(combination);
    const auto found = configs.find(code);
    return found == configs.end() ? nullptr : &m_all[found->second];
  }
  [[nodiscard]] const store::Candidate* find(store::CandidateId id) const {
    const auto found = m_by_id.find(id);
    return found == m_by_id.end() ? nullptr : &m_all[found->second];
  }

 private:
  std::vector<store::Candidate> m_all;
  std::map<store::CandidateId, std::size_t> m_by_id;
  std::map<Combination, std::map<Config, std::size_t>> m_by_config;
};

/// Three digits.
std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", value);
  return text;
}

/// Adds entries to one table and keeps count of what their artifacts need.
class Selection {
 public:
  Selection(SelectedTable& selected, const core::Target& target, store::Attestations attestations)
      : m_selected(selected), m_target(target), m_attestations(std::move(attestations)) {}

  /// What devices said of a config; null when none was asked.
  [[nodiscard]] const store::Attestation* attestation(const store::Candidate& candidate,
                                                      const Config& config) const {
    const auto found = m_attestations.find({candidate.id, config});
    return found == m_attestations.end() ? nullptr : &found->second;
  }

  core::TableEntry& add(const store::Candidate& candidate, const Config& config) {
    core::TableEntry entry;
    entry.types = candidate.types;
    entry.shape = candidate.compile_axes;
    entry.config = config;
    entry.artifact = *candidate.artifact;
    entry.size = candidate.raw_size;
    entry.symbols = candidate.symbols;
    entry.provenance = {{"toolkit", candidate.toolchain.version.text()},
                        {"backend", candidate.toolchain.backend},
                        {"compiler", candidate.toolchain.identity},
                        {"build_key", candidate.build_key.hex()}};
    if (candidate.compile_ms > 0) {
      entry.provenance.emplace("compile_seconds", number(candidate.compile_ms / 1000));
    }
    if (const auto* proof = attestation(candidate, config); proof != nullptr && proof->good()) {
      std::string places;
      for (const std::string& place : proof->passed) {
        places += (places.empty() ? "" : ", ") + place;
      }
      entry.provenance.emplace("attested", std::move(places));
    }
    m_selected.toolkit = std::max(m_selected.toolkit, candidate.toolchain.version);
    m_selected.minimum_driver = std::max(
        m_selected.minimum_driver, core::minimum_driver(candidate.toolchain.version, m_target));
    m_selected.table.entries.push_back(std::move(entry));
    return m_selected.table.entries.back();
  }

 private:
  SelectedTable& m_selected;
  const core::Target& m_target;
  store::Attestations m_attestations;
};

/// Why the candidate cannot ship; empty when it can.
std::string unusable(const store::Candidate* candidate, const core::Manifest& manifest,
                     const std::string& target) {
  if (candidate == nullptr) {
    return "has no candidate: run `cubinary build --target " + target + "` again";
  }
  if (candidate->status != store::CandidateStatus::ok) {
    return std::string(candidate->status == store::CandidateStatus::failed
                           ? "failed to compile"
                           : "did not compile (" +
                                 std::string(store::status_name(candidate->status)) + ")") +
           (candidate->message.empty() ? "" : ": " + candidate->message);
  }
  if (!candidate->artifact || candidate->symbols.size() != manifest.steps.size()) {
    return "was built from another manifest: run `cubinary build --target " + target + "` again";
  }
  return {};
}

Result<void> add_tuned(const store::Reader& reader, const core::Manifest& manifest,
                       const std::string& target, const Candidates& candidates,
                       SelectedTable& selected, Selection& selection) {
  TRY_ASSIGN(const auto winners, store::winners(reader, manifest.name, target));
  for (const store::Winner& winner : winners) {
    if (winner.tuning != 0 && !winner.complete && !winner.baseline_us && winner.failed == 0) {
      // It may well be slower than what runs untuned, which nobody has compared it with.
      selected.notes.push_back(
          "kernel " + manifest.name + ", " + target + ": tuning " + core::to_display(winner.types) +
          " " + core::to_display(winner.shape) + " on " + winner.device_class.text() +
          " ended before what runs untuned was measured; its best, " +
          core::to_display(winner.config) + ", is left out: tune it longer");
      continue;
    }
    const store::Candidate* candidate = candidates.find(winner.candidate);
    if (const std::string why = unusable(candidate, manifest, target); !why.empty()) {
      return fail(ErrorCode::corrupt, "kernel " + manifest.name + ", " + target + ": the winner " +
                                          core::to_display(winner.config) + " on " +
                                          winner.device_class.text() + " " + why);
    }
    core::TableEntry& entry = selection.add(*candidate, winner.config);
    entry.shape = winner.shape;
    entry.device_class = winner.device_class.text();
    entry.origin = core::Origin::tuned;
    entry.time_us = winner.median_us;
    if (winner.median_us > 0) {
      entry.confidence = store::confidence(winner);
    }
    entry.provenance.emplace("driver", winner.driver);
    entry.provenance.emplace("product", winner.product);
    entry.provenance.emplace("search", store::origin_name(store::origin(winner)));
    entry.provenance.emplace("session", std::to_string(winner.session));
    entry.provenance.emplace("measured", std::to_string(winner.created));
    entry.provenance.emplace("samples", std::to_string(winner.samples));
    entry.provenance.emplace("error", number(winner.max_error));
  }
  return {};
}

void add_fallbacks(const core::Manifest& manifest, const std::string& target,
                   const Candidates& candidates, SelectedTable& selected, Selection& selection) {
  const std::vector<Config> choices = core::untuned_configs(manifest);
  for (const Combination& combination : candidates.combinations()) {
    int rank = 0;
    for (std::size_t i = 0; i < choices.size(); ++i) {
      const bool is_default = i + 1 == choices.size();
      const store::Candidate* candidate =
          candidates.find(combination, core::code_part(manifest, choices[i]));
      if (candidate == nullptr && !is_default) {
        continue;  // the rules exclude this preference for these types
      }
      const auto refuse = [&](const std::string& why) {
        (is_default ? selected.problems : selected.notes)
            .push_back("kernel " + manifest.name + ", " + target + ": the " +
                       (is_default ? "default" : "preferred") + " config " +
                       core::to_display(choices[i]) + " " + why);
      };
      if (const std::string why = unusable(candidate, manifest, target); !why.empty()) {
        refuse("for " + describe(combination) + " " + why);
        continue;
      }
      const auto* const proof = selection.attestation(*candidate, choices[i]);
      if (proof != nullptr && proof->failed) {
        refuse("for " + describe(combination) + " " + *proof->failed);
        continue;
      }
      core::TableEntry& entry = selection.add(*candidate, choices[i]);
      entry.rank = rank++;
    }
  }
}

}  // namespace

Result<SelectedTable> select_table(const store::Reader& reader, const store::Kernel& kernel,
                                   const std::string& target_text) {
  TRY_ASSIGN(const core::Target target, core::Target::parse(target_text));
  TRY_ASSIGN(const core::Manifest manifest,
             core::parse_manifest(kernel.manifest, kernel.manifest_path));
  SelectedTable selected;
  selected.table = core::table_from_manifest(manifest);
  TRY_ASSIGN(const auto built_under, store::current_manifest(reader, kernel.name, target_text));
  if (built_under != kernel.manifest_digest) {
    selected.problems.push_back("kernel " + kernel.name + ", " + target_text +
                                ": its manifest has changed since it was built for this target: "
                                "run `cubinary build --target " +
                                target_text + "` again");
    return selected;
  }

  TRY_ASSIGN(const Candidates candidates, Candidates::load(reader, kernel.name, target_text));
  TRY_ASSIGN(auto attestations, store::attestations(reader, kernel.name, target_text));
  Selection selection(selected, target, std::move(attestations));
  TRY(add_tuned(reader, manifest, target_text, candidates, selected, selection));
  add_fallbacks(manifest, target_text, candidates, selected, selection);

  std::sort(selected.table.entries.begin(), selected.table.entries.end(),
            [](const core::TableEntry& a, const core::TableEntry& b) {
              return std::tie(a.types, a.shape, a.device_class, a.rank, a.config) <
                     std::tie(b.types, b.shape, b.device_class, b.rank, b.config);
            });
  return selected;
}

}  // namespace cubinary::builder
