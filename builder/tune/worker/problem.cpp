// SPDX-License-Identifier: Apache-2.0
#include "builder/tune/worker/problem.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "core/model/dtype.hpp"

namespace cubinary::builder {

using core::ErrorCode;
using core::fail;
using core::Result;

namespace {

constexpr unsigned char k_not_a_number = 0xFF;  // bytes of one in every floating dtype
constexpr unsigned char k_reference_poison = 0xC3;

struct Comparison {
  std::uint64_t wrong = 0;
  std::uint64_t first = ~std::uint64_t{0};
  std::uint64_t worst = 0;
};

bool is_floating(const BufferSpec& spec) {
  return core::dtype_table()[spec.dtype].kind == core::DTypeKind::floating;
}

}  // namespace

Result<void> Instance::fill(const Gpu& gpu, Argument& argument, std::uint64_t seed) {
  const FillSpec& fill = argument.spec.fill;
  const cuda::DevicePointer to = argument.data[0].data();
  if (argument.spec.count == 0) {
    return {};
  }
  if (fill.kind == FillKind::file) {
    if (fill.data.size() != argument.bytes) {
      return fail(ErrorCode::environment, "the file for " + argument.spec.name + " has " +
                                              std::to_string(fill.data.size()) + " bytes, not " +
                                              std::to_string(argument.bytes));
    }
    TRY(gpu.synchronize());
    return gpu.check(gpu.functions().copy_to_device(to, fill.data.data(), fill.data.size()),
                     "cuMemcpyHtoD");
  }
  return gpu.run("fill", gpu.many_blocks(), 256, to, argument.spec.count, argument.spec.dtype,
                 static_cast<std::uint32_t>(fill.kind), fill.a, fill.b, seed);
}

Result<std::uint64_t> Instance::digest_of(const Gpu& gpu, const GuardedBuffer& buffer) const {
  TRY(gpu.set(m_results.data(), 0, 8));
  TRY(gpu.run("digest", gpu.many_blocks(), 256, buffer.data(), buffer.bytes(), m_results.data()));
  TRY(gpu.synchronize());
  std::uint64_t digest = 0;
  TRY(gpu.check(gpu.functions().copy_to_host(&digest, m_results.data(), sizeof digest),
                "cuMemcpyDtoH"));
  return digest;
}

void Instance::collect_addresses() {
  const std::size_t sets = m_arguments.empty() ? 1 : m_arguments[0].data.size();
  m_addresses.assign(sets, {});
  for (std::size_t set = 0; set < sets; ++set) {
    for (const Argument& argument : m_arguments) {
      m_addresses[set].push_back(argument.data[set].data());
    }
  }
}

Result<Instance> Instance::make(const Gpu& gpu, const InstanceSpec& spec, const Module& reference,
                                const Module* prepare, std::uint64_t seed) {
  Instance instance;
  TRY_ASSIGN(instance.m_results, GuardedBuffer::make(gpu, 4096));
  for (const BufferSpec& buffer : spec.buffers) {
    Argument& argument = instance.m_arguments.emplace_back();
    argument.spec = buffer;
    argument.spec.fill.data.clear();
    if (buffer.dtype >= core::dtype_table().size()) {
      return fail(ErrorCode::environment, "unknown dtype of " + buffer.name);
    }
    argument.bytes =
        buffer.count * static_cast<std::uint64_t>(core::dtype_table()[buffer.dtype].bytes);
    TRY_ASSIGN(GuardedBuffer data, GuardedBuffer::make(gpu, argument.bytes));
    argument.data.push_back(std::move(data));
    argument.spec.fill.data = buffer.fill.data;
    if (buffer.input) {
      TRY(instance.fill(gpu, argument, seed + instance.m_arguments.size()));
    }
    argument.spec.fill.data = {};
    instance.m_bytes += argument.bytes;
    instance.m_restores = instance.m_restores || (buffer.input && buffer.output);
  }
  instance.collect_addresses();
  if (prepare != nullptr && !spec.prepare.skipped) {
    TRY_ASSIGN(const Program program, Program::make(gpu, *prepare, spec.prepare));
    TRY(program.launch(gpu, instance.m_addresses[0]));
    TRY(gpu.synchronize());
  }
  // The reference writes into buffers of its own.
  std::vector<cuda::DevicePointer> addresses;
  for (Argument& argument : instance.m_arguments) {
    if (!argument.spec.output) {
      addresses.push_back(argument.data[0].data());
      continue;
    }
    TRY_ASSIGN(argument.reference, GuardedBuffer::make(gpu, argument.bytes));
    addresses.push_back(argument.reference.data());
    if (argument.spec.input) {
      TRY_ASSIGN(argument.pristine, GuardedBuffer::make(gpu, argument.bytes));
      for (const GuardedBuffer* to : {&argument.pristine, &argument.reference}) {
        TRY(gpu.check(gpu.functions().copy_async(to->data(), argument.data[0].data(),
                                                 argument.bytes, gpu.stream()),
                      "cuMemcpyDtoDAsync"));
      }
    } else {
      TRY(gpu.set(argument.reference.data(),
                  is_floating(argument.spec) ? k_not_a_number : k_reference_poison,
                  argument.bytes));
    }
  }
  TRY_ASSIGN(const Program program, Program::make(gpu, reference, spec.reference));
  TRY(program.launch(gpu, addresses));
  TRY(gpu.synchronize());
  for (Argument& argument : instance.m_arguments) {
    TRY_ASSIGN(argument.digest, instance.digest_of(gpu, argument.spec.output ? argument.reference
                                                                             : argument.data[0]));
  }
  return instance;
}

Result<void> Instance::add_sets(const Gpu& gpu, std::size_t count) {
  while (sets() < count) {
    TRY_ASSIGN(const std::uint64_t free, gpu.free_memory());
    if (m_bytes * 2 > free) {
      return {};
    }
    for (Argument& argument : m_arguments) {
      TRY_ASSIGN(GuardedBuffer data, GuardedBuffer::make(gpu, argument.bytes));
      const GuardedBuffer& from =
          argument.spec.input && argument.spec.output ? argument.pristine : argument.data[0];
      TRY(gpu.check(
          gpu.functions().copy_async(data.data(), from.data(), argument.bytes, gpu.stream()),
          "cuMemcpyDtoDAsync"));
      argument.data.push_back(std::move(data));
    }
    collect_addresses();
  }
  return {};
}

Result<void> Instance::restore(const Gpu& gpu, std::size_t set) const {
  for (const Argument& argument : m_arguments) {
    if (argument.spec.input && argument.spec.output && argument.bytes != 0) {
      TRY(gpu.check(gpu.functions().copy_async(argument.data[set].data(), argument.pristine.data(),
                                               argument.bytes, gpu.stream()),
                    "cuMemcpyDtoDAsync"));
    }
  }
  return {};
}

Result<void> Instance::poison(const Gpu& gpu, unsigned char pattern) const {
  for (const Argument& argument : m_arguments) {
    if (argument.spec.output && !argument.spec.input) {
      TRY(gpu.set(argument.data[0].data(), is_floating(argument.spec) ? k_not_a_number : pattern,
                  argument.bytes));
    }
  }
  return {};
}

Result<Instance::Verdict> Instance::judge(const Gpu& gpu, bool all) const {
  Verdict verdict;
  for (const Argument& argument : m_arguments) {
    if (!argument.spec.output || argument.spec.count == 0) {
      continue;
    }
    Comparison found;
    TRY(gpu.synchronize());
    TRY(gpu.check(gpu.functions().copy_to_device(m_results.data(), &found, sizeof found),
                  "cuMemcpyHtoD"));
    TRY(gpu.run("compare", gpu.many_blocks(), 256, argument.data[0].data(),
                argument.reference.data(), argument.spec.count, argument.spec.dtype,
                argument.spec.relative, argument.spec.absolute, m_results.data()));
    TRY(gpu.synchronize());
    TRY(gpu.check(gpu.functions().copy_to_host(&found, m_results.data(), sizeof found),
                  "cuMemcpyDtoH"));
    const auto worst = std::bit_cast<double>(found.worst);
    verdict.max_error = std::max(verdict.max_error, worst);
    if (found.wrong != 0 && verdict.wrong.empty()) {
      verdict.wrong = std::to_string(found.wrong) + " of " + std::to_string(argument.spec.count) +
                      " elements of " + argument.spec.name + " are wrong, the first at " +
                      std::to_string(found.first);
      if (std::isfinite(worst)) {
        verdict.wrong += ", the worst by " + std::to_string(worst) + " tolerances";
      }
    }
  }
  if (verdict.wrong.empty() && !all) {
    return verdict;
  }
  TRY_ASSIGN(Verdict around, judge_surroundings(gpu));
  if (around.damage) {
    verdict.damage = true;
    verdict.wrong = std::move(around.wrong);
  }
  return verdict;
}

Result<Instance::Verdict> Instance::judge_surroundings(const Gpu& gpu) const {
  Verdict verdict;
  const auto blame = [&](std::string what) {
    if (verdict.wrong.empty()) {
      verdict.wrong = std::move(what);
    }
    verdict.damage = true;
  };
  std::vector<std::uint64_t> counts(m_arguments.size());
  if (counts.empty() || counts.size() * 8 > m_results.bytes()) {
    return verdict;
  }
  TRY(gpu.set(m_results.data(), 0, counts.size() * 8));
  for (std::size_t i = 0; i < m_arguments.size(); ++i) {
    for (const GuardedBuffer& data : m_arguments[i].data) {
      TRY(data.count_damage(m_results.data() + 8 * i));
    }
  }
  TRY(gpu.synchronize());
  TRY(gpu.check(gpu.functions().copy_to_host(counts.data(), m_results.data(), counts.size() * 8),
                "cuMemcpyDtoH"));
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] != 0) {
      blame("it wrote " + std::to_string(counts[i]) + " bytes outside of " +
            m_arguments[i].spec.name);
    }
  }
  for (const Argument& argument : m_arguments) {
    TRY_ASSIGN(const std::uint64_t digest,
               digest_of(gpu, argument.spec.output ? argument.reference : argument.data[0]));
    if (digest != argument.digest) {
      blame(argument.spec.output ? "it wrote into memory that is not its own"
                                 : "it changed its input " + argument.spec.name);
    }
  }
  return verdict;
}

}  // namespace cubinary::builder
