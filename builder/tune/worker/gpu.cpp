// SPDX-License-Identifier: Apache-2.0
#include "builder/tune/worker/gpu.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "builder/tune/worker/device_code.hpp"
#include "core/base/file.hpp"
#include "core/driver/conditions.hpp"

namespace cubinary::builder {

using core::ErrorCode;
using core::fail;
using core::Result;

namespace {

std::string uuid_text(const cuda::Uuid& uuid) {
  std::string text = "GPU";
  for (std::size_t i = 0; i < sizeof uuid.bytes; ++i) {
    if (i == 0 || i == 4 || i == 6 || i == 8 || i == 10) {
      text += '-';
    }
    char digits[3];
    std::snprintf(digits, sizeof digits, "%02x", uuid.bytes[i]);
    text += digits;
  }
  return text;
}

/// "580.159.04" from "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.159.04  …"; the CUDA
/// version where there is no such file.
std::string driver_text(int cuda_version) {
  const auto proc = core::read_text_file("/proc/driver/nvidia/version", 1U << 16U);
  if (proc) {
    const std::string_view digits = "0123456789.";
    for (std::size_t at = 0; at < proc->size();) {
      const std::size_t begin = proc->find_first_not_of(" \t\n", at);
      if (begin == std::string::npos) {
        break;
      }
      const std::size_t end = std::min(proc->find_first_of(" \t\n", begin), proc->size());
      const std::string word = proc->substr(begin, end - begin);
      if (word.find('.') != std::string::npos &&
          word.find_first_not_of(digits) == std::string::npos) {
        return word;
      }
      at = end;
    }
  }
  return "cuda " + std::to_string(cuda_version / 1000) + "." +
         std::to_string(cuda_version % 1000 / 10);
}

}  // namespace

Result<void> Gpu::find(int device) {
  TRY_ASSIGN(m_driver, core::Driver::get());
  const core::Driver& driver = *m_driver;
  TRY_ASSIGN(m_functions, core::DeviceFunctions::bind(driver));
  int count = 0;
  TRY(driver.check(driver.device_count(&count), "cuDeviceGetCount"));
  if (device < 0 || device >= count) {
    return fail(ErrorCode::environment, count == 0
                                            ? std::string("there is no GPU here")
                                            : "there is no device " + std::to_string(device) +
                                                  ": this machine has " + std::to_string(count) +
                                                  ", numbered from 0");
  }
  TRY(driver.check(driver.device_get(&m_device, device), "cuDeviceGet"));
  TRY_ASSIGN(const core::DeviceFactsRead read, core::read_device(driver, m_device));
  m_spec.device_class = read.device_class.text();
  m_spec.product = read.name;
  m_spec.sm_count = read.facts.sm_count;
  m_spec.smem_optin = read.facts.smem_optin;
  m_spec.driver = driver_text(driver.cuda_version);
  cuda::Uuid uuid{};
  TRY(driver.check(m_functions.device_uuid(&uuid, m_device), "cuDeviceGetUuid"));
  m_spec.uuid = uuid_text(uuid);
  int l2 = 0;
  TRY(driver.check(driver.device_attribute(&l2, cuda::k_attribute_l2_bytes, m_device),
                   "cuDeviceGetAttribute"));
  m_spec.l2_bytes = l2;
  for (const auto& [name, value] : core::read_conditions(m_spec.uuid)) {
    m_spec.conditions.emplace_back(name, value);
  }
  m_has_tensor_cores = read.device_class.capability >= core::Capability{8, 0};
  return {};
}

Result<DeviceSpec> Gpu::identify(int device) {
  Gpu gpu;
  TRY(gpu.find(device));
  return gpu.m_spec;
}

Result<std::unique_ptr<Gpu>> Gpu::open(int device) {
  auto gpu = std::unique_ptr<Gpu>(new Gpu());
  TRY(gpu->find(device));
  const core::Driver& driver = *gpu->m_driver;
  TRY(driver.check(driver.primary_retain(&gpu->m_context, gpu->m_device),
                   "cuDevicePrimaryCtxRetain"));
  TRY(driver.check(driver.context_push(gpu->m_context), "cuCtxPushCurrent"));
  TRY(driver.check(gpu->m_functions.stream_create(&gpu->m_stream, cuda::k_stream_non_blocking),
                   "cuStreamCreate"));
  TRY(gpu->load_kernels(device_code()[0],
                        {"fill", "compare", "count_changed", "digest", "hold", "read_clock",
                         "read_words", "copy_words", "multiply_add"}));
  if (gpu->m_has_tensor_cores) {
    TRY(gpu->load_kernels(device_code()[1], {"mma_f16"}));
  }
  return gpu;
}

Gpu::~Gpu() = default;  // the process ends with its device

Result<void> Gpu::load_kernels(const core::EmbeddedFile& ptx,
                               const std::vector<const char*>& names) {
  cuda::Module module = nullptr;
  const char* const image = ptx.text.data();  // a zero ends it
  TRY(check(m_driver->module_load(&module, image), "loading the tuner's own kernels"));
  for (const char* name : names) {
    cuda::Function function = nullptr;
    TRY(check(m_driver->module_function(&function, module, name), "cuModuleGetFunction"));
    if (m_driver->function_load != nullptr) {
      TRY(check(m_driver->function_load(function), "cuFuncLoad"));
    }
    m_kernels.emplace(name, function);
  }
  return {};
}

Result<void> Gpu::run_packed(const char* kernel, std::uint32_t blocks, std::uint32_t threads,
                             void** arguments) const {
  const auto found = m_kernels.find(kernel);
  if (found == m_kernels.end()) {
    return fail(ErrorCode::unsupported, std::string("this device cannot run ") + kernel);
  }
  return check(
      m_driver->launch(found->second, blocks, 1, 1, threads, 1, 1, 0, m_stream, arguments, nullptr),
      kernel);
}

std::uint32_t Gpu::many_blocks() const {
  return static_cast<std::uint32_t>(m_spec.sm_count) * 8;
}

Result<void> Gpu::synchronize() const {
  return check(m_functions.stream_synchronize(m_stream), "cuStreamSynchronize");
}

Result<std::uint64_t> Gpu::free_memory() const {
  std::size_t free = 0;
  std::size_t total = 0;
  TRY(check(m_functions.memory_info(&free, &total), "cuMemGetInfo"));
  return free;
}

Result<void> Gpu::set(cuda::DevicePointer to, unsigned char pattern, std::uint64_t bytes) const {
  if (bytes == 0) {
    return {};
  }
  return check(m_driver->memset_async(to, pattern, bytes, m_stream), "cuMemsetD8Async");
}

Result<GuardedBuffer> GuardedBuffer::make(const Gpu& gpu, std::uint64_t bytes) {
  GuardedBuffer buffer;
  buffer.m_bytes = bytes;
  buffer.m_total = k_band + (bytes + 255) / 256 * 256 + k_band;
  const cuda::Status status = gpu.functions().allocate(&buffer.m_base, buffer.m_total);
  if (status == cuda::k_out_of_memory) {
    return fail(ErrorCode::too_large,
                "the device has no " + std::to_string(bytes) + " bytes left for a buffer");
  }
  TRY(gpu.check(status, "cuMemAlloc"));
  buffer.m_gpu = &gpu;
  TRY(gpu.set(buffer.m_base, k_guard, buffer.m_total));
  return buffer;
}

GuardedBuffer::~GuardedBuffer() {
  if (m_gpu != nullptr) {
    (void)m_gpu->functions().release(m_base);
  }
}

Result<void> GuardedBuffer::count_damage(cuda::DevicePointer count) const {
  const std::uint64_t tail = m_total - k_band - m_bytes;
  TRY(m_gpu->run("count_changed", 4, 256, m_base, k_band, std::uint32_t{k_guard}, count));
  return m_gpu->run("count_changed", 4, 256, data() + m_bytes, tail, std::uint32_t{k_guard}, count);
}

Result<SharedMemory> SharedMemory::make(const Gpu& gpu, std::size_t bytes) {
  SharedMemory memory;
  TRY(gpu.check(gpu.functions().allocate_host(&memory.m_host, bytes, cuda::k_host_mapped),
                "cuMemHostAlloc"));
  memory.m_gpu = &gpu;
  memory.m_bytes = bytes;
  TRY(gpu.check(gpu.functions().host_address(&memory.m_device, memory.m_host, 0),
                "cuMemHostGetDevicePointer"));
  memory.clear();
  return memory;
}

SharedMemory::~SharedMemory() {
  if (m_gpu != nullptr) {
    (void)m_gpu->functions().release_host(m_host);
  }
}

void SharedMemory::clear() const {
  std::memset(m_host, 0, m_bytes);
}

}  // namespace cubinary::builder
