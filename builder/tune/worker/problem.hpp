// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "builder/tune/message.hpp"
#include "builder/tune/worker/gpu.hpp"
#include "builder/tune/worker/program.hpp"
#include "core/base/result.hpp"

namespace cubinary::builder {

/// One shape's memory: inputs as filled, what the reference made of them, and the candidate's own
/// outputs. Inputs are made on the device from a seed.
class Instance {
 public:
  /// Allocates, fills, runs `prepare` and the reference. Errors are the problem's, not a
  /// candidate's.
  [[nodiscard]] static core::Result<Instance> make(const Gpu& gpu, const InstanceSpec& spec,
                                                   const Module& reference, const Module* prepare,
                                                   std::uint64_t seed);

  /// Where a candidate's pointers go, an address a buffer. Set 0 is the one that is checked; the
  /// others hold the same inputs elsewhere.
  [[nodiscard]] const std::vector<cuda::DevicePointer>& addresses(std::size_t set) const {
    return m_addresses[set];
  }
  [[nodiscard]] std::size_t sets() const { return m_addresses.size(); }
  /// Adds sets until there are `count`, or memory runs short.
  [[nodiscard]] core::Result<void> add_sets(const Gpu& gpu, std::size_t count);
  [[nodiscard]] std::uint64_t bytes() const { return m_bytes; }
  /// Inputs that launches change: they are put back before each.
  [[nodiscard]] bool restores() const { return m_restores; }
  /// Queues putting back what launches change in a set.
  [[nodiscard]] core::Result<void> restore(const Gpu& gpu, std::size_t set) const;
  /// Queues poisoning the outputs of set 0: no number, or `pattern` where every pattern is one.
  [[nodiscard]] core::Result<void> poison(const Gpu& gpu, unsigned char pattern) const;

  /// What a launch left behind; empty when all is right. Synchronizes.
  struct Verdict {
    std::string wrong;
    bool damage = false;  ///< something other than the outputs changed
    double max_error = 0;
  };
  /// Outputs; what is around them when they are wrong, or `all` is asked for.
  [[nodiscard]] core::Result<Verdict> judge(const Gpu& gpu, bool all) const;
  /// The same for guard bands and inputs of every set, without looking at outputs.
  [[nodiscard]] core::Result<Verdict> judge_surroundings(const Gpu& gpu) const;

 private:
  struct Argument {
    BufferSpec spec;
    std::uint64_t bytes = 0;
    std::vector<GuardedBuffer> data;  ///< a set each
    GuardedBuffer pristine;           ///< inout: as filled
    GuardedBuffer reference;          ///< outputs: what is right
    std::uint64_t digest = 0;         ///< in: of the data; out, inout: of the reference
  };
  [[nodiscard]] core::Result<void> fill(const Gpu& gpu, Argument& argument, std::uint64_t seed);
  [[nodiscard]] core::Result<std::uint64_t> digest_of(const Gpu& gpu,
                                                      const GuardedBuffer& buffer) const;
  void collect_addresses();

  std::vector<Argument> m_arguments;
  std::vector<std::vector<cuda::DevicePointer>> m_addresses;
  GuardedBuffer m_results;  ///< counters that kernels write
  std::uint64_t m_bytes = 0;
  bool m_restores = false;
};

}  // namespace cubinary::builder
