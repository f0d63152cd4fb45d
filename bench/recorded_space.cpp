// SPDX-License-Identifier: Apache-2.0
#include "bench/recorded_space.hpp"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <map>
#include <memory>
#include <set>
#include <string_view>
#include <utility>

#include <zlib.h>

namespace cubinary::bench {
namespace {

using builder::ConfigIndex;
using builder::SearchOutcome;
using core::ErrorCode;
using core::fail;
using core::Result;

Result<std::string> read_text(const std::filesystem::path& path) {
  // gzread takes plain text as it is.
  const std::unique_ptr<gzFile_s, int (*)(gzFile)> file(::gzopen(path.c_str(), "rb"), ::gzclose);
  if (!file) {
    return fail(ErrorCode::not_found, "cannot open " + path.string());
  }
  std::string text;
  std::vector<char> buffer(1U << 18U);
  int got = 0;
  while ((got = ::gzread(file.get(), buffer.data(), static_cast<unsigned>(buffer.size()))) > 0) {
    text.append(buffer.data(), static_cast<std::size_t>(got));
  }
  if (got < 0) {
    return fail(ErrorCode::corrupt, path.string() + " is not a whole gzip file");
  }
  return text;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const std::size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) {
      return parts;
    }
    text.remove_prefix(end + 1);
  }
}

std::optional<double> to_number(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || !std::isfinite(value)) {
    return std::nullopt;
  }
  return value;
}

std::optional<std::int64_t> to_whole(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size() ? std::optional(value)
                                                                  : std::nullopt;
}

/// The file's table; tunables are the columns before `status`.
struct Columns {
  std::size_t status = 0;
  std::size_t time = 0;
  std::optional<std::size_t> samples;
};

Result<Columns> read_header(const std::vector<std::string_view>& header, const std::string& file) {
  Columns columns;
  const auto place = [&](std::string_view name) {
    return static_cast<std::size_t>(std::find(header.begin(), header.end(), name) - header.begin());
  };
  columns.status = place("status");
  columns.time = place("time_ms");
  if (columns.status == 0 || columns.status == header.size() || columns.time == header.size()) {
    return fail(ErrorCode::corrupt,
                file + ":1: a recorded space has tunables, then columns `status` and `time_ms`");
  }
  if (const std::size_t samples = place("samples_ms"); samples != header.size()) {
    columns.samples = samples;
  }
  return columns;
}

/// Single measurements relative to their mean: a few files' do not average to the recorded time.
std::vector<float> relative(std::string_view text) {
  std::vector<float> samples;
  double sum = 0;
  for (const std::string_view word : split(text, ' ')) {
    if (const auto value = to_number(word); value && *value > 0) {
      samples.push_back(static_cast<float>(*value));
      sum += *value;
    }
  }
  for (float& sample : samples) {
    sample = static_cast<float>(sample * static_cast<double>(samples.size()) / sum);
  }
  return samples;
}

}  // namespace

