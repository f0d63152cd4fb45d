// SPDX-License-Identifier: Apache-2.0
// How far tuning can be trusted, on this machine's GPU:
//
//   tune_agree CUBINARY STORE
//     A/A: each winner against itself, as if it were two candidates. In how many of 100 comparisons
//     does the interval hold zero?
//   tune_agree CUBINARY STORE STORE
//     Two tunes: where their winners differ, how far are they apart when both run interleaved?
//
// CUBINARY is the program whose `tune-worker` opens the device. One line a kernel and shape, the
// sum last.
#include <cmath>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "builder/tune/gpu_worker.hpp"
#include "builder/tune/job_plan.hpp"
#include "builder/tune/ledger.hpp"
#include "builder/tune/statistics.hpp"
#include "store/store.hpp"

namespace {

using namespace cubinary;
using builder::GpuWorker;
using builder::TuneReply;
using builder::TuneRequest;

constexpr std::size_t k_rounds = 60;  // a comparison
constexpr int k_comparisons = 100;
constexpr std::size_t k_rounds_a_process = 800;  // of two winners
constexpr int k_processes = 5;
constexpr double k_near = 0.005;
constexpr double k_tick_us = 0.032;

template <typename T>
T must(core::Result<T> result) {
  if (!result) {
    std::fprintf(stderr, "tune_agree: %s\n", result.error().message.c_str());
    std::exit(1);
  }
  return std::move(*result);
}

struct Side {
  store::Store store;
  std::unique_ptr<builder::Ledger> ledger;
  std::map<std::string, store::Winner> winners;  // by job as text
};

Side open_side(const char* path) {
  Side side{must(store::Store::open(path, {store::Access::write, false, "tune_agree"})), {}, {}};
  return side;
}

void load_winners(Side& side) {
  side.ledger = must(builder::make_store_ledger(side.store));
  for (const store::Kernel& kernel : must(side.ledger->kernels())) {
    for (const std::string& target : must(side.ledger->targets(kernel.name))) {
      for (store::Winner& winner :
           must(store::winners(must(side.store.reader()), kernel.name, target))) {
        const std::string key = kernel.name + " " + target + " " + core::to_display(winner.types) +
                                " " + core::to_display(winner.shape);
        side.winners.insert_or_assign(key, std::move(winner));
      }
    }
  }
}

class Comparer {
 public:
  explicit Comparer(const char* program) : m_worker(options(program)) {
    m_device = must(m_worker.open());
  }

  /// Another process: other memory.
  void restart() {
    m_worker.end();
    m_device = must(m_worker.open());
  }

  /// Loads both configs of a job; false, with a line, when the device refuses.
  bool load(Side& side, const store::Winner& winner, const std::vector<core::Config>& configs) {
    const auto kernel = must(store::find_kernel(must(side.store.reader()), winner.kernel));
    core::Manifest manifest = must(core::parse_manifest(kernel->manifest, kernel->manifest_path));
    const store::TuningJob job{winner.kernel, winner.target, winner.types, winner.shape,
                               must(core::DeviceClass::parse(m_device.device_class))};
    const auto plan = must(
        builder::JobPlan::make(std::move(manifest), job, {m_device.sm_count, m_device.smem_optin},
                               must(side.ledger->candidates(winner.kernel, winner.target))));
    TuneRequest request;
    request.kind = TuneRequest::Kind::problem;
    request.problem = must(plan.problem(1));
    request.problem.reference = must(side.ledger->artifact(*plan.reference().artifact));
    if (plan.prepare() != nullptr) {
      request.problem.prepare = must(side.ledger->artifact(*plan.prepare()->artifact));
    }
    if (!ask(request)) {
      return false;
    }
    for (std::size_t i = 0; i < configs.size(); ++i) {
      TuneRequest one;
      one.kind = TuneRequest::Kind::load;
      one.slot = static_cast<std::uint32_t>(i);
      one.candidate = must(plan.programs(configs[i]));
      one.candidate.cubin = must(side.ledger->artifact(*plan.candidate(configs[i])->artifact));
      if (!ask(one)) {
        return false;
      }
    }
    return true;
  }

  /// Times of slots 0 and 1, interleaved in random order.
  std::pair<std::vector<double>, std::vector<double>> sample(std::size_t rounds) {
    std::pair<std::vector<double>, std::vector<double>> times;
    while (times.first.size() < rounds) {
      TuneRequest request;
      request.kind = TuneRequest::Kind::sample;
      for (int i = 0; i < 10; ++i) {
        const std::uint32_t first = m_random() & 1U;
        request.order.push_back(first);
        request.order.push_back(1 - first);
      }
      TuneReply reply;
      if (!ask(request, &reply)) {
        return times;
      }
      for (std::size_t i = 0; i < request.order.size(); ++i) {
        (request.order[i] == 0 ? times.first : times.second).push_back(reply.times_us[i]);
      }
    }
    return times;
  }

