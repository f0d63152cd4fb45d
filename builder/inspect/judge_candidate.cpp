// SPDX-License-Identifier: Apache-2.0
#include "builder/inspect/judge_candidate.hpp"

#include "builder/expand/specialise.hpp"
#include "builder/inspect/inspect.hpp"
#include "builder/inspect/match_entry.hpp"

namespace cubinary::builder {

using core::ErrorCode;
using core::fail;
using core::Result;

Result<void> judge_candidate(const core::Manifest& manifest, const LaunchGate& gate,
                             core::ByteView cubin, store::Candidate& candidate) {
  const Variant variant{candidate.role, candidate.types, candidate.compile_axes, candidate.config};
  if (!gate.knows(variant)) {
    return fail(ErrorCode::bad_cubin, "(" + core::to_display(candidate.types) + ") with " +
                                          core::to_display(candidate.config) +
                                          " is no candidate of its manifest");
  }
  TRY_ASSIGN(const core::Target target, core::Target::parse(candidate.target));
  TRY_ASSIGN(const CubinInfo info, inspect_cubin(cubin, target));
  TRY_ASSIGN(const Specialisation special, specialise(manifest, variant));
  std::vector<std::string> told;
  for (const core::EntrySymbol& symbol : candidate.symbols) {
    told.push_back(symbol.symbol);
  }
  TRY_ASSIGN(FoundEntries found, find_entries(info, special.entries, told));
  TRY(gate.judge(variant, found.entries, special.entries));
  candidate.symbols.resize(found.entries.size());
  for (std::size_t i = 0; i < found.entries.size(); ++i) {
    const CubinEntry& entry = *found.entries[i];
    candidate.symbols[i] = {entry.symbol, entry.max_threads, entry.registers, entry.static_smem,
                            candidate.symbols[i].spill_bytes};
  }
  candidate.extra_entries = std::move(found.extra);
  return {};
}

}  // namespace cubinary::builder
