// SPDX-License-Identifier: Apache-2.0
#include "builder/tune/worker/program.hpp"

#include <array>
#include <cstring>

namespace cubinary::builder {

using core::ErrorCode;
using core::fail;
using core::Result;

namespace {

/// Statuses of a launch that was refused before it ran; the context stays good.
bool is_refusal(cuda::Status status) {
  switch (status) {
    case 1:    // CUDA_ERROR_INVALID_VALUE
    case 98:   // CUDA_ERROR_INVALID_DEVICE_FUNCTION
    case 209:  // CUDA_ERROR_NO_BINARY_FOR_GPU
    case 701:  // CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES
    case 720:  // CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE
    case 801:  // CUDA_ERROR_NOT_SUPPORTED
    case 912:  // CUDA_ERROR_INVALID_CLUSTER_SIZE
      return true;
    default:
      return false;
  }
}

Result<void> judge_launch(const Gpu& gpu, cuda::Status status, std::string_view call) {
  auto result = gpu.check(status, call);
  if (!result && is_refusal(status)) {
    return fail(ErrorCode::unsupported, result.error().message);
  }
  return result;
}

}  // namespace

Result<Module> Module::load(const Gpu& gpu, core::ByteView cubin) {
  Module module;
  TRY(judge_launch(gpu, gpu.driver().module_load(&module.m_module, cubin.data()),
                   "cuModuleLoadData"));
  module.m_gpu = &gpu;
  return module;
}

Module::~Module() {
  if (m_gpu != nullptr) {
    (void)m_gpu->driver().module_unload(m_module);
  }
}

Result<cuda::Function> Module::function(const std::string& symbol) const {
  const core::Driver& driver = m_gpu->driver();
  cuda::Function function = nullptr;
  TRY(m_gpu->check(driver.module_function(&function, m_module, symbol.c_str()),
                   "cuModuleGetFunction " + symbol));
  if (driver.function_load != nullptr) {
    TRY(m_gpu->check(driver.function_load(function), "cuFuncLoad"));
  }
  return function;
}

Result<Program> Program::make(const Gpu& gpu, const Module& module, const ProgramSpec& spec) {
  Program program;
  program.m_skipped = spec.skipped;
  if (spec.skipped) {
    return program;
  }
  const core::Driver& driver = gpu.driver();
  for (const KernelLaunch& launch : spec.launches) {
    Step step;
    step.launch = launch;
    TRY_ASSIGN(step.function, module.function(launch.symbol));
    if (launch.smem > 0) {
      // Beyond 48 KiB it must be asked for; what is left beside static memory is the limit.
      TRY(judge_launch(gpu,
                       driver.function_set(step.function, cuda::k_function_dynamic_smem,
                                           static_cast<int>(launch.smem)),
                       "cuFuncSetAttribute"));
    }
    if (launch.cluster[0] != 0 &&
        std::uint64_t{launch.cluster[0]} * launch.cluster[1] * launch.cluster[2] > 8) {
      (void)driver.function_set(step.function, cuda::k_function_nonportable_cluster, 1);
    }
    if ((launch.cooperative || launch.cluster[0] != 0) && driver.launch_ex == nullptr) {
      return fail(ErrorCode::unsupported,
                  "this driver has no cuLaunchKernelEx for cooperative launches and clusters");
    }
    if (launch.cooperative) {
      int per_sm = 0;
      const std::uint64_t threads =
          std::uint64_t{launch.block[0]} * launch.block[1] * launch.block[2];
      TRY(gpu.check(gpu.functions().resident_blocks(&per_sm, step.function,
                                                    static_cast<int>(threads), launch.smem),
                    "cuOccupancyMaxActiveBlocksPerMultiprocessor"));
      const std::uint64_t blocks = std::uint64_t{launch.grid[0]} * launch.grid[1] * launch.grid[2];
      const auto resident =
          static_cast<std::uint64_t>(per_sm) * static_cast<std::uint64_t>(gpu.spec().sm_count);
      if (blocks > resident) {
        return fail(ErrorCode::unsupported, "a cooperative grid of " + std::to_string(blocks) +
                                                " blocks cannot be resident: at most " +
                                                std::to_string(resident) + " are");
      }
    }
    program.m_steps.push_back(std::move(step));
  }
  if (spec.workspace != 0) {
    TRY_ASSIGN(program.m_workspace, GuardedBuffer::make(gpu, spec.workspace));
    program.m_zeroed = spec.zeroed;
  }
  return program;
}

Result<void> Program::launch(const Gpu& gpu,
                             const std::vector<cuda::DevicePointer>& buffers) const {
  for (const auto& [offset, bytes] : m_zeroed) {
    TRY(gpu.set(m_workspace.data() + offset, 0, bytes));
  }
  std::array<std::uint64_t, 512> values;  // NOLINT: filled as far as used
  std::array<void*, 512> pointers;        // NOLINT: the same
  for (const Step& step : m_steps) {
    const KernelLaunch& launch = step.launch;
    if (launch.parameters.size() > values.size()) {
      return fail(ErrorCode::unsupported, "the kernel has too many parameters");
    }
    for (std::size_t i = 0; i < launch.parameters.size(); ++i) {
      const ParameterSpec& parameter = launch.parameters[i];
      if (parameter.buffer == ParameterSpec::k_constant) {
        values[i] = parameter.value;
      } else if (parameter.buffer == ParameterSpec::k_workspace) {
        values[i] = m_workspace.data() + parameter.offset;
      } else {
        values[i] = buffers.at(parameter.buffer);
      }
      pointers[i] = &values[i];
    }
    cuda::Status status = cuda::k_success;
    if (!launch.cooperative && launch.cluster[0] == 0) {
      status = gpu.driver().launch(step.function, launch.grid[0], launch.grid[1], launch.grid[2],
                                   launch.block[0], launch.block[1], launch.block[2], launch.smem,
                                   gpu.stream(), pointers.data(), nullptr);
    } else {
      std::array<cuda::LaunchAttribute, 2> attributes{};
      cuda::LaunchConfig config{{launch.grid[0], launch.grid[1], launch.grid[2]},
                                {launch.block[0], launch.block[1], launch.block[2]},
                                launch.smem,
                                gpu.stream(),
                                attributes.data(),
                                0};
      if (launch.cluster[0] != 0) {
        auto& attribute = attributes.at(config.attribute_count++);
        attribute.id = cuda::k_launch_cluster;
        std::memcpy(attribute.value.cluster, launch.cluster.data(), sizeof launch.cluster);
      }
      if (launch.cooperative) {
        auto& attribute = attributes.at(config.attribute_count++);
        attribute.id = cuda::k_launch_cooperative;
        attribute.value.cooperative = 1;
      }
      status = gpu.driver().launch_ex(&config, step.function, pointers.data(), nullptr);
    }
    TRY(judge_launch(gpu, status, "launch of " + launch.symbol));
  }
  return {};
}

Result<void> Program::count_damage(cuda::DevicePointer count) const {
  return m_workspace.bytes() == 0 ? Result<void>() : m_workspace.count_damage(count);
}

}  // namespace cubinary::builder
