// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "builder/process/archive.hpp"
#include "core/base/bytes.hpp"

namespace cubinary::builder {

// What the tuner's coordinator asks of the worker process that opens the device. The worker decides
// nothing: shapes, launches, limits and statistics are the coordinator's.

enum class FillKind : std::uint8_t { zero, constant, uniform, normal, range, index, file };

struct FillSpec {
  FillKind kind = FillKind::zero;
  double a = 0;      ///< constant, low, mean, or the bound of an index
  double b = 0;      ///< high or deviation
  core::Bytes data;  ///< of a file: as many bytes as the buffer has
};

/// One pointer argument of a problem.
struct BufferSpec {
  std::string name;
  std::uint32_t dtype = 0;  ///< into core::dtype_table()
  std::uint64_t count = 0;  ///< elements; 0: the pointer is still valid
  bool input = false;
  bool output = false;  ///< compared; with `input` too, restored before every launch
  FillSpec fill;
  double relative = 0;  ///< tolerance
  double absolute = 0;
};

/// Where one kernel parameter comes from.
struct ParameterSpec {
  static constexpr std::uint32_t k_constant = ~0U;
  static constexpr std::uint32_t k_workspace = ~0U - 1;
  std::uint32_t buffer = k_constant;  ///< of the problem, or one of the above
  std::uint64_t offset = 0;           ///< into the workspace
  std::uint64_t value = 0;            ///< a constant's bytes, little endian
};

struct KernelLaunch {
  std::string symbol;
  std::array<std::uint32_t, 3> grid{1, 1, 1};
  std::array<std::uint32_t, 3> block{1, 1, 1};
  std::array<std::uint32_t, 3> cluster{0, 0, 0};  ///< zeros: none
  std::uint32_t smem = 0;
  bool cooperative = false;
  std::vector<ParameterSpec> parameters;
};

/// All launches of a kernel for one shape.
struct ProgramSpec {
  bool skipped = false;  ///< the config does not serve this shape
  std::vector<KernelLaunch> launches;
  std::uint64_t workspace = 0;  ///< bytes
  std::vector<std::pair<std::uint64_t, std::uint64_t>>
      zeroed;  ///< of the workspace, offset and bytes
};

/// One shape to check on. The first of a problem is also the one to measure.
struct InstanceSpec {
  std::string shape;  ///< for messages
  std::vector<BufferSpec> buffers;
  ProgramSpec prepare;  ///< skipped when there is none
  ProgramSpec reference;
};

struct ProblemSpec {
  core::Bytes reference;  ///< cubin
  core::Bytes prepare;    ///< cubin, may be empty
  std::vector<InstanceSpec> instances;
  std::uint64_t seed = 0;
  bool cold = true;
};

struct CandidateSpec {
  core::Bytes cubin;
  std::vector<ProgramSpec> programs;  ///< one an instance
};

struct TuneRequest {
  enum class Kind : std::uint8_t {
    identify,  ///< device number in `slot`; answers `device` without touching it
    open,      ///< device number in `slot`; answers `device`
    peaks,     ///< answers `numbers`
    problem,   ///< forgets what was there before
    load,      ///< candidate into `slot`: loads and checks it
    sample,    ///< slots in `order`, one sample each
    drop,      ///< the candidate in `slot`
  };
  Kind kind = Kind::open;
  std::uint32_t slot = 0;
  ProblemSpec problem;
  CandidateSpec candidate;
  std::vector<std::uint32_t> order;
};

struct DeviceSpec {
  std::string device_class;
  std::string product;
  std::string uuid;  ///< "GPU-…"
  std::string driver;
  std::int64_t sm_count = 0;
  std::int64_t smem_optin = 0;
  std::int64_t l2_bytes = 0;
  std::vector<std::pair<std::string, std::string>> conditions;
};

struct TuneReply {
  enum class State : std::uint8_t {
    ok,
    wrong,        ///< ran, and left something wrong in memory
    fault,        ///< the device or driver reported a failure of the kernel
    invalid,      ///< the device cannot launch it like this
    environment,  ///< nothing to do with a candidate: no driver, no memory, a broken request
  };
  State state = State::ok;
  std::string message;
  bool worn = false;  ///< the process must not be used any more
  DeviceSpec device;
  double max_error = 0;  ///< in tolerances
  std::vector<double> times_us;
  double clock_mhz = 0;  ///< over the samples; 0: could not be told
  bool held = true;      ///< the stream was held back until all was queued
  std::vector<std::pair<std::string, double>> numbers;
};

template <typename A>
void fields(A& archive, Of<A, FillSpec>& m) {
  archive(m.kind, m.a, m.b, m.data);
}
template <typename A>
void fields(A& archive, Of<A, BufferSpec>& m) {
  archive(m.name, m.dtype, m.count, m.input, m.output, m.fill, m.relative, m.absolute);
}
template <typename A>
void fields(A& archive, Of<A, ParameterSpec>& m) {
  archive(m.buffer, m.offset, m.value);
}
template <typename A>
void fields(A& archive, Of<A, KernelLaunch>& m) {
  archive(m.symbol, m.grid, m.block, m.cluster, m.smem, m.cooperative, m.parameters);
}
template <typename A>
void fields(A& archive, Of<A, ProgramSpec>& m) {
  archive(m.skipped, m.launches, m.workspace, m.zeroed);
}
template <typename A>
void fields(A& archive, Of<A, InstanceSpec>& m) {
  archive(m.shape, m.buffers, m.prepare, m.reference);
}
template <typename A>
void fields(A& archive, Of<A, ProblemSpec>& m) {
  archive(m.reference, m.prepare, m.instances, m.seed, m.cold);
}
template <typename A>
void fields(A& archive, Of<A, CandidateSpec>& m) {
  archive(m.cubin, m.programs);
}
template <typename A>
void fields(A& archive, Of<A, TuneRequest>& m) {
  archive(m.kind, m.slot, m.problem, m.candidate, m.order);
}
template <typename A>
void fields(A& archive, Of<A, DeviceSpec>& m) {
  archive(m.device_class, m.product, m.uuid, m.driver, m.sm_count, m.smem_optin, m.l2_bytes,
          m.conditions);
}
template <typename A>
void fields(A& archive, Of<A, TuneReply>& m) {
  archive(m.state, m.message, m.worn, m.device, m.max_error, m.times_us, m.clock_mhz, m.held,
          m.numbers);
}

}  // namespace cubinary::builder
