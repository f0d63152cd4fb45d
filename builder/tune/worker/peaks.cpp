// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>
#include <set>

#include "builder/tune/worker/bench.hpp"

namespace cubinary::builder {

using core::Result;

namespace {

constexpr std::uint64_t k_dram_bytes = 1ULL << 30U;

}  // namespace

template <typename Queue>
Result<double> Bench::best_time(int runs, const Queue& queue) {
  double best = std::numeric_limits<double>::infinity();
  for (int run = 0; run <= runs; ++run) {  // the first is a warm-up
    TRY(m_gpu.check(m_gpu.functions().event_record(m_events[0], m_gpu.stream()), "cuEventRecord"));
    TRY(queue());
    TRY(m_gpu.check(m_gpu.functions().event_record(m_events[1], m_gpu.stream()), "cuEventRecord"));
    TRY(m_gpu.synchronize());
    TRY_ASSIGN(const double time, elapsed_us(0));
    if (run > 0) {
      best = std::min(best, time);
    }
  }
  return best;
}

Result<std::vector<std::pair<std::string, double>>> Bench::measure_peaks() {
  std::vector<std::pair<std::string, double>> found;
  constexpr std::uint32_t k_threads = 256;
  constexpr std::uint32_t k_never = 0;
  const std::uint32_t blocks = m_gpu.many_blocks();
  const auto threads = std::uint64_t{blocks} * k_threads;
  const auto gbps = [](double bytes, double us) { return bytes / us / 1e3; };
  const auto tflops = [](double flops, double us) { return flops / us / 1e6; };

  // Arithmetic first: clocks rise for a while after load begins.
  constexpr std::uint32_t k_rounds = 256;
  TRY_ASSIGN(const double fma, best_time(40, [&] {
               return m_gpu.run("multiply_add", blocks, k_threads, m_sink.data(), k_rounds,
                                k_never);
             }));
  found.emplace_back("f32_tflops", tflops(1024.0 * k_rounds * static_cast<double>(threads), fma));
  if (m_gpu.has("mma_f16")) {
    TRY_ASSIGN(const double mma, best_time(10, [&] {
                 return m_gpu.run("mma_f16", blocks, k_threads, m_sink.data(), k_rounds, k_never);
               }));
    found.emplace_back("mma_tflops",
                       tflops(65536.0 * k_rounds * static_cast<double>(threads) / 32, mma));
  }

  TRY_ASSIGN(const std::uint64_t free, m_gpu.free_memory());
  const std::uint64_t size = std::min(k_dram_bytes, free / 4) / 4096 * 4096;
  TRY_ASSIGN(const GuardedBuffer from, GuardedBuffer::make(m_gpu, size));
  TRY_ASSIGN(const GuardedBuffer to, GuardedBuffer::make(m_gpu, size));
  TRY(m_gpu.set(from.data(), 0, size));
  TRY(read_clock(0));
  TRY_ASSIGN(const double read, best_time(10, [&] {
               return m_gpu.run("read_words", blocks, k_threads, from.data(), size / 16,
                                std::uint32_t{1}, m_sink.data(), k_never);
             }));
  TRY_ASSIGN(const double copy, best_time(10, [&] {
               return m_gpu.run("copy_words", blocks, k_threads, to.data(), from.data(), size / 16);
             }));
  TRY(read_clock(1));
  found.emplace_back("dram_read_gbps", gbps(static_cast<double>(size), read));
  found.emplace_back("dram_copy_gbps", gbps(2.0 * static_cast<double>(size), copy));
  found.emplace_back("dram_gbps",
                     std::max(found[found.size() - 1].second, found[found.size() - 2].second));

  // A quarter of the L2, so that what lies in the other half of a split cache counts as well.
  const std::uint64_t small = m_flush.bytes() / 10 / 4096 * 4096;
  constexpr std::uint32_t k_l2_rounds = 64;
  TRY_ASSIGN(const double l2, best_time(10, [&] {
               return m_gpu.run("read_words", blocks, k_threads, m_flush.data(), small / 16,
                                k_l2_rounds, m_sink.data(), k_never);
             }));
  found.emplace_back("l2_gbps", gbps(static_cast<double>(small) * k_l2_rounds, l2));

  std::int64_t clocks[4] = {};
  TRY(m_gpu.synchronize());
  TRY(m_gpu.check(m_gpu.functions().copy_to_host(clocks, m_clocks.data(), sizeof clocks),
                  "cuMemcpyDtoH"));
  if (clocks[3] > clocks[1]) {
    found.emplace_back("clock_mhz", static_cast<double>(clocks[2] - clocks[0]) /
                                        static_cast<double>(clocks[3] - clocks[1]) * 1e3);
  }

  // What two events around a kernel that does nothing show, and in what steps.
  std::set<double> times;
  m_flags.at<std::uint32_t>(0) = 1;
  double empty = std::numeric_limits<double>::infinity();
  for (int i = 0; i < 200; ++i) {
    TRY_ASSIGN(const double time, best_time(1, [&] {
                 return m_gpu.run("read_words", 1, 32 + 32 * (static_cast<std::uint32_t>(i) % 8),
                                  m_flush.data(), std::uint64_t{64}, std::uint32_t{1},
                                  m_sink.data(), k_never);
               }));
    times.insert(time);
    empty = std::min(empty, time);
  }
  double tick = std::numeric_limits<double>::infinity();
  double last = -1;
  for (const double time : times) {
    if (last >= 0 && time - last > 1e-3) {
      tick = std::min(tick, time - last);
    }
    last = time;
  }
  found.emplace_back("empty_us", empty);
  found.emplace_back("tick_us", std::min(tick, 1.0));
  return found;
}

}  // namespace cubinary::builder
