// SPDX-License-Identifier: Apache-2.0
#include "cli/tune_output.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>

#include "core/base/json.hpp"
#include "core/model/values.hpp"

namespace cubinary::cli {

namespace {

using builder::DeviceSpec;
using builder::TuneObserver;
namespace json = core::json;

std::string number(const char* format, double value) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), format, value);
  return text.data();
}

std::string microseconds(double us) {
  return number(us < 100 ? "%.2f us" : us < 100'000 ? "%.1f us" : "%.0f us", us);
}

std::string duration(double seconds) {
  const long whole = std::max(0L, std::lround(seconds));
  return whole < 60 ? std::to_string(whole) + " s"
                    : std::to_string(whole / 60) + ":" + (whole % 60 < 10 ? "0" : "") +
                          std::to_string(whole % 60);
}

std::string describe(const store::TuningJob& job) {
  return job.kernel + " " + job.target +
         (job.types.empty() ? "" : " " + core::to_display(job.types)) +
         (job.shape.empty() ? "" : " " + core::to_display(job.shape));
}

/// "3 wrong, 1 fault"; empty when all is well.
std::string failures(const std::array<std::uint64_t, 6>& statuses) {
  std::string text;
  for (std::size_t i = 1; i < statuses.size(); ++i) {
    if (statuses.at(i) != 0) {
      text += (text.empty() ? "" : ", ") + std::to_string(statuses.at(i)) + " " +
              std::string(store::status_name(static_cast<store::MeasurementStatus>(i)));
    }
  }
  return text;
}

json::Object job_json(const store::TuningJob& job) {
  json::Object shape;
  for (const auto& [name, value] : job.shape) {
    shape.emplace(name, value);
  }
  json::Object types;
  for (const auto& [name, value] : job.types) {
    types.emplace(name, value);
  }
  return {{"kernel", job.kernel},
          {"target", job.target},
          {"types", std::move(types)},
          {"shape", std::move(shape)},
          {"device_class", job.device_class.text()}};
}

json::Value config_json(const core::Config& config) {
  json::Object object;
  for (const auto& [name, value] : config) {
    object.emplace(name, std::visit([](const auto& v) { return json::Value(v); }, value));
  }
  return object;
}

json::Object counts_json(const std::array<std::uint64_t, 6>& statuses) {
  json::Object object;
  for (std::size_t i = 0; i < statuses.size(); ++i) {
    object.emplace(std::string(store::status_name(static_cast<store::MeasurementStatus>(i))),
                   statuses.at(i));
  }
  return object;
}

class Lines : public TuneObserver {
 public:
  void waiting(const std::string& holder) override {
    say("waiting for the GPU: " + (holder.empty() ? std::string("another tuner") : holder) +
        " has it");
  }
  void session(const DeviceSpec& device, const std::map<std::string, double>& peaks) override {
    std::string text = device.product + " (" + device.device_class + "), driver " + device.driver;
    const auto add = [&](const char* name, const char* format) {
      if (const auto found = peaks.find(name); found != peaks.end()) {
        text += number(format, found->second);
      }
    };
    add("dram_gbps", "; memory %.0f GB/s");
    add("l2_gbps", ", L2 %.0f GB/s");
    add("mma_tflops", ", mma.sync %.0f TFLOP/s");
    add("clock_mhz", ", %.0f MHz");
    say(text);
  }
  void job_started(const store::TuningJob& job, std::uint64_t configs,
                   std::uint64_t known) override {
    m_job = job;
    m_configs = configs;
    m_known = known;
  }
  void measured(const store::Measurement& measurement) override {
    if (measurement.status != store::MeasurementStatus::ok || measurement.suspect) {
      say("  " + core::to_display(measurement.config) + ": " +
          (measurement.suspect ? std::string("suspect")
                               : std::string(store::status_name(measurement.status))) +
          (measurement.message.empty() ? "" : ": " + measurement.message));
    }
  }
  void progress(const Progress& progress) override { m_progress = progress; }
  void job_finished(const JobResult& result) override {
    if (result.finalists.empty()) {
      return;  // a note says why
    }
    const store::Measurement& winner = result.finalists.front();
    std::string text = describe(result.tuning.job) + ": " + microseconds(winner.median_us) +
                       number(" ±%.2f%%", 100 * winner.interval_us / winner.median_us);
    if (winner.floor_us) {
      const double share = 100 * *winner.floor_us / winner.median_us;
      text += share < 1 ? ", under 1% of roofline" : number(", %.0f%% of roofline", share);
    }
    if (result.baseline && result.baseline->config != winner.config) {
      text += number(", %.2fx over untuned", result.baseline->median_us / winner.median_us);
    }
    const auto ties =
        std::ranges::count_if(result.tuning.finalists, [](const auto& f) { return f.tied; });
    if (ties > 1) {
      text += ", " + std::to_string(ties) + " tied";
    }
    text += "  " + core::to_display(winner.config) + "  (" +
            std::to_string(result.tuning.measured) + " of " + std::to_string(m_configs) +
            (result.tuning.complete ? "" : ", the budget ended it") + ", " +
            duration(result.tuning.seconds) + ")";
    say(text);
  }
  void note(const std::string& text) override { say(text); }

 protected:
  virtual void say(const std::string& text) {
    std::printf("%s\n", text.c_str());
    std::fflush(stdout);
  }
  store::TuningJob m_job;
  std::uint64_t m_configs = 0;
  std::uint64_t m_known = 0;
  Progress m_progress;
};

/// The same, with a line at the bottom that says where it is.
class Terminal final : public Lines {
 public:
  ~Terminal() override { clear(); }
  void progress(const Progress& progress) override {
    Lines::progress(progress);
    const auto now = std::chrono::steady_clock::now();
    if (now - m_drawn < std::chrono::milliseconds(100)) {
      return;
    }
    m_drawn = now;
    std::string text = "[" + std::to_string(progress.job + 1) + "/" +
                       std::to_string(progress.jobs) + "] " + describe(m_job) + ": " +
                       (progress.run_off ? std::string("run-off")
                                         : std::to_string(m_known + progress.measured) + "/" +
                                               std::to_string(progress.configs));
    if (progress.best_us) {
      text += ", best " + microseconds(*progress.best_us) + " " + core::to_display(*progress.best);
    }
    if (const std::string bad = failures(progress.statuses); !bad.empty()) {
      text += ", " + bad;
    }
    text += ", " + duration(progress.seconds_left) + " left";
    std::printf("\r\033[K%.160s", text.c_str());
    std::fflush(stdout);
    m_shown = true;
  }

 protected:
  void say(const std::string& text) override {
    clear();
    Lines::say(text);
  }

 private:
  void clear() {
    if (m_shown) {
      std::printf("\r\033[K");
      std::fflush(stdout);
      m_shown = false;
    }
  }
  std::chrono::steady_clock::time_point m_drawn;
  bool m_shown = false;
};

class JsonLines final : public TuneObserver {
 public:
  void waiting(const std::string& holder) override {
    say({{"event", "waiting"}, {"holder", holder}});
  }
  void session(const DeviceSpec& device, const std::map<std::string, double>& peaks) override {
    json::Object found;
    for (const auto& [name, value] : peaks) {
      found.emplace(name, value);
    }
    say({{"event", "session"},
         {"product", device.product},
         {"device_class", device.device_class},
         {"driver", device.driver},
         {"peaks", std::move(found)}});
  }
  void job_started(const store::TuningJob& job, std::uint64_t configs,
                   std::uint64_t known) override {
    m_job = job;
    json::Object object = job_json(job);
    object.emplace("event", "job");
    object.emplace("configs", configs);
    object.emplace("known", known);
    say(std::move(object));
  }
  void measured(const store::Measurement& m) override {
    json::Object object = job_json(m_job);
    object.emplace("event", "measured");
    object.emplace("config", config_json(m.config));
    object.emplace("status", store::status_name(m.status));
    object.emplace("suspect", m.suspect);
    if (!m.message.empty()) {
      object.emplace("message", m.message);
    }
    if (m.median_us > 0) {
      object.emplace("median_us", m.median_us);
      object.emplace("interval_us", m.interval_us);
      object.emplace("samples", m.samples_us.size());
    }
    object.emplace("max_error", m.max_error);
    say(std::move(object));
  }
  void progress(const Progress&) override {}
  void job_finished(const JobResult& result) override {
    json::Object object = job_json(result.tuning.job);
    object.emplace("event", "tuned");
    object.emplace("configs", result.tuning.configs);
    object.emplace("measured", result.tuning.measured);
    object.emplace("failed", result.tuning.failed);
    object.emplace("complete", result.tuning.complete);
    object.emplace("seconds", result.tuning.seconds);
    json::Array finalists;
    for (std::size_t i = 0; i < result.finalists.size(); ++i) {
      const store::Measurement& m = result.finalists[i];
      json::Object each{{"config", config_json(m.config)},
                        {"median_us", m.median_us},
                        {"interval_us", m.interval_us},
                        {"samples", m.samples_us.size()},
                        {"tied", result.tuning.finalists.at(i).tied}};
      if (m.floor_us) {
        each.emplace("roofline_share", *m.floor_us / m.median_us);
      }
      finalists.emplace_back(std::move(each));
    }
    object.emplace("finalists", std::move(finalists));
    if (result.baseline) {
      object.emplace("untuned_us", result.baseline->median_us);
    }
    say(std::move(object));
  }
  void note(const std::string& text) override { say({{"event", "note"}, {"text", text}}); }

 private:
  static void say(json::Object object) {
    std::printf("%s\n", json::to_text(std::move(object)).c_str());
    std::fflush(stdout);
  }
  store::TuningJob m_job;
};

}  // namespace

