// SPDX-License-Identifier: Apache-2.0
// Device time of the three kernels as the client chooses them, beside this GPU's own ceilings
// measured in the same run: a device-to-device copy for the norms, mma.sync alone for gemm_nt.
//
//   CUBINARY_TEST_SOURCE, CUBINARY_TEST_KEY   a signed release that holds them (and mma_peak, from
//                                             bench/peaks, for the matrix ceiling)
#include <algorithm>
#include <array>
#include <cstdio>
#include <functional>
#include <optional>

#include "tests/gpu/cuda.hpp"
#include "tests/gpu/elements.hpp"
#include "tests/gpu/handles.hpp"

namespace {

using namespace cubinary::gpu;

constexpr int k_skipped = 125;
constexpr int k_samples = 15;
constexpr std::size_t k_buffer_bytes = std::size_t{1} << 30;  // several times any L2

/// Median device time in microseconds. `work(i)` launches once; i lets it rotate its buffers, so
/// that no sample finds the last one's data in L2.
double microseconds(const Stream& stream, const std::function<void(int)>& work) {
  Timer timer;
  work(0);
  work(1);
  stream.synchronize();
  std::vector<double> samples;
  for (int i = 0; i < k_samples; ++i) {
    timer.start(stream);
    work(i);
    samples.push_back(timer.stop(stream));
  }
  std::ranges::sort(samples);
  return samples[samples.size() / 2];
}

/// Random values in `dtype` all over a buffer: zeros run faster than real data.
void fill(DeviceBuffer& buffer, const std::string& dtype) {
  std::mt19937_64 random(7);
  const auto bytes = encode(dtype, random_values(dtype, std::size_t{1} << 20, random));
  for (std::size_t at = 0; at < buffer.bytes(); at += bytes.size()) {
    buffer.write(at, std::span(bytes).first(std::min(bytes.size(), buffer.bytes() - at)));
  }
}

/// A kernel ready to launch, or none when the release lacks it.
std::optional<Kernel> prepare(const Release& release, const std::string& name,
                              const std::string& dtype, const NamedValues& axes,
                              const std::vector<std::string>& pointers, std::int64_t alignment) {
  NamedValues alignments;
  for (const std::string& pointer : pointers) {
    alignments.emplace_back(pointer, alignment);
  }
  Kernel kernel;
  const auto status =
      kernel.resolve(release, name, CUBINARY_ANY_INTERFACE, dtype, axes, alignments);
  if (status == CUBINARY_ERROR_NOT_FOUND) {
    return std::nullopt;
  }
  if (status != CUBINARY_OK) {
    throw CudaError(failure("resolve " + name, status));
  }
  if (const auto prepared = cubinary_prepare(kernel.get()); prepared != CUBINARY_OK) {
    throw CudaError(failure("prepare " + name, prepared));
  }
  return kernel;
}

void launch(const Kernel& kernel, const std::vector<cubinary_arg>& arguments,
            const Stream& stream) {
  if (const auto status =
          cubinary_launch(kernel.get(), arguments.data(), arguments.size(), stream.get());
      status != CUBINARY_OK) {
    throw CudaError(failure("launch", status));
  }
}

double copy_bandwidth(const Stream& stream, const DeviceBuffer& from, const DeviceBuffer& to) {
  const double time = microseconds(stream, [&](int) {
    driver().check(driver().copy_device(to.pointer(), from.pointer(), from.bytes(), stream.get()),
                   "cuMemcpyDtoDAsync");
  });
  return 2.0 * static_cast<double>(from.bytes()) / time / 1e3;
}

/// Teraflops of mma.sync alone; 0 when the release has no mma_peak.
double matrix_peak(const Stream& stream, const Release& release, const std::string& dtype,
                   const DeviceBuffer& out) {
  const std::int64_t blocks = 4 * driver().sm_count;
  const std::int64_t rounds = 20000;
  const auto kernel =
      prepare(release, "mma_peak", dtype, {{"blocks", blocks}, {"rounds", rounds}}, {"out"}, 256);
  if (!kernel) {
    return 0;
  }
  const DevicePointer pointer = out.pointer();
  const double time =
      microseconds(stream, [&](int) { launch(*kernel, {CUBINARY_ARG(pointer)}, stream); });
  return static_cast<double>(blocks) * 8 * static_cast<double>(rounds) * 16 * 4096 / time / 1e6;
}

void time_norm(const Stream& stream, const Release& release, const std::string& name,
               const std::string& dtype, std::int64_t rows, std::int64_t cols,
               const DeviceBuffer& x, const DeviceBuffer& y, double ceiling) {
  const bool weighted = name == "rmsnorm";
  const auto kernel = prepare(
      release, name, dtype, {{"rows", rows}, {"cols", cols}},
      weighted ? std::vector<std::string>{"y", "x", "w"} : std::vector<std::string>{"y", "x"}, 256);
  const std::size_t bytes = static_cast<std::size_t>(rows * cols) * element_size(dtype);
  const std::size_t step = (bytes + 255) / 256 * 256;
  const auto places = static_cast<int>(std::max<std::size_t>(x.bytes() / step, 1));
  const double time = microseconds(stream, [&](int i) {
    const auto offset = static_cast<DevicePointer>(i % places) * step;
    const DevicePointer to = y.pointer() + offset;
    const DevicePointer from = x.pointer() + offset;
    const DevicePointer weights = x.pointer();
    std::vector<cubinary_arg> arguments = {CUBINARY_ARG(to), CUBINARY_ARG(from)};
    if (weighted) {
      arguments.push_back(CUBINARY_ARG(weights));
    }
    arguments.push_back({nullptr, sizeof(float)});
    launch(*kernel, arguments, stream);
  });
  const double rate = 2.0 * static_cast<double>(bytes) / time / 1e3;
  std::printf("%-8s %-5s %7lld x %-6lld %9.1f us %8.0f GB/s %5.0f%%  %s\n", name.c_str(),
              dtype.c_str(), static_cast<long long>(rows), static_cast<long long>(cols), time, rate,
              100 * rate / ceiling, kernel->info().config);
}

void time_gemm(const Stream& stream, const Release& release, const std::string& dtype,
               const std::array<std::int64_t, 3>& sizes, const std::array<DevicePointer, 3>& abc,
               double ceiling) {
  const auto [m, n, k] = sizes;
  const auto kernel =
      prepare(release, "gemm_nt", dtype, {{"M", m}, {"N", n}, {"K", k}}, {"c", "a", "b"}, 256);
  const double time = microseconds(stream, [&](int) {
    launch(*kernel,
           {CUBINARY_ARG(abc[2]),
            CUBINARY_ARG(abc[0]),
            CUBINARY_ARG(abc[1]),
            {nullptr, sizeof(DevicePointer)},
            {nullptr, sizeof(DevicePointer)},
            {nullptr, sizeof(std::int32_t)}},
           stream);
  });
  const double rate =
      2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k) / time / 1e6;
  std::printf("%-8s %-5s %4lld x %-5lld x %-4lld %7.1f us %8.1f TFLOP/s", "gemm_nt", dtype.c_str(),
              static_cast<long long>(m), static_cast<long long>(n), static_cast<long long>(k), time,
              rate);
  if (ceiling > 0) {
    std::printf(" %4.0f%%", 100 * rate / ceiling);
  }
  std::printf("  %s\n", kernel->info().config);
}

