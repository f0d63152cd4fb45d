// SPDX-License-Identifier: Apache-2.0
#include "client/kernel.hpp"

#include <array>
#include <cstring>
#include <utility>

#include "core/launch/names.hpp"

namespace cubinary::client {
namespace {

using core::DeviceFactsRead;
using core::Driver;
using core::ErrorCode;
using core::fail;
using core::Result;
namespace cuda = core::cuda;

/// Pointers to parameter values of one launch; the driver takes 4 KiB of parameters from 8 bytes
/// up.
constexpr std::size_t k_max_parameters = 512;
constexpr std::uint64_t k_workspace_alignment = 256;

/// Loading is not allowed while any thread captures in global mode, unless this thread says that it
/// knows what it does: modules have nothing to do with the captured stream.
class RelaxedCapture {
 public:
  explicit RelaxedCapture(const Driver& driver) : m_driver(driver) {
    m_changed = driver.exchange_capture_mode != nullptr &&
                driver.exchange_capture_mode(&m_mode) == cuda::k_success;
  }
  ~RelaxedCapture() {
    if (m_changed) {
      (void)m_driver.exchange_capture_mode(&m_mode);
    }
  }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  const Driver& m_driver;
  int m_mode = cuda::k_capture_mode_relaxed;
  bool m_changed = false;
};

}  // namespace

Result<std::unique_ptr<Kernel>> Kernel::make(std::shared_ptr<Session> session, KernelTables tables,
                                             core::Choice choice, core::DeviceClass device) {
  auto kernel = std::unique_ptr<Kernel>(new Kernel(std::move(choice)));
  kernel->m_session = std::move(session);
  kernel->m_tables = std::move(tables);
  kernel->m_device = device;
  for (const auto& argument : kernel->m_choice.plan.arguments) {
    ArgumentCheck check;
    check.size = argument.size;
    check.pointer = core::is_pointer(argument.kind);
    check.misaligned = check.pointer && argument.alignment > 1
                           ? static_cast<std::uint64_t>(argument.alignment) - 1
                           : 0;
    check.may_be_null = argument.nullable || argument.buffer_bytes == 0;
    check.has_default = argument.default_value.has_value();
    kernel->m_checks.push_back(check);
  }
  kernel->m_empty = true;
  for (const auto& step : kernel->m_choice.plan.steps) {
    kernel->m_empty = kernel->m_empty && step.empty;
    if (step.parameters.size() > k_max_parameters) {
      return fail(ErrorCode::unsupported, "kernel " + kernel->m_choice.table->name + " has " +
                                              std::to_string(step.parameters.size()) +
                                              " parameters; at most " +
                                              std::to_string(k_max_parameters) + " can be passed");
    }
  }
  return kernel;
}

Result<void> Kernel::prepare() {
  if (m_ready.load(std::memory_order_acquire)) {
    return {};
  }
  const std::lock_guard lock(m_mutex);
  if (m_ready.load(std::memory_order_relaxed)) {
    return {};
  }
  if (auto prepared = prepare_locked(); !prepared) {
    return fail(prepared.error().with_context("preparing kernel " + m_choice.table->name));
  }
  m_ready.store(true, std::memory_order_release);
  return {};
}

Result<void> Kernel::prepare_locked() {
  TRY_ASSIGN(const Driver* driver, Driver::get());
  TRY_ASSIGN(const CurrentContext current, m_session->current_context(*driver));
  TRY_ASSIGN(const DeviceFactsRead read, m_session->device(*driver, current.device));
  // A device class that was given by hand may differ in size, not in what it can run.
  const bool fits = m_session->device_class_given()
                        ? m_choice.target.runs_on(read.device_class.capability)
                        : read.device_class == m_device;
  if (!fits) {
    return fail(ErrorCode::usage, "it was resolved for device class " + m_device.text() +
                                      ", but the current context is on " +
                                      read.device_class.text() + " (" + read.name +
                                      "): resolve it under the context it will run in");
  }
  TRY_ASSIGN(const ContextScope scope, ContextScope::enter(*driver, current));
  const RelaxedCapture relaxed(*driver);
  TRY_ASSIGN(m_module,
             m_session->load(*driver, current, *m_choice.table, m_choice.entry->artifact));

  // Kernels that share a module share its functions' attributes.
  const std::lock_guard lock(m_module->mutex);
  std::vector<PreparedStep> steps;
  for (const core::StepPlan& plan : m_choice.plan.steps) {
    PreparedStep step;
    step.plan = &plan;
    step.extended = plan.cooperative || plan.cluster[0] != 0;
    const std::string& symbol = m_choice.entry->symbols.at(plan.step).symbol;
    TRY(driver->check(driver->module_function(&step.function, m_module->module, symbol.c_str()),
                      "cuModuleGetFunction " + symbol));
    if (driver->function_load != nullptr) {
      TRY(driver->check(driver->function_load(step.function), "cuFuncLoad " + symbol));
    }
    int max_threads = 0;
    TRY(driver->check(
        driver->function_get(&max_threads, cuda::k_function_max_threads, step.function),
        "cuFuncGetAttribute " + symbol));
    const std::uint64_t threads = std::uint64_t{plan.block[0]} * plan.block[1] * plan.block[2];
    if (!plan.empty && threads > static_cast<std::uint64_t>(max_threads)) {
      return fail(ErrorCode::no_match,
                  "a block of " + std::to_string(threads) + " threads is more than the " +
                      std::to_string(max_threads) + " this device runs of " + symbol);
    }
    if (plan.dynamic_smem > 0) {
      int allowed = 0;
      TRY(driver->check(
          driver->function_get(&allowed, cuda::k_function_dynamic_smem, step.function),
          "cuFuncGetAttribute " + symbol));
      if (plan.dynamic_smem > static_cast<std::uint64_t>(allowed)) {
        TRY(driver->check(driver->function_set(step.function, cuda::k_function_dynamic_smem,
                                               static_cast<int>(plan.dynamic_smem)),
                          "cuFuncSetAttribute, " + std::to_string(plan.dynamic_smem) +
                              " bytes of dynamic shared memory for " + symbol));
      }
    }
    if (step.extended && driver->launch_ex == nullptr) {
      return fail(ErrorCode::driver, "the driver has no cuLaunchKernelEx, which " + symbol +
                                         " needs: install branch 525 or newer");
    }
    // Clusters of more than 8 blocks are a choice of the device, not of the architecture.
    if (std::uint64_t{plan.cluster[0]} * plan.cluster[1] * plan.cluster[2] > 8) {
      TRY(driver->check(
          driver->function_set(step.function, cuda::k_function_nonportable_cluster, 1),
          "cuFuncSetAttribute, cluster of " + symbol));
    }
    steps.push_back(step);
  }
  m_driver = driver;
  m_context = current;
  m_steps = std::move(steps);
  return {};
}

Result<void> Kernel::check_arguments(std::span<const ArgumentValue> arguments) const {
  const bool workspace = m_choice.plan.workspace_bytes != 0;
  if (arguments.size() != m_checks.size() + (workspace ? 1 : 0)) {
    return fail(ErrorCode::usage, "kernel " + m_choice.table->name + " takes " +
                                      std::to_string(m_checks.size()) + " arguments" +
                                      (workspace ? " and then its workspace" : "") + "; " +
                                      std::to_string(arguments.size()) + " were passed");
  }
  for (std::size_t i = 0; i < m_checks.size(); ++i) {
    const ArgumentCheck& check = m_checks[i];
    const ArgumentValue& argument = arguments[i];
    if (argument.data == nullptr) {
      if (check.pointer ? !check.may_be_null : !check.has_default) {
        return fail(bad_argument(i, arguments));
      }
      continue;
    }
    if (argument.size != check.size) {
      return fail(bad_argument(i, arguments));
    }
    if (check.pointer) {
      std::uint64_t address = 0;
      std::memcpy(&address, argument.data, sizeof address);
      if ((address & check.misaligned) != 0 || (address == 0 && !check.may_be_null)) {
        return fail(bad_argument(i, arguments));
      }
    }
  }
  if (workspace) {
    const ArgumentValue& argument = arguments.back();
    std::uint64_t address = 0;
    if (argument.data != nullptr && argument.size == sizeof address) {
      std::memcpy(&address, argument.data, sizeof address);
    }
    if (address == 0 || address % k_workspace_alignment != 0) {
      return fail(ErrorCode::usage,
                  "kernel " + m_choice.table->name + " needs a workspace of " +
                      std::to_string(m_choice.plan.workspace_bytes) +
                      " bytes, aligned to 256, as its last argument" +
                      (address == 0 ? "" : "; the pointer passed is not aligned"));
    }
  }
  return {};
}

core::Error Kernel::bad_argument(std::size_t index,
                                 std::span<const ArgumentValue> arguments) const {
  const core::CallerArgument& argument = m_choice.plan.arguments[index];
  const ArgumentValue& value = arguments[index];
  const std::string where = "kernel " + m_choice.table->name + ", argument " +
                            std::to_string(index + 1) + " (" + argument.name + "): ";
  if (value.data == nullptr && !m_checks[index].pointer) {
    return {ErrorCode::usage, where + "it has no default, pass its value"};
  }
  if (value.data != nullptr && value.size != argument.size) {
    return {ErrorCode::usage, where + "its value has " + std::to_string(argument.size) + " bytes" +
                                  (argument.dtype.empty() || m_checks[index].pointer
                                       ? std::string(m_checks[index].pointer ? " (a pointer)" : "")
                                       : " (" + argument.dtype + ")") +
                                  "; " + std::to_string(value.size) + " were passed"};
  }
  std::uint64_t address = 0;
  if (value.data != nullptr) {
    std::memcpy(&address, value.data, sizeof address);
  }
  if (address == 0) {
    return {ErrorCode::usage, where + "the pointer is null, but " +
                                  std::to_string(argument.buffer_bytes) +
                                  " bytes must lie behind it"};
  }
  return {ErrorCode::usage, where + "the pointer is not aligned to the " +
                                std::to_string(argument.alignment) +
                                " bytes the kernel was resolved for: resolve it with the "
                                "alignment the pointer has"};
}

Result<void> Kernel::launch(std::span<const ArgumentValue> arguments, cuda::Stream stream) {
  TRY(check_arguments(arguments));
  if (m_empty) {
    return {};
  }
  if (!m_ready.load(std::memory_order_acquire)) {
    TRY_ASSIGN(const Driver* driver, Driver::get());
    TRY_ASSIGN(const CurrentContext current, m_session->current_context(*driver));
    int capturing = 0;
    {
      TRY_ASSIGN(const ContextScope scope, ContextScope::enter(*driver, current));
      const cuda::Status status = driver->stream_capturing(stream, &capturing);
      // The default stream answers with an error while another stream captures.
      capturing = capturing != 0 || status != cuda::k_success;
    }
    if (capturing != 0) {
      return fail(ErrorCode::usage, "kernel " + m_choice.table->name +
                                        " is not loaded yet and its stream is being captured: call "
                                        "cubinary_prepare before the capture begins");
    }
    TRY(prepare());
  }

  cuda::Context now = nullptr;
  TRY(m_driver->check(m_driver->context_current(&now), "cuCtxGetCurrent"));
  if (now == m_context.context) [[likely]] {
    return launch_steps(arguments, stream);
  }
  if (now == nullptr) {
    TRY_ASSIGN(const ContextScope scope, ContextScope::enter(*m_driver, m_context));
    return launch_steps(arguments, stream);
  }
  return fail(ErrorCode::usage,
              "kernel " + m_choice.table->name +
                  " is loaded in another CUDA context than the current one: resolve it under the "
                  "context it will run in");
}

Result<void> Kernel::launch_steps(std::span<const ArgumentValue> arguments, cuda::Stream stream) {
  std::uint64_t workspace = 0;
  if (m_choice.plan.workspace_bytes != 0) {
    std::memcpy(&workspace, arguments.back().data, sizeof workspace);
    for (const auto& [offset, bytes] : m_choice.plan.zeroed) {
      if (bytes != 0) {
        TRY(m_driver->check(m_driver->memset_async(workspace + offset, 0, bytes, stream),
                            "cuMemsetD8Async"));
      }
    }
  }
  static constexpr std::uint64_t k_null = 0;
  std::array<void*, k_max_parameters> parameters;      // NOLINT: filled below, as far as used
  std::array<std::uint64_t, k_max_parameters> places;  // NOLINT: the same
  for (const PreparedStep& step : m_steps) {
    const core::StepPlan& plan = *step.plan;
    if (plan.empty) {
      continue;
    }
    std::size_t used_places = 0;
    for (std::size_t i = 0; i < plan.parameters.size(); ++i) {
      const core::ParameterSource& source = plan.parameters[i];
      const void* value = nullptr;
      switch (source.from) {
        case core::ParameterSource::From::caller_pointer:
          value = arguments[source.index].data;
          if (value == nullptr) {
            value = &k_null;
          }
          break;
        case core::ParameterSource::From::caller_value:
          value = arguments[source.index].data;
          if (value == nullptr) {
            value = m_choice.plan.arguments[source.index].default_value->data();
          }
          break;
        case core::ParameterSource::From::workspace:
          places[used_places] = workspace + source.offset;
          value = &places[used_places++];
          break;
        case core::ParameterSource::From::constant:
          value = source.value.data();
          break;
      }
      parameters[i] = const_cast<void*>(value);  // the driver only reads
    }
    cuda::Status status = cuda::k_success;
    if (!step.extended) [[likely]] {
      status = m_driver->launch(step.function, plan.grid[0], plan.grid[1], plan.grid[2],
                                plan.block[0], plan.block[1], plan.block[2], plan.dynamic_smem,
                                stream, parameters.data(), nullptr);
    } else {
      std::array<cuda::LaunchAttribute, 2> attributes{};
      cuda::LaunchConfig config{{plan.grid[0], plan.grid[1], plan.grid[2]},
                                {plan.block[0], plan.block[1], plan.block[2]},
                                plan.dynamic_smem,
                                stream,
                                attributes.data(),
                                0};
      if (plan.cluster[0] != 0) {
        auto& attribute = attributes[config.attribute_count++];
        attribute.id = cuda::k_launch_cluster;
        std::memcpy(attribute.value.cluster, plan.cluster.data(), sizeof plan.cluster);
      }
      if (plan.cooperative) {
        auto& attribute = attributes[config.attribute_count++];
        attribute.id = cuda::k_launch_cooperative;
        attribute.value.cooperative = 1;
      }
      status = m_driver->launch_ex(&config, step.function, parameters.data(), nullptr);
    }
    if (status != cuda::k_success) [[unlikely]] {
      return fail(m_driver->check(status, "launching kernel " + m_choice.table->name).error());
    }
  }
  return {};
}

}  // namespace cubinary::client
