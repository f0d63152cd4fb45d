// SPDX-License-Identifier: Apache-2.0
#include "core/table/resolve.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <set>
#include <tuple>

#include "core/base/nearest.hpp"
#include "core/launch/names.hpp"

namespace cubinary::core {
namespace {

constexpr std::array<std::string_view, 4> k_match_names = {"exact", "nearest-shape", "other-class",
                                                           "default"};

/// A table that the device loads.
struct Source {
  const ResolveTable* given = nullptr;
  LaunchScope scope;  ///< of the query; each candidate in turn uses it
};

/// An entry of the right types, with all that its place in the cascade depends on.
struct Candidate {
  Source* source = nullptr;
  const TableEntry* entry = nullptr;
  Match match = Match::fallback;
  double class_distance = 0;
  double shape_distance = 0;
  double size = 0;  ///< Σ log2(axis + 1), for "ties to the larger"
  double time_us = std::numeric_limits<double>::infinity();
  bool misfit = false;         ///< it can never serve this query
  const Axis* axis = nullptr;  ///< a misfit: for this axis; none: for its device class
  // The distances and the size as they are compared.
  std::int64_t class_rank = 0;
  std::int64_t shape_rank = 0;
  std::int64_t size_rank = 0;
};

// Suffix order among targets: a, f, none.
int suffix_order(const Target& target) {
  return -static_cast<int>(target.suffix());
}

// Distances are compared to nine decimals, so that a tie is one with every libm and order of sums.
std::int64_t comparable(double value) {
  return std::llround(value * 1e9);
}

// The documented order; `a` stands before `b`.
bool before(const Candidate& a, const Candidate& b) {
  const auto key = [](const Candidate& c) {
    return std::tuple(c.misfit, c.match, c.class_rank, c.shape_rank, -c.size_rank, c.time_us,
                      suffix_order(c.source->given->target));
  };
  if (const auto ka = key(a), kb = key(b); ka != kb) {
    return ka < kb;
  }
  if (const Target &ta = a.source->given->target, &tb = b.source->given->target; ta != tb) {
    return ta > tb;
  }
  if (a.entry->rank != b.entry->rank) {
    return a.entry->rank < b.entry->rank;
  }
  if (a.entry->shape != b.entry->shape) {
    return a.entry->shape > b.entry->shape;
  }
  const auto last = [](const TableEntry& e) {
    return std::tie(e.device_class, e.config, e.artifact);
  };
  return last(*a.entry) < last(*b.entry);
}

double axis_distance(std::int64_t a, std::int64_t b) {
  const auto low = static_cast<double>(std::min(a, b)) + 1;
  const auto high = static_cast<double>(std::max(a, b)) + 1;
  // High over low, so that twice and half are equally far to the last bit.
  return std::log2(high / low);
}

const std::vector<TableEntry>& entries_of(const ResolveTable& source) {
  return source.entries != nullptr ? *source.entries : source.table->entries;
}

class Resolver {
 public:
  Resolver(std::span<const ResolveTable> tables, const ResolveQuery& query, bool with_trace)
      : m_tables(tables),
        m_query(query),
        m_device_class(query.device.text()),
        m_with_trace(with_trace) {}

  Result<Choice> run() {
    TRY(collect());
    // One of the first is nearly always the answer: the others need no order.
    const auto after = [](const Candidate& a, const Candidate& b) { return before(b, a); };
    std::ranges::make_heap(m_candidates, after);
    std::optional<Choice> choice;
    std::vector<ResolveTrace> trace;
    for (auto end = m_candidates.end(); end != m_candidates.begin(); --end) {
      std::ranges::pop_heap(m_candidates.begin(), end, after);
      const Candidate& candidate = *(end - 1);
      std::string reason;
      std::optional<LaunchPlan> plan = choice ? std::nullopt : serve(candidate, reason);
      const bool accepted = plan.has_value();
      if (choice && !candidate.misfit) {
        reason = "further away than the answer";
      }
      if (accepted) {
        reason = how(candidate);
        choice = Choice{candidate.source->given->target,
                        candidate.source->given->table,
                        candidate.entry,
                        candidate.match,
                        *std::move(plan),
                        reason,
                        {}};
        if (!m_with_trace) {
          return std::move(*choice);
        }
      }
      if (m_with_trace) {
        trace.push_back(ResolveTrace{candidate.entry, candidate.source->given->target,
                                     candidate.match, candidate.shape_distance,
                                     candidate.class_distance, accepted, std::move(reason)});
      }
    }
    if (!choice) {
      return fail(no_match());
    }
    choice->trace = std::move(trace);
    return std::move(*choice);
  }