std::unique_ptr<TuneObserver> make_tune_observer(TuneStyle style) {
  switch (style) {
    case TuneStyle::terminal:
      return std::make_unique<Terminal>();
    case TuneStyle::plain:
      return std::make_unique<Lines>();
    case TuneStyle::json:
      break;
  }
  return std::make_unique<JsonLines>();
}

std::string tune_summary_line(const builder::TuneSummary& summary, TuneStyle style) {
  if (style == TuneStyle::json) {
    json::Object object{{"event", "summary"},
                        {"jobs", summary.jobs},
                        {"tuned", summary.tuned},
                        {"complete", summary.complete},
                        {"known", summary.known},
                        {"elsewhere", summary.elsewhere},
                        {"failed", summary.failed},
                        {"left", summary.left},
                        {"measured", summary.measured},
                        {"statuses", counts_json(summary.statuses)},
                        {"worker_starts", summary.worker_starts},
                        {"compiled", summary.compiled.compiled},
                        {"compile_failed", summary.compiled.failed},
                        {"seconds", summary.seconds},
                        {"stopped", summary.stopped}};
    return json::to_text(std::move(object)) + "\n";
  }
  std::string text =
      std::to_string(summary.tuned) + " of " + std::to_string(summary.jobs) + " jobs tuned";
  const auto add = [&](std::uint64_t count, const char* what) {
    if (count != 0) {
      text += ", " + std::to_string(count) + " " + what;
    }
  };
  add(summary.known, "known before");
  add(summary.tuned - summary.complete, "cut short by the budget");
  add(summary.left, "not begun: the budget is used up");
  add(summary.elsewhere, "with another tuner");
  add(summary.failed, "failed");
  text += "; " + std::to_string(summary.measured) + " configs measured";
  if (const std::string bad = failures(summary.statuses); !bad.empty()) {
    text += " (" + bad + ")";
  }
  text += number(" in %.1f s", summary.seconds);
  if (summary.compiled.compiled != 0) {
    text += "; " + std::to_string(summary.compiled.compiled) + " candidates compiled meanwhile";
    if (summary.compiled.failed != 0) {
      text += ", " + std::to_string(summary.compiled.failed) + " of them in vain";
    }
  }
  return text + "\n";
}

}  // namespace cubinary::cli
