// SPDX-License-Identifier: Apache-2.0
#include "cli/build_output.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <tuple>

#include <sys/ioctl.h>
#include <unistd.h>

#include "cli/table.hpp"
#include "core/base/json.hpp"
#include "store/maintenance.hpp"

namespace cubinary::cli {

using builder::BuildProgress;
using builder::BuildSummary;
using core::Result;
using core::json::Array;
using core::json::Object;
using core::json::Value;
using store::Candidate;
using store::CandidateRole;
using store::CandidateStatus;

namespace {

/// `rmsnorm T=f16 VEC=4 ROWS=2 for sm_90`, with the role when it is a helper.
std::string describe(const Candidate& candidate) {
  std::string text = candidate.kernel;
  if (candidate.role != CandidateRole::kernel) {
    text += " " + std::string(store::role_name(candidate.role));
  }
  for (const std::string& part :
       {core::to_display(candidate.types), core::to_display(candidate.compile_axes),
        core::to_display(candidate.config)}) {
    if (part != "-") {
      text += " " + part;
    }
  }
  return text + " for " + candidate.target;
}

std::string one_decimal(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", value);
  return text;
}

void print_failure(std::FILE* to, const Candidate& candidate, bool compiled_now) {
  std::fprintf(to, "%s: %s: %s%s\n", std::string(store::status_name(candidate.status)).c_str(),
               describe(candidate).c_str(), candidate.message.c_str(),
               compiled_now ? "" : " (known from an earlier build; --retry-failed tries again)");
}

std::string plan_line(std::size_t candidates, std::size_t to_compile, unsigned jobs) {
  std::string line = std::to_string(candidates) + " candidates, ";
  if (to_compile == 0) {
    return line + "all unchanged: nothing to compile";
  }
  return line + std::to_string(to_compile) + " to compile with " + std::to_string(jobs) +
         (jobs == 1 ? " worker" : " workers");
}

class PlainOutput : public builder::BuildObserver {
 public:
  void planned(std::size_t candidates, std::size_t to_compile, unsigned jobs) override {
    std::printf("%s\n", plan_line(candidates, to_compile, jobs).c_str());
    std::fflush(stdout);
  }
  void explained(const Candidate& candidate, const std::string& reason) override {
    std::printf("%s: %s\n", describe(candidate).c_str(), reason.c_str());
  }
  void finished(const Candidate& candidate, bool compiled_now) override {
    if (candidate.status != CandidateStatus::ok) {
      print_failure(stdout, candidate, compiled_now);
    } else {
      std::printf("ok: %s (%.0f ms)\n", describe(candidate).c_str(), candidate.compile_ms);
    }
    std::fflush(stdout);
  }
  void progress(const BuildProgress&) override {}
  void note(const std::string& text) override { std::printf("%s\n", text.c_str()); }
};

class TerminalOutput : public PlainOutput {
 public:
  ~TerminalOutput() override { clear(); }
  void explained(const Candidate& candidate, const std::string& reason) override {
    clear();
    PlainOutput::explained(candidate, reason);
  }
  void finished(const Candidate& candidate, bool compiled_now) override {
    if (candidate.status != CandidateStatus::ok) {
      clear();
      print_failure(stdout, candidate, compiled_now);
    }
  }
  void progress(const BuildProgress& progress) override {
    const double rate =
        progress.seconds > 0 ? static_cast<double>(progress.done) / progress.seconds : 0;
    std::string text = " " + std::to_string(progress.done) + "/" + std::to_string(progress.total) +
                       "  " + one_decimal(rate) + "/s";
    if (rate > 0) {
      const long left = std::lround(static_cast<double>(progress.total - progress.done) / rate);
      char time[32];
      std::snprintf(time, sizeof time, "  %ld:%02ld left", left / 60, left % 60);
      text += time;
    }
    if (progress.failed != 0) {
      text += "  " + std::to_string(progress.failed) + " failed";
    }
    winsize window{};
    const std::size_t columns =
        ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) == 0 && window.ws_col > 0 ? window.ws_col : 80;
    constexpr std::size_t k_widest = 40;
    const std::size_t room = columns > text.size() + 3 ? columns - text.size() - 3 : 0;
    const std::size_t width = std::min(room, k_widest);
    const std::size_t full = progress.total == 0 ? width : width * progress.done / progress.total;
    std::printf("\r\033[K[%s%s]%s", std::string(full, '#').c_str(),
                std::string(width - full, ' ').c_str(), text.c_str());
    std::fflush(stdout);
    m_drawn = true;
  }
  void note(const std::string& text) override {
    clear();
    PlainOutput::note(text);
  }