 private:
  Result<void> collect() {
    m_sources.reserve(m_tables.size());  // candidates point into it
    for (const ResolveTable& given : m_tables) {
      if (!given.target.runs_on(m_query.device.capability)) {
        continue;
      }
      TRY_ASSIGN(LaunchScope scope,
                 LaunchScope::make(*given.table, m_query.types, m_query.shape, m_query.alignments,
                                   given.target, m_query.facts));
      Source& source = m_sources.emplace_back(Source{&given, std::move(scope)});
      for (const TableEntry& entry : entries_of(given)) {
        if (entry.types == m_query.types) {
          add(source, entry);
        }
      }
    }
    return {};
  }

  void add(Source& source, const TableEntry& entry) {
    Candidate candidate;
    candidate.source = &source;
    candidate.entry = &entry;
    const bool here = entry.device_class == m_device_class;
    if (entry.origin == Origin::fallback) {
      candidate.misfit = !entry.device_class.empty() && !here;
    } else {
      candidate.time_us = entry.time_us.value_or(candidate.time_us);
      candidate.match = Match::other_class;
      if (here) {
        candidate.match = entry.shape == m_query.shape ? Match::exact : Match::nearest_shape;
      } else if (const auto other = DeviceClass::parse(entry.device_class)) {
        candidate.class_distance = distance(*other, m_query.device);
      } else {
        candidate.misfit = true;
      }
    }
    for (const Axis& axis : source.given->table->axes) {
      compare_axis(axis, candidate);
    }
    candidate.class_rank = comparable(candidate.class_distance);
    candidate.shape_rank = comparable(candidate.shape_distance);
    candidate.size_rank = comparable(candidate.size);
    m_candidates.push_back(candidate);
  }

  void compare_axis(const Axis& axis, Candidate& candidate) const {
    const auto given = candidate.entry->shape.find(axis.name);
    if (given == candidate.entry->shape.end()) {
      return;
    }
    const std::int64_t asked = m_query.shape.at(axis.name);
    if (given->second == asked) {
      candidate.size += std::log2(static_cast<double>(asked) + 1);
    } else if (axis.compile || axis.bucket == Bucket::exact) {
      candidate.misfit = true;
      candidate.axis = &axis;
    } else {
      candidate.shape_distance += axis_distance(given->second, asked);
      candidate.size += std::log2(static_cast<double>(given->second) + 1);
    }
  }

  // The candidate's launches, where it answers the query; `reason` says why it does not.
  std::optional<LaunchPlan> serve(const Candidate& candidate, std::string& reason) {
    if (candidate.misfit) {
      reason = why_misfit(candidate);
      return std::nullopt;
    }
    LaunchScope& scope = candidate.source->scope;
    Result<LaunchPlan> plan;
    if (auto used = scope.use(candidate.entry->config); !used) {
      plan = fail(std::move(used).error());
    } else if (const RuleCheck rules = check_rules(scope); rules.ok) {
      plan = plan_launch(*candidate.entry, scope);
    } else if (!m_with_trace && !m_nearest_miss.empty()) {
      return std::nullopt;  // nobody will read why: most candidates of an untuned kernel end here
    } else {
      plan = fail(broken_rule(*candidate.entry, scope, rules));
    }
    if (!plan) {
      reason = plan.error().message;
      if (const std::string head = "kernel " + scope.table().name + ": ";
          reason.starts_with(head)) {
        reason.erase(0, head.size());
      }
      if (m_nearest_miss.empty()) {
        m_nearest_miss = reason;
      }
      return std::nullopt;
    }
    if (candidate.match > m_query.require) {
      reason =
          "require=" + std::string(match_name(m_query.require)) + " refuses it: " + how(candidate);
      if (m_refused.empty()) {
        m_refused = reason;
      }
      return std::nullopt;
    }
    return *std::move(plan);
  }

  [[nodiscard]] static std::string why_misfit(const Candidate& candidate) {
    const TableEntry& entry = *candidate.entry;
    if (candidate.axis != nullptr) {
      const std::string& axis = candidate.axis->name;
      return std::string(candidate.axis->compile ? "compiled" : "measured") + " for " + axis + "=" +
             std::to_string(entry.shape.at(axis)) + " only";
    }
    return entry.origin == Origin::fallback ? "it is for " + entry.device_class
                                            : "\"" + entry.device_class + "\" is no device class";
  }

