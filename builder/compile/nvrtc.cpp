// SPDX-License-Identifier: Apache-2.0
#include "builder/compile/nvrtc.hpp"

#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <dlfcn.h>

#include "builder/compile/compiler_log.hpp"

namespace cubinary::builder {

using core::ErrorCode;
using core::fail;
using core::Result;

namespace {

using Program = struct NvrtcProgram*;
constexpr int k_success = 0;

struct CloseLibrary {
  void operator()(void* handle) const { dlclose(handle); }
};

}  // namespace

struct Nvrtc::Impl {
  std::unique_ptr<void, CloseLibrary> builtins;  // before the library, to outlive it
  std::unique_ptr<void, CloseLibrary> library;
  const char* (*error_string)(int) = nullptr;
  int (*version)(int*, int*) = nullptr;
  int (*create)(Program*, const char*, const char*, int, const char* const*,
                const char* const*) = nullptr;
  int (*destroy)(Program*) = nullptr;
  int (*add_name)(Program, const char*) = nullptr;
  int (*compile)(Program, int, const char* const*) = nullptr;
  int (*log_size)(Program, std::size_t*) = nullptr;
  int (*log)(Program, char*) = nullptr;
  int (*cubin_size)(Program, std::size_t*) = nullptr;
  int (*cubin)(Program, char*) = nullptr;
  int (*lowered_name)(Program, const char*, const char**) = nullptr;
};

namespace {

/// A program of the library's, destroyed with its scope.
class OwnedProgram {
 public:
  explicit OwnedProgram(int (*destroy)(Program*)) : m_destroy(destroy) {}
  OwnedProgram(const OwnedProgram&) = delete;
  OwnedProgram& operator=(const OwnedProgram&) = delete;
  ~OwnedProgram() {
    if (m_program != nullptr) {
      m_destroy(&m_program);
    }
  }
  Program* address() { return &m_program; }
  [[nodiscard]] Program get() const { return m_program; }

 private:
  int (*m_destroy)(Program*);
  Program m_program = nullptr;
};

/// NVRTC opens its built-ins by bare name, which the loader finds only where a toolkit is installed
/// system wide. Loaded from beside it beforehand, they are found wherever the toolkit lies. Null:
/// there are none.
void* open_builtins(const std::filesystem::path& library) {
  std::error_code error;
  const auto folder = std::filesystem::canonical(library, error).parent_path();
  const bool alternative = library.filename().string().find(".alt.") != std::string::npos;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name.starts_with("libnvrtc-builtins.") &&
        (name.find(".alt.") != std::string::npos) == alternative) {
      return dlopen(entry->path().c_str(), RTLD_NOW | RTLD_LOCAL);
    }
  }
  return nullptr;
}

}  // namespace

Nvrtc::Nvrtc(std::unique_ptr<Impl> impl) : m_impl(std::move(impl)) {
}
Nvrtc::Nvrtc(Nvrtc&&) noexcept = default;
Nvrtc& Nvrtc::operator=(Nvrtc&&) noexcept = default;
Nvrtc::~Nvrtc() = default;

Result<Nvrtc> Nvrtc::open(const std::filesystem::path& library) {
  auto impl = std::make_unique<Impl>();
  impl->builtins.reset(open_builtins(library));
  impl->library.reset(dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL));
  if (impl->library == nullptr) {
    return fail(ErrorCode::environment,
                "cannot load NVRTC: " + std::string(dlerror()) + "; name another with --toolkit");
  }
  std::string missing;
  const auto bind = [&](auto& function, const char* name) {
    void* const symbol = dlsym(impl->library.get(), name);
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(symbol);
    if (symbol == nullptr) {
      missing = name;
    }
  };
  bind(impl->error_string, "nvrtcGetErrorString");
  bind(impl->version, "nvrtcVersion");
  bind(impl->create, "nvrtcCreateProgram");
  bind(impl->destroy, "nvrtcDestroyProgram");
  bind(impl->add_name, "nvrtcAddNameExpression");
  bind(impl->compile, "nvrtcCompileProgram");
  bind(impl->log_size, "nvrtcGetProgramLogSize");
  bind(impl->log, "nvrtcGetProgramLog");
  bind(impl->cubin_size, "nvrtcGetCUBINSize");
  bind(impl->cubin, "nvrtcGetCUBIN");
  bind(impl->lowered_name, "nvrtcGetLoweredName");
  if (!missing.empty()) {
    return fail(ErrorCode::environment,
                library.string() + " lacks " + missing + ": it is no NVRTC of CUDA 12.8 or later");
  }
  return Nvrtc(std::move(impl));
}

CompileReply Nvrtc::compile(const CompileJob& job) const {
  CompileReply reply;
  int major = 0;
  int minor = 0;
  m_impl->version(&major, &minor);
  reply.version_major = major;
  reply.version_minor = minor;

  OwnedProgram program(m_impl->destroy);
  const auto refuse = [&](int code) {
    reply.message = "NVRTC: " + std::string(m_impl->error_string(code));
    return reply;
  };
  if (const int code = m_impl->create(program.address(), job.main_source.c_str(),
                                      job.main_name.c_str(), 0, nullptr, nullptr);
      code != k_success) {
    return refuse(code);
  }
  for (const std::string& entry : job.entries) {
    if (const int code = m_impl->add_name(program.get(), entry.c_str()); code != k_success) {
      return refuse(code);
    }
  }
  std::vector<std::string> options = job.options;
  // 12.8 does not know the option: there, names with internal linkage carry the process id.
  if (std::pair(major, minor) >= std::pair(12, 9)) {
    options.push_back("-frandom-seed=0x" + job.seed);
  }
  std::vector<const char*> pointers;
  for (const std::string& option : options) {
    pointers.push_back(option.c_str());
  }
  const int code =
      m_impl->compile(program.get(), static_cast<int>(pointers.size()), pointers.data());
  std::size_t size = 0;
  if (m_impl->log_size(program.get(), &size) == k_success && size > 1) {
    reply.log.resize(size);
    m_impl->log(program.get(), reply.log.data());
    reply.log.resize(size - 1);  // the last byte is a NUL
  }
  if (code != k_success) {
    reply.message = first_error(reply.log, core::Backend::nvrtc);
    return reply.message.empty() ? refuse(code) : reply;
  }
  if (const int got = m_impl->cubin_size(program.get(), &size); got != k_success || size == 0) {
    reply.message = "NVRTC made no cubin: the flags ask for something else (-dlto, -ptx?)";
    return reply;
  }
  reply.cubin.resize(size);
  if (const int got = m_impl->cubin(program.get(), reinterpret_cast<char*>(reply.cubin.data()));
      got != k_success) {
    return refuse(got);
  }
  for (const std::string& entry : job.entries) {
    const char* name = nullptr;
    if (const int got = m_impl->lowered_name(program.get(), entry.c_str(), &name);
        got != k_success) {
      return refuse(got);
    }
    reply.symbols.emplace_back(name);
  }
  reply.status = CompileReply::Status::ok;
  return reply;
}

}  // namespace cubinary::builder