 private:
  void clear() {
    if (m_drawn) {
      std::printf("\r\033[K");
      std::fflush(stdout);
      m_drawn = false;
    }
  }
  bool m_drawn = false;
};

Object candidate_json(const Candidate& candidate) {
  Object config;
  for (const auto& [name, value] : candidate.config) {
    std::visit([&, key = name](const auto& plain) { config.emplace(key, Value(plain)); }, value);
  }
  const auto object = [](const auto& map) {
    Object made;
    for (const auto& [name, value] : map) {
      made.emplace(name, Value(value));
    }
    return made;
  };
  return Object{
      {"kernel", Value(candidate.kernel)},       {"role", Value(store::role_name(candidate.role))},
      {"types", Value(object(candidate.types))}, {"axes", Value(object(candidate.compile_axes))},
      {"config", Value(std::move(config))},      {"target", Value(candidate.target)},
      {"key", Value(candidate.build_key.hex())}};
}

void print_json(const Object& object) {
  std::printf("%s\n", core::json::to_text(object).c_str());
  std::fflush(stdout);
}

class JsonOutput : public builder::BuildObserver {
 public:
  void planned(std::size_t candidates, std::size_t to_compile, unsigned jobs) override {
    print_json({{"event", Value("planned")},
                {"candidates", Value(candidates)},
                {"to_compile", Value(to_compile)},
                {"jobs", Value(jobs)}});
  }
  void explained(const Candidate& candidate, const std::string& reason) override {
    Object object = candidate_json(candidate);
    object.emplace("event", Value("explained"));
    object.emplace("reason", Value(reason));
    print_json(object);
  }
  void finished(const Candidate& candidate, bool compiled_now) override {
    Object object = candidate_json(candidate);
    object.emplace("event", Value("candidate"));
    object.emplace("status", Value(store::status_name(candidate.status)));
    object.emplace("compiled", Value(compiled_now));
    object.emplace("compile_ms", Value(candidate.compile_ms));
    object.emplace("cpu_ms", Value(candidate.cpu_ms));
    if (candidate.status != CandidateStatus::ok) {
      object.emplace("message", Value(candidate.message));
      object.emplace("log", Value(candidate.log));
    } else {
      Array symbols;
      for (const core::EntrySymbol& symbol : candidate.symbols) {
        symbols.emplace_back(Object{{"symbol", Value(symbol.symbol)},
                                    {"registers", Value(symbol.registers)},
                                    {"static_smem", Value(symbol.static_smem)},
                                    {"spill_bytes", Value(symbol.spill_bytes)},
                                    {"max_threads", Value(symbol.max_threads)}});
      }
      object.emplace("symbols", Value(std::move(symbols)));
      object.emplace("extra_entries", Value(candidate.extra_entries.size()));
      object.emplace("raw_size", Value(candidate.raw_size));
      object.emplace("artifact", Value(candidate.artifact ? candidate.artifact->hex() : ""));
    }
    print_json(object);
  }
  void progress(const BuildProgress&) override {}
  void note(const std::string& text) override {
    print_json({{"event", Value("note")}, {"text", Value(text)}});
  }
};

/// The smallest and largest of a group's numbers.
class Range {
 public:
  void add(std::int64_t value) {
    m_low = m_any ? std::min(m_low, value) : value;
    m_high = m_any ? std::max(m_high, value) : value;
    m_any = true;
  }
  [[nodiscard]] std::string text() const {
    if (!m_any) {
      return "";
    }
    return m_low == m_high ? std::to_string(m_low)
                           : std::to_string(m_low) + "-" + std::to_string(m_high);
  }