int run() {
  const Stream stream;
  Release release;
  if (const auto status = release.open(""); status != CUBINARY_OK) {
    throw CudaError(failure("open", status));
  }
  DeviceBuffer x(k_buffer_bytes);
  DeviceBuffer y(k_buffer_bytes);
  for (const std::string dtype : {"f32", "bf16"}) {
    fill(x, dtype);
    const double bandwidth = copy_bandwidth(stream, x, y);
    std::printf("device-to-device copy: %.0f GB/s read and written\n", bandwidth);
    for (const char* name : {"rmsnorm", "l2norm"}) {
      for (const std::int64_t cols : {128, 1000, 1024, 4095, 4096, 8192, 16384, 32768}) {
        const std::int64_t elements =
            static_cast<std::int64_t>((k_buffer_bytes / 4) / element_size(dtype));
        time_norm(stream, release, name, dtype, elements / cols, cols, x, y, bandwidth);
      }
      time_norm(stream, release, name, dtype, 1, 4096, x, y, bandwidth);
      time_norm(stream, release, name, dtype, 64, 4096, x, y, bandwidth);
    }
  }
  for (const std::string dtype : {"f16", "bf16"}) {
    fill(x, dtype);
    const double peak = matrix_peak(stream, release, dtype, y);
    if (peak > 0) {
      std::printf("mma.sync %s alone: %.0f TFLOP/s\n", dtype.c_str(), peak);
    }
    const std::array<DevicePointer, 3> abc = {x.pointer(), x.pointer() + k_buffer_bytes / 2,
                                              y.pointer()};
    for (const auto& sizes : {std::array<std::int64_t, 3>{8192, 8192, 8192},
                              {4096, 4096, 4096},
                              {2048, 2048, 2048},
                              {1024, 1024, 1024},
                              {16, 4096, 4096},
                              {128, 4096, 4096},
                              {4096, 1024, 4096},
                              {4094, 4094, 4094},
                              {4095, 4095, 4095}}) {
      time_gemm(stream, release, dtype, sizes, abc, peak);
    }
  }
  return 0;
}

}  // namespace

int main() {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  if (const std::string missing = driver().open(); !missing.empty()) {
    std::printf("SKIP bench/kernels: %s\n", missing.c_str());
    return k_skipped;
  }
  try {
    return run();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench/kernels: %s\n", error.what());
    return 1;
  }
}