Result<RecordedSpace> RecordedSpace::read(const std::filesystem::path& path) {
  TRY_ASSIGN(const std::string text, read_text(path));
  const std::string file = path.string();
  std::vector<std::string_view> lines;
  for (std::string_view line : split(text, '\n')) {
    if (line.ends_with('\r')) {
      line.remove_suffix(1);
    }
    lines.push_back(line);
  }
  const std::vector<std::string_view> header = split(lines.front(), ',');
  TRY_ASSIGN(const Columns columns, read_header(header, file));

  std::vector<std::vector<std::string_view>> cells;
  for (std::size_t i = 1; i < lines.size(); ++i) {
    if (lines[i].empty()) {
      continue;
    }
    cells.push_back(split(lines[i], ','));
    if (cells.back().size() != header.size()) {
      return fail(ErrorCode::corrupt,
                  file + ":" + std::to_string(i + 1) + ": " + std::to_string(cells.back().size()) +
                      " cells where the header has " + std::to_string(header.size()));
    }
  }

  std::vector<builder::SearchTunable> tunables;
  std::vector<core::Config> configs(cells.size());
  for (std::size_t column = 0; column < columns.status; ++column) {
    builder::SearchTunable tunable;
    tunable.name = header[column];
    const bool whole = std::all_of(cells.begin(), cells.end(), [&](const auto& row) {
      return to_whole(row[column]).has_value();
    });
    std::set<core::TunableValue> values;
    for (std::size_t i = 0; i < cells.size(); ++i) {
      const core::TunableValue value = whole ? core::TunableValue(*to_whole(cells[i][column]))
                                             : core::TunableValue(std::string(cells[i][column]));
      values.insert(value);
      configs[i].emplace(tunable.name, value);
    }
    tunable.values.assign(values.begin(), values.end());
    tunables.push_back(std::move(tunable));
  }
  auto space = builder::SearchSpace::make(std::move(tunables), configs);
  if (!space) {
    return fail(space.error().with_context(file));
  }

  std::string name = path.filename().string();
  name = name.substr(0, name.find(".csv"));
  RecordedSpace recorded{std::move(name), std::move(*space), {}, 0};
  for (std::size_t i = 0; i < cells.size(); ++i) {
    if (recorded.space.find(configs[i]) != recorded.rows.size()) {
      return fail(ErrorCode::corrupt,
                  file + ": config " + core::to_display(configs[i]) + " stands there twice");
    }
    Row row;
    const std::string_view status = cells[i][columns.status];
    if (status == "ok") {
      const auto time = to_number(cells[i][columns.time]);
      if (!time || *time <= 0) {
        return fail(ErrorCode::corrupt, file + ": config " + core::to_display(configs[i]) +
                                            " is ok and has no time_ms");
      }
      row.time_us = *time * 1000;
      if (columns.samples) {
        row.relative_noise = relative(cells[i][*columns.samples]);
      }
      if (recorded.optimum_us == 0 || row.time_us < recorded.optimum_us) {
        recorded.optimum_us = row.time_us;
      }
    } else {
      row.kind = status == "compile_error" ? SearchOutcome::Kind::compile_failed
                                           : SearchOutcome::Kind::failed;
    }
    recorded.rows.push_back(std::move(row));
  }
  if (recorded.optimum_us == 0) {
    return fail(ErrorCode::corrupt, file + ": no config is ok");
  }
  return recorded;
}

SearchOutcome RecordedSpace::evaluate(ConfigIndex config, std::uint64_t samples,
                                      std::mt19937_64& random) const {
  const Row& row = rows[config];
  SearchOutcome outcome{row.kind, row.time_us};
  if (row.kind == SearchOutcome::Kind::ok && !row.relative_noise.empty() && samples > 0) {
    std::vector<float> drawn(samples);
    for (float& sample : drawn) {
      sample = row.relative_noise[random() % row.relative_noise.size()];
    }
    const auto middle = drawn.begin() + static_cast<std::ptrdiff_t>(samples / 2);
    std::nth_element(drawn.begin(), middle, drawn.end());
    outcome.time_us *= static_cast<double>(*middle);
  }
  return outcome;
}

builder::SearchPrior RecordedSpace::as_prior() const {
  builder::SearchPrior prior;
  prior.origin = name;
  for (ConfigIndex config = 0; config < space.size(); ++config) {
    prior.points.push_back(
        {space.config(config), rows[config].kind == SearchOutcome::Kind::ok, rows[config].time_us});
  }
  return prior;
}

Replay replay(const RecordedSpace& recorded, const builder::SearchOptions& options,
              std::uint64_t samples, std::uint64_t limit) {
  using Clock = std::chrono::steady_clock;
  std::mt19937_64 random(options.seed ^ 0x9e3779b97f4a7c15U);
  const auto begin = Clock::now();
  const auto search = builder::Search::make(recorded.space, options);
  const std::uint64_t most = std::min<std::uint64_t>(limit, recorded.space.size());
  const auto never = static_cast<double>(std::min<std::uint64_t>(most + 1, recorded.space.size()));
  Replay result{never, never, 0, 0};
  bool near = false;
  while (!search->finished() && result.asks < static_cast<double>(most)) {
    const auto asked = search->ask(1);
    if (asked.empty()) {
      break;
    }
    ++result.asks;
    search->tell(asked.front(), recorded.evaluate(asked.front(), samples, random));
    if (!search->best()) {
      continue;
    }
    const double truth = recorded.rows[*search->best()].time_us / recorded.optimum_us;
    if (truth <= 1.05 && !near) {
      near = true;
      result.within_5 = result.asks;
    }
    if (truth <= 1.01) {
      result.within_1 = result.asks;
      break;
    }
  }
  result.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  return result;
}

}  // namespace cubinary::bench
