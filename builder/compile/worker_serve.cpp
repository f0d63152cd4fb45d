// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <cstring>
#include <map>

#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

#include "builder/compile/nvcc.hpp"
#include "builder/compile/nvrtc.hpp"
#include "builder/compile/precompiled.hpp"
#include "builder/compile/worker.hpp"
#include "builder/process/frame.hpp"

namespace cubinary::builder {

namespace {

double cpu_ms() {
  double total = 0;
  for (const int who : {RUSAGE_SELF, RUSAGE_CHILDREN}) {
    rusage usage{};
    getrusage(who, &usage);
    for (const timeval& time : {usage.ru_utime, usage.ru_stime}) {
      total += static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_usec) / 1e3;
    }
  }
  return total;
}

/// A compilation allocates and frees some hundred megabytes in pieces: what is given back to the
/// system at once is cleared and mapped again by the next one, which takes a twentieth of a light
/// candidate's time.
void keep_memory() {
#ifdef __GLIBC__
  constexpr int k_kept = 256 << 20;
  constexpr int k_largest_piece = 32 << 20;
  constexpr int k_step = 16 << 20;
  mallopt(M_TRIM_THRESHOLD, k_kept);
  mallopt(M_MMAP_THRESHOLD, k_largest_piece);
  mallopt(M_TOP_PAD, k_step);
#endif
}

class Compilers {
 public:
  CompileReply compile(const CompileJob& job) {
    CompileReply reply;
    reply.status = CompileReply::Status::environment;
    if (chdir(job.folder.c_str()) != 0) {
      reply.message = "cannot enter " + job.folder + ": " + std::strerror(errno);
      return reply;
    }
    if (job.backend == core::Backend::nvcc) {
      return compile_with_nvcc(job);
    }
    auto found = m_nvrtc.find(job.compiler);
    if (found == m_nvrtc.end()) {
      auto opened = Nvrtc::open(job.compiler);
      if (!opened) {
        reply.message = opened.error().message;
        return reply;
      }
      found = m_nvrtc.emplace(job.compiler, std::move(*opened)).first;
    }
    return compile(found->second, job);
  }

 private:
  CompileReply compile(const Nvrtc& nvrtc, const CompileJob& job) {
    const std::vector<std::string> options = m_headers.options_for(job);
    if (options.empty()) {
      return nvrtc.compile(job);
    }
    CompileJob faster = job;
    faster.options.insert(faster.options.end(), options.begin(), options.end());
    CompileReply reply = nvrtc.compile(faster);
    // What fails is told as it would be without them.
    if (reply.status != CompileReply::Status::ok) {
      return nvrtc.compile(job);
    }
    reply.log = PrecompiledHeaders::without_remarks(reply.log);
    return reply;
  }

  PrecompiledHeaders m_headers;
  std::map<std::string, Nvrtc> m_nvrtc;
};

}  // namespace

int serve_compile_jobs(const AroundCompile& around) {
  // Nothing outside the build key may change what the compilers make.
  for (const char* variable : {"NVCC_APPEND_FLAGS", "NVCC_PREPEND_FLAGS", "CPATH", "C_INCLUDE_PATH",
                               "CPLUS_INCLUDE_PATH", "OBJC_INCLUDE_PATH"}) {
    unsetenv(variable);
  }
  setenv("LC_ALL", "C", 1);
  keep_memory();
  Compilers compilers;
  const CompileStep compile = [&](const CompileJob& job) { return compilers.compile(job); };
  core::Bytes bytes;
  while (receive_frame(STDIN_FILENO, bytes, nullptr, -1) == FrameEnd::done) {
    const auto job = decode_job(bytes);
    if (!job) {
      return 1;
    }
    const double before = cpu_ms();
    CompileReply reply = around ? around(*job, compile) : compile(*job);
    reply.cpu_ms = cpu_ms() - before;
    if (send_frame(STDIN_FILENO, encode(reply)) != FrameEnd::done) {
      return 1;
    }
  }
  return 0;
}

}  // namespace cubinary::builder