 private:
  std::int64_t m_low = 0;
  std::int64_t m_high = 0;
  bool m_any = false;
};

struct Group {
  std::uint64_t ok = 0;
  std::uint64_t failed = 0;
  Range registers;
  Range smem;
  Range spills;
  std::uint64_t raw = 0;
  std::uint64_t stored = 0;
};

}  // namespace

std::unique_ptr<builder::BuildObserver> make_build_observer(BuildStyle style) {
  switch (style) {
    case BuildStyle::terminal:
      return std::make_unique<TerminalOutput>();
    case BuildStyle::plain:
      return std::make_unique<PlainOutput>();
    case BuildStyle::json:
      return std::make_unique<JsonOutput>();
  }
  return nullptr;
}

Result<std::string> build_table(const store::Store& store, const BuildSummary& summary) {
  using Key = std::tuple<std::string, std::string, std::string>;
  std::map<Key, Group> groups;
  TRY_ASSIGN(const store::Reader reader, store.reader());
  for (const std::string& kernel : summary.kernels) {
    store::CandidateFilter filter;
    filter.kernel = kernel;
    TRY(store::for_each_candidate(
        reader, filter, false, [&](const Candidate& candidate) -> Result<void> {
          if (std::find(summary.targets.begin(), summary.targets.end(), candidate.target) ==
              summary.targets.end()) {
            return {};
          }
          std::string name = candidate.kernel;
          if (candidate.role != CandidateRole::kernel) {
            name += " (" + std::string(store::role_name(candidate.role)) + ")";
          }
          std::string types = core::to_display(candidate.types);
          if (!candidate.compile_axes.empty()) {
            types += " " + core::to_display(candidate.compile_axes);
          }
          Group& group = groups[{name, types, candidate.target}];
          ++(candidate.status == CandidateStatus::ok ? group.ok : group.failed);
          group.raw += candidate.raw_size;
          group.stored += candidate.stored_size;
          for (const core::EntrySymbol& symbol : candidate.symbols) {
            group.registers.add(symbol.registers);
            group.smem.add(symbol.static_smem);
            group.spills.add(symbol.spill_bytes);
          }
          return {};
        }));
  }
  Table table({"kernel", "types", "target", ">ok", ">failed", ">registers", ">smem B", ">spills B",
               ">raw", ">stored"});
  for (const auto& [key, group] : groups) {
    table.add_row({std::get<0>(key), std::get<1>(key), std::get<2>(key), std::to_string(group.ok),
                   std::to_string(group.failed), group.registers.text(), group.smem.text(),
                   group.spills.text(), format_bytes(group.raw), format_bytes(group.stored)});
  }
  TRY_ASSIGN(const store::Stats stats, store::stats(store));
  const std::uint64_t stored = stats.artifact_stored_bytes + stats.dictionary_bytes;
  return table.text() + "\nThe store's " + std::to_string(stats.artifacts) +
         " cubins: " + format_bytes(stats.artifact_raw_bytes) + ", stored in " +
         format_bytes(stored) + ", dictionaries included\n";
}

std::string summary_line(const BuildSummary& summary, BuildStyle style) {
  if (style == BuildStyle::json) {
    return core::json::to_text(Object{{"ok", Value(summary.ok)},
                                      {"failed", Value(summary.failed)},
                                      {"skipped", Value(summary.skipped)},
                                      {"compiled", Value(summary.compiled)},
                                      {"crashes", Value(summary.crashes)},
                                      {"stopped", Value(summary.stopped)},
                                      {"seconds", Value(summary.seconds)},
                                      {"cpu_seconds", Value(summary.cpu_seconds)},
                                      {"compiler_cpu_seconds", Value(summary.compiler_cpu_seconds)},
                                      {"serial_seconds", Value(summary.serial_seconds)},
                                      {"idle_seconds", Value(summary.idle_seconds)}}) +
           "\n";
  }
  std::string text = std::to_string(summary.ok) + " ok, " + std::to_string(summary.failed) +
                     " failed, " + std::to_string(summary.skipped) + " unchanged; " +
                     one_decimal(summary.seconds) + " s, " + one_decimal(summary.cpu_seconds) +
                     " s of CPU";
  if (summary.crashes != 0) {
    text += "; the compiler crashed " + std::to_string(summary.crashes) + " times";
  }
  return text + "\n";
}

}  // namespace cubinary::cli