  [[nodiscard]] std::string how(const Candidate& candidate) const {
    const TableEntry& entry = *candidate.entry;
    const std::string config =
        "config " + to_display(entry.config) + " of " + candidate.source->given->target.text();
    switch (candidate.match) {
      case Match::exact:
        return config + ", the winner on this device class at this very shape";
      case Match::nearest_shape:
        return config + ", the winner on this device class at the nearest shape, " +
               to_display(entry.shape);
      case Match::other_class:
        return config + ", the winner on the nearest device class, " + entry.device_class +
               ", at " + to_display(entry.shape);
      case Match::fallback:
        break;
    }
    return config + ", the manifest's own choice, which nobody measured here";
  }

  [[nodiscard]] Error no_match() const {
    const std::string name = m_tables.empty() ? "" : m_tables.front().table->name;
    std::string why;
    if (m_sources.empty()) {
      why = "no target of the release runs on a device of capability " +
            std::to_string(m_query.device.capability.major) + "." +
            std::to_string(m_query.device.capability.minor) + ": it has " + targets();
    } else if (m_candidates.empty()) {
      why = "no entry for " + to_display(m_query.types) + ": the release has " + known_types();
    } else if (!m_refused.empty()) {
      why = "no answer for " + to_display(m_query.shape) +
            " that require=" + std::string(match_name(m_query.require)) + " accepts; " + m_refused;
    } else if (!m_nearest_miss.empty()) {
      why = "no entry serves " + to_display(m_query.shape) +
            "; the nearest miss is: " + m_nearest_miss;
    } else {
      why = "no entry serves " + to_display(m_query.shape) + "; the entries were " + misfits();
    }
    return Error{ErrorCode::no_match, "kernel " + name + ": " + why};
  }

  static std::string joined(const std::set<std::string>& names) {
    std::string text;
    for (const std::string& name : names) {
      text += (text.empty() ? "" : ", ") + name;
    }
    return text.empty() ? "none" : text;
  }

  [[nodiscard]] std::string targets() const {
    std::set<std::string> names;
    for (const ResolveTable& source : m_tables) {
      names.insert(source.target.text());
    }
    return joined(names);
  }

  [[nodiscard]] std::string known_types() const {
    std::set<std::string> names;
    for (const ResolveTable& source : m_tables) {
      if (source.target.runs_on(m_query.device.capability)) {
        for (const TableEntry& entry : entries_of(source)) {
          names.insert("(" + to_display(entry.types) + ")");
        }
      }
    }
    return joined(names);
  }

  [[nodiscard]] std::string misfits() const {
    constexpr std::size_t k_shown = 8;
    std::set<std::string> reasons;
    for (std::size_t at = m_candidates.size(); at > 0; --at) {  // `run` left them last first
      const Candidate& candidate = m_candidates[at - 1];
      reasons.insert(why_misfit(candidate));
      if (reasons.size() >= k_shown) {
        break;
      }
    }
    return joined(reasons);
  }

  std::span<const ResolveTable> m_tables;
  const ResolveQuery& m_query;
  std::string m_device_class;
  bool m_with_trace;
  std::vector<Source> m_sources;
  std::vector<Candidate> m_candidates;
  std::string m_nearest_miss;  ///< the first broken rule or limit
  std::string m_refused;       ///< the first answer that `require` does not accept
};

}  // namespace

std::string_view match_name(Match match) {
  return k_match_names.at(static_cast<std::size_t>(match));
}

Result<Match> parse_match(std::string_view name) {
  for (std::size_t i = 0; i < k_match_names.size(); ++i) {
    if (k_match_names.at(i) == name) {
      return static_cast<Match>(i);
    }
  }
  const std::vector<std::string> known(k_match_names.begin(), k_match_names.end());
  return fail(ErrorCode::usage, "unknown match level \"" + std::string(name) +
                                    "\": it is exact, nearest-shape, other-class or default" +
                                    did_you_mean(name, known));
}

Result<Choice> resolve(std::span<const ResolveTable> tables, const ResolveQuery& query,
                       bool with_trace) {
  if (tables.empty()) {
    return fail(ErrorCode::no_match, "the release has no such kernel for any target");
  }
  return Resolver(tables, query, with_trace).run();
}

}  // namespace cubinary::core