 private:
  static builder::GpuWorkerOptions options(const char* program) {
    builder::GpuWorkerOptions options;
    options.command = {program, "tune-worker"};
    return options;
  }
  bool ask(const TuneRequest& request, TuneReply* reply = nullptr) {
    GpuWorker::Answer answer = m_worker.ask(request, std::chrono::seconds(60));
    if (answer.outcome != GpuWorker::Answer::Outcome::replied ||
        answer.reply.state != TuneReply::State::ok) {
      std::printf("  %s\n",
                  answer.message.empty() ? answer.reply.message.c_str() : answer.message.c_str());
      (void)m_worker.open();
      return false;
    }
    if (reply != nullptr) {
      *reply = std::move(answer.reply);
    }
    return true;
  }
  GpuWorker m_worker;
  builder::DeviceSpec m_device;
  std::mt19937 m_random{1};
};

int compare_with_itself(const char* program, const char* path) {
  Side side = open_side(path);
  load_winners(side);
  Comparer comparer(program);
  int held_in_all = 0;
  int of_all = 0;
  for (const auto& [key, winner] : side.winners) {
    if (!comparer.load(side, winner, {winner.config, winner.config})) {
      continue;
    }
    (void)comparer.sample(20);
    int held = 0;
    double widest = 0;
    for (int i = 0; i < k_comparisons; ++i) {
      const auto times = comparer.sample(k_rounds);
      const builder::MeanInterval d = builder::trimmed_difference(times.first, times.second);
      held += d.holds(0) ? 1 : 0;
      widest = std::max(widest, d.half_width() / winner.median_us);
    }
    std::printf("A/A %-70s %3d of %d hold zero, widest ±%.2f%%\n", key.c_str(), held, k_comparisons,
                100 * widest);
    std::fflush(stdout);
    held_in_all += held;
    of_all += k_comparisons;
  }
  std::printf("A/A: %d of %d intervals hold zero (%.1f of 100)\n", held_in_all, of_all,
              of_all == 0 ? 0.0 : 100.0 * held_in_all / of_all);
  return of_all > 0 && held_in_all * 10 >= of_all * 9 ? 0 : 1;
}

int compare_two(const char* program, const char* first, const char* second) {
  Side a = open_side(first);
  Side b = open_side(second);
  load_winners(a);
  load_winners(b);
  Comparer comparer(program);
  int same = 0;
  int within = 0;
  int all = 0;
  for (const auto& [key, winner] : a.winners) {
    const auto found = b.winners.find(key);
    if (found == b.winners.end()) {
      continue;
    }
    ++all;
    if (found->second.config == winner.config) {
      ++same;
      ++within;
      continue;
    }
    // A process has its memory where it has it, which favours one of the two: several ask.
    std::pair<std::vector<double>, std::vector<double>> times;
    std::string by_process;
    builder::MeanInterval d;
    double median = 0;
    double bound = 0;
    for (int process = 0; process < k_processes; ++process) {
      comparer.restart();
      if (!comparer.load(a, winner, {winner.config, found->second.config})) {
        break;
      }
      (void)comparer.sample(20);
      const auto more = comparer.sample(k_rounds_a_process);
      if (more.first.size() < k_rounds_a_process) {
        break;
      }
      times.first.insert(times.first.end(), more.first.begin(), more.first.end());
      times.second.insert(times.second.end(), more.second.begin(), more.second.end());
      d = builder::trimmed_difference(times.first, times.second);
      median = builder::median_interval(times.first).median;
      bound = std::max(k_near * median, k_tick_us);
      char text[32];
      std::snprintf(text, sizeof text, "%s%+.2f", by_process.empty() ? "" : " ",
                    100 * builder::trimmed_difference(more.first, more.second).mean / median);
      by_process += text;
    }
    const bool near = !times.first.empty() && std::abs(d.mean) <= bound;
    within += near ? 1 : 0;
    std::printf("%-70s %s and %s: %+.2f%% ±%.2f%% of %.2f us (by process %s)%s\n", key.c_str(),
                core::to_display(winner.config).c_str(),
                core::to_display(found->second.config).c_str(), 100 * d.mean / median,
                100 * d.half_width() / median, median, by_process.c_str(), near ? "" : "  APART");
    std::fflush(stdout);
  }
  std::printf("two tunes: %d jobs, %d with the same winner, %d within 0.5%% or one tick (%.1f%%)\n",
              all, same, within, all == 0 ? 0.0 : 100.0 * within / all);
  return all > 0 && within * 100 >= all * 95 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 3) {
    return compare_with_itself(argv[1], argv[2]);
  }
  if (argc == 4) {
    return compare_two(argv[1], argv[2], argv[3]);
  }
  std::fprintf(stderr, "usage: tune_agree CUBINARY STORE [STORE]\n");
  return 2;
}
